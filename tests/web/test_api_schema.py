"""Requests that schemathesis makes from the OpenAPI document, right ones and wrong ones: none makes the server fail."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode

from tests.web.conftest import Server
from tests.web.test_api import ROUTES

EXAMPLES = 2
"""Of each route and kind; the requests are the same in every run."""
SENT = ("method", "url", "params", "json", "data", "files", "content")

RIGHT = [(*route, GenerationMode.POSITIVE) for route in ROUTES]
WRONG = [(*route, GenerationMode.NEGATIVE) for route in ROUTES if route[0] == "POST" and "{" not in route[1]]


@pytest.fixture(scope="module")
def schema(shared_server: Server) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_dict(shared_server.app.openapi())


@pytest.mark.parametrize(("method", "path", "mode"), [*RIGHT, *WRONG])
def test_no_request_makes_the_server_fail(
    schema: schemathesis.BaseSchema, shared_server: Server, method: str, path: str, mode: GenerationMode
) -> None:
    statuses = []

    @hypothesis.settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=schema[f"/api/v1{path}"][method].as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        request: dict[str, Any] = case.as_transport_kwargs(base_url="http://localhost")
        headers = {**(request["headers"] or {}), **shared_server.headers("admin")}
        sent = {name: value for name, value in request.items() if name in SENT and value is not None}
        if not isinstance(sent.get("data", {}), dict | list):
            sent["content"] = sent.pop("data")
        answer = shared_server.client.request(**sent, headers=headers)
        assert answer.status_code < 500, answer.text
        statuses.append(answer.status_code)

    send()
    assert 401 not in statuses

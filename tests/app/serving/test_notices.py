"""Messages about ended runs and budgets, to a real HTTP server and a real mail server on this machine."""

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiosmtpd.controller import Controller

from tests.makers import make_candidate, make_program
from tests.web.conftest import make_settings
from trainfare.app.serving import notices
from trainfare.app.serving.notices import NoticeSender, near_budgets
from trainfare.clouds.webhook import post_signed
from trainfare.errors import ExternalError, UsageError
from trainfare.model.run import Fact, Run, RunLimits
from trainfare.settings import Settings
from trainfare.store.open import open_history

pytestmark = pytest.mark.loopback
KEY = "s"
PRIVATE = ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]"]


class Receiver(BaseHTTPRequestHandler):
    """Remembers what was posted, and answers with the next status."""

    posts: ClassVar[list[tuple[dict[str, str], bytes]]] = []
    statuses: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posts.append((dict(self.headers), body))
        self.send_response(self.statuses.pop(0) if self.statuses else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # the name is Python's
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(notices.SECRET, "shared")
    Receiver.posts.clear()
    Receiver.statuses.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook?a=1"
        server.shutdown()
        thread.join()


def store_run(settings: Settings, run_id: str, *, ended: bool, budget_usd: float | None = None) -> None:
    now = datetime.now(UTC)
    run = Run(
        id=run_id,
        made_at=now - timedelta(hours=1),
        owner="op@host/1",
        user="ann@example.org",
        program=make_program(),
        candidate=make_candidate(),
        results_directory="/tmp/results",
        limits=RunLimits(budget_usd=budget_usd),
    )
    with open_history(settings.store) as history:
        history.runs.add(run)
        lease = history.leases.take(f"run/{run_id}", holder="test", seconds=60, now=now)
        assert lease is not None
        launch = Fact(
            run_id=run_id,
            number=0,
            seen_at=now - timedelta(minutes=55),
            kind="launch intended",
            attempt=1,
            candidate=run.candidate,
        )
        if not ended:
            history.facts.append(launch, lease=lease)
        else:
            end = Fact(run_id=run_id, number=0, seen_at=now, kind="run ended", outcome="failed", text="It failed.")
            history.facts.append(end, lease=lease)


def test_an_ended_run_is_posted_once_with_a_signature_however_many_servers_look(tmp_path: Path, url: str) -> None:
    settings = make_settings(tmp_path, webhook=url, webhook_private=True)
    store_run(settings, "r1", ended=True)
    assert [NoticeSender(settings).look() for _ in range(3)] == [1, 0, 0]
    [(headers, body)] = Receiver.posts
    message = json.loads(body)
    assert (message["event"], message["data"]["run"], message["data"]["outcome"]) == ("run.ended", "r1", "failed")
    at, _, digest = headers["X-Trainfare-Signature"].removeprefix("t=").partition(",v1=")
    assert digest == hmac.new(b"shared", f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def test_a_refused_message_is_sent_again_after_a_pause(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path, webhook=url, webhook_private=True)
    store_run(settings, "r1", ended=True)
    Receiver.statuses += [500, 302]
    assert NoticeSender(settings).look() == 0
    assert NoticeSender(settings).look() == 0  # the pause is not over
    assert len(Receiver.posts) == 1
    monkeypatch.setattr(notices, "FIRST_PAUSE_SECONDS", 0.0)
    with open_history(settings.store) as history:
        lease = history.leases.current("notice/webhook/r1/ended")
        assert lease is not None
        history.leases.renew(lease, 0.0, datetime.now(UTC))
    sender = NoticeSender(settings)
    assert [sender.look(), sender.look(), sender.look()] == [0, 1, 0]
    assert [len({headers["X-Trainfare-Delivery"] for headers, _ in Receiver.posts}), len(Receiver.posts)] == [1, 3]


@pytest.mark.parametrize("host", PRIVATE)
def test_a_webhook_at_a_private_address_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host.strip("[]"), 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_words, **_options: found)
    with pytest.raises(UsageError, match="private"):
        post_signed(f"http://{host}/", b"{}", secret=KEY, delivery="1", event="run.ended")


def test_a_webhook_needs_a_secret_and_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(notices.SECRET, raising=False)
    with pytest.raises(UsageError, match="signed"):
        NoticeSender(make_settings(tmp_path, webhook="https://example.org/hook"))
    with pytest.raises(ExternalError, match="did not answer"):
        post_signed("http://127.0.0.1:9/", b"{}", secret=KEY, delivery="1", event="x", allow_private=True)


class Mailbox:
    def __init__(self) -> None:
        self.letters: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 # the name is aiosmtpd's
        self.letters.append(envelope)
        return "250 OK"


def test_an_ended_run_and_a_spent_budget_are_mailed_to_the_operator_and_the_user(tmp_path: Path) -> None:
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mail = Controller(box, hostname="127.0.0.1", port=port)
    mail.start()
    try:
        settings = make_settings(
            tmp_path,
            mail_server=f"smtp://127.0.0.1:{port}",
            mail_from="trainfare@example.org",
            mail_to="op@example.org, op@example.org",
        )
        store_run(settings, "r1", ended=True)
        store_run(settings, "r2", ended=False, budget_usd=0.01)
        assert NoticeSender(settings).look() == 2
    finally:
        mail.stop()
    assert {tuple(letter.rcpt_tos) for letter in box.letters} == {("op@example.org", "ann@example.org")}
    texts = sorted(letter.content.decode() for letter in box.letters)
    assert any("Subject: Run r1" in text and "failed" in text for text in texts)
    assert any("of its budget" in text for text in texts)


def test_a_budget_of_a_user_that_is_nearly_spent_is_noticed(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    store_run(settings, "r1", ended=False, budget_usd=10.0)
    near = replace(settings, max_usd_per_user_month=12.0, max_usd_per_user=100.0)
    [notice] = near_budgets("ann@example.org", near)
    assert notice.event == "budget.near"
    assert notice.data["period"] == "month"
    assert list(near_budgets("bob", near)) == []

"""The REST API: who may ask what, pages of lists, problem documents, and what a warm server remembers."""

import io
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.makers import make_plan, make_profile, make_run
from tests.web.conftest import Server
from trainfare.app.recommending.question import Question
from trainfare.app.running.start_for_user import KeyReusedError, run_id_of, start_for_user
from trainfare.app.serving.tokens import create_token
from trainfare.model.plan import Goal
from trainfare.store.open import open_history
from trainfare.web import api
from trainfare.web.answers import AnswerMemo


def all_routes() -> list[tuple[str, str]]:
    app = FastAPI()
    app.include_router(api.router)
    return [(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods]


ROUTES = all_routes()


def filled(path: str) -> str:
    return path.replace("{machine}", "aws/x").replace("{number}", "0").replace("{", "").replace("}", "")


def is_problem(answer: Any, status: int) -> bool:
    document = answer.json()
    return (
        answer.status_code == document["status"] == status
        and answer.headers["content-type"] == "application/problem+json"
        and bool(document["detail"])
    )


def test_the_api_has_its_routes() -> None:
    assert len(ROUTES) >= 30
    assert ("POST", "/runs") in ROUTES


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_without_a_token_answers_401(shared_server: Server, method: str, path: str) -> None:
    answer = shared_server.client.request(method, f"/api/v1{filled(path)}")
    assert is_problem(answer, 401)


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[0] != "GET"])
def test_what_changes_something_needs_more_than_a_viewer(shared_server: Server, method: str, path: str) -> None:
    answer = shared_server.client.request(method, f"/api/v1{filled(path)}", headers=shared_server.headers("viewer"))
    asks_only = path in ("/recommendations", "/estimates")
    assert answer.status_code == (422 if asks_only else 403)


@pytest.mark.parametrize(("method", "path"), [("GET", "/tokens"), ("POST", "/tokens"), ("POST", "/profiles")])
def test_tokens_and_commands_on_the_server_are_for_admins(shared_server: Server, method: str, path: str) -> None:
    answer = shared_server.client.request(method, f"/api/v1{path}", headers=shared_server.headers("member"))
    assert is_problem(answer, 403)


def test_a_wrong_argument_is_named_in_the_problem(shared_server: Server) -> None:
    answer = shared_server.post("/recommendations", json={"epochs": -1})
    assert is_problem(answer, 422)
    assert answer.json()["field"] == "epochs"
    nested = shared_server.post("/recommendations", json={"scope": {"nodes": "many"}})
    assert nested.json()["field"] == "scope.nodes"


def test_an_error_of_a_use_case_names_its_field_and_its_remedies(shared_server: Server) -> None:
    both = shared_server.post("/recommendations", json={"epochs": 2, "steps": 10})
    assert is_problem(both, 422)
    assert both.json()["field"] == "steps"
    unknown = shared_server.post("/recommendations", json={"scope": {"gpus": ["A1000"]}})
    assert is_problem(unknown, 404)
    assert "A100" in unknown.json()["detail"]
    impossible = shared_server.post("/recommendations", json={"epochs": 2, "deadline_seconds": 0.001})
    assert is_problem(impossible, 409)
    assert impossible.json()["remedies"][0]["arguments"]


def test_an_unknown_path_and_a_wrong_method_are_problems_too(shared_server: Server) -> None:
    assert is_problem(shared_server.get("/nothing"), 404)
    assert is_problem(shared_server.delete("/costs"), 405)
    assert is_problem(shared_server.get("/runs/r0"), 404)


def test_a_body_that_is_not_json_is_refused(shared_server: Server) -> None:
    answer = shared_server.post("/estimates", content=b"{", headers={"Content-Type": "application/json"})
    assert is_problem(answer, 422)


def test_a_list_comes_in_pages_the_newest_first(shared_server: Server) -> None:
    first = shared_server.get("/profiles", params={"limit": 2}).json()
    rest = shared_server.get("/profiles", params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["id"] for each in (*first["items"], *rest["items"])] == ["p1", "p2", "p3"]
    assert rest["next"] is None
    assert is_problem(shared_server.get("/profiles", params={"cursor": "gone"}), 422)
    assert is_problem(shared_server.get("/profiles", params={"limit": 0}), 422)


def test_runs_come_in_pages_the_newest_first(server: Server) -> None:
    with open_history(server.settings.store) as history:
        for number in range(5):
            made_at = datetime(2026, 1, 1 + number, tzinfo=UTC)
            history.runs.add(make_run(id=f"r{number}", plan_id=None, made_at=made_at))
    found, cursor = [], None
    while True:
        page = server.get("/runs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found += [each["id"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ["r4", "r3", "r2", "r1", "r0"]


def test_every_machine_of_the_catalog_is_on_some_page(shared_server: Server) -> None:
    found, cursor = [], None
    while True:
        page = shared_server.get("/offers", params={"limit": 200} | ({"cursor": cursor} if cursor else {})).json()
        found += [each["machine"] for each in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(found) == len(set(found)) > 200
    assert shared_server.get(f"/machines/{found[0]}").json()["machine"] == found[0]


def test_a_stored_plan_can_be_shown_and_a_what_if_leaves_none(server: Server) -> None:
    plan = server.post("/recommendations", json={"profiles": ["p1"], "epochs": 3}).json()
    shown = server.get(f"/plans/{plan['plan']}").json()
    assert shown["chosen"] == plan["chosen"]
    what_if = server.post("/recommendations", json={"profiles": ["p1"], "epochs": 3, "goal": "fastest", "store": False})
    assert what_if.json()["chosen"]["seconds"] <= plan["chosen"]["seconds"]
    assert [each["plan"] for each in server.get("/plans").json()["items"]] == [plan["plan"]]


def test_an_estimate_agrees_with_the_recommendation(shared_server: Server) -> None:
    question = {"epochs": 3, "store": False, "profiles": ["p1"]}
    chosen = shared_server.post("/recommendations", json=question).json()["estimates"][-1]
    on = {"on": f"{chosen['provider']}/{chosen['machine']}", "region": chosen["region"], "profile": "p1", "epochs": 3}
    found = shared_server.post("/estimates", json=on | {"batch_size": chosen["batch_size"]}).json()
    assert found["seconds"] == pytest.approx(chosen["seconds"])


def test_another_goal_is_answered_from_the_same_estimates_and_a_new_profile_is_not(server: Server) -> None:
    answers = AnswerMemo(remembered=2)
    cheapest = Question(goal=Goal(kind="cheapest"))
    first = answers.answer(cheapest, ["p1"], settings=server.settings)
    second = answers.answer(replace(cheapest, goal=Goal(kind="fastest")), ["p1"], settings=server.settings)
    assert second.workload is first.workload
    with open_history(server.settings.store) as history:
        history.profiles.add(make_profile(id="p9", measured_at=first.profiles[0].measured_at + timedelta(days=1)))
    third = answers.answer(cheapest, ["p1"], settings=server.settings)
    assert third.workload is not first.workload
    Path(server.settings.machines).write_text('[desk]\ngpu = "RTX 3090"\nusd_per_hour = 0.2\n')
    fourth = answers.answer(cheapest, ["p1"], settings=server.settings)
    assert fourth.workload is not third.workload
    assert len(answers) == 2


TERMS = {"profile": "p1", "on": "local/here", "longest_seconds": 60}


def test_the_same_key_and_request_lead_to_the_same_run(server: Server) -> None:
    key = {"Idempotency-Key": "k1"}
    first = server.post("/runs", json=TERMS, headers=key)
    again = server.post("/runs", json=TERMS, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.json()["id"] == again.json()["id"]
    other = server.post("/runs", json=TERMS | {"longest_seconds": 61}, headers=key)
    assert is_problem(other, 409)
    assert other.json()["field"] == "Idempotency-Key"
    assert len(server.get("/runs").json()["items"]) == 1
    by_another = server.post("/runs", "admin", json=TERMS | {"longest_seconds": 61}, headers=key)
    assert by_another.json()["id"] != first.json()["id"]


STARTER = """
import os, signal, sys
from tests.makers import make_run
from trainfare.app.running.start_for_user import start_for_user
from trainfare.settings import Settings

def agreed():
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return make_run(plan_id=None)

settings = Settings(store=sys.argv[1], runs=sys.argv[1] + ".runs")
print(start_for_user(agreed, user="ada", key="k", request=b"one", settings=settings))
"""


def start_in_process(server: Server, how: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    words = (sys.executable, "-c", STARTER, server.settings.store, how)
    root = str(Path(__file__).parents[2])
    return subprocess.run(words, env=os.environ | environment, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("how", "environment"), [("killed", {}), ("lives", {"TRAINFARE_TEST_KILL_AT": "run stored"})])
def test_a_key_holds_after_a_server_was_killed(server: Server, how: str, environment: dict[str, str]) -> None:
    """Before the run was stored, and after it."""
    assert start_in_process(server, how, **environment).returncode == -signal.SIGKILL

    def start(request: bytes) -> str:
        made = partial(make_run, plan_id=None)
        return start_for_user(made, user="ada", key="k", request=request, settings=server.settings)

    with pytest.raises(KeyReusedError):
        start(b"two")
    assert start(b"one") == start(b"one") == run_id_of("ada", "k")
    with open_history(server.settings.store) as history:
        assert len(history.runs.all()) == 1


def test_the_same_request_at_once_leads_to_one_run(server: Server) -> None:
    def start(number: int) -> str:
        request = b"one" if number % 2 else b"two"
        made = partial(make_run, plan_id=None)
        try:
            return start_for_user(made, user="ada", key="k", request=request, settings=server.settings)
        except KeyReusedError:
            return "refused"

    with ThreadPoolExecutor(6) as pool:
        assert Counter(pool.map(start, range(6))) == {run_id_of("ada", "k"): 3, "refused": 3}


def test_a_run_needs_a_key_and_a_plan_or_a_profile(server: Server) -> None:
    assert server.post("/runs", json=TERMS).json()["field"] == "Idempotency-Key"
    assert server.post("/runs/offers", json={}).json()["field"] == "plan"


def test_an_offer_states_the_price_and_starts_nothing(server: Server) -> None:
    offer = server.post("/runs/offers", json=TERMS).json()
    assert (offer["machine"], offer["usd_per_hour"]) == ("local/here", 0.0)
    assert offer["estimate"]["seconds"] > 0
    assert server.get("/runs").json()["items"] == []


def test_a_run_that_costs_more_than_was_agreed_to_is_not_started(server: Server) -> None:
    Path(server.settings.machines).write_text("[here]\nusd_per_hour = 2.0\n")
    answer = server.post("/runs", json=TERMS | {"at_most_usd_per_hour": 1.0}, headers={"Idempotency-Key": "dear"})
    assert is_problem(answer, 409)
    assert server.get("/runs").json()["items"] == []


def test_only_the_one_who_started_a_run_or_an_admin_stops_it(server: Server) -> None:
    run = server.post("/runs", json=TERMS, headers={"Idempotency-Key": "k"}).json()
    assert run["user"] == "a-member"
    other = create_token("mallory", "member", settings=server.settings).secret
    refused = server.post(f"/runs/{run['id']}/stop", headers={"Authorization": f"Bearer {other}"})
    assert is_problem(refused, 403)
    stopped = server.post(f"/runs/{run['id']}/stop").json()
    assert stopped["stop_reason"] == "user"


def test_output_is_read_from_an_offset_without_breaking_a_letter(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfare.web.api.runs.OUTPUT_BYTES", 5)
    run = server.post("/runs", json=TERMS, headers={"Idempotency-Key": "k"}).json()
    assert server.get(f"/runs/{run['id']}/output").json() == {"offset": 0, "next_offset": 0, "text": "", "ended": False}
    from tests.makers import make_fact
    from trainfare.app.running.journal import output_path
    from trainfare.app.running.status import run_folder

    with open_history(server.settings.store) as history:
        lease = history.leases.take(f"run/{run['id']}", holder="test", seconds=60, now=datetime.now(UTC))
        fact = make_fact(run_id=run["id"], number=0, kind="launch intended", attempt=1)
        history.facts.append(fact, lease=lease)
    path = output_path(run_folder(server.settings, run["id"]), 1, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("abcd€fg".encode())
    first = server.get(f"/runs/{run['id']}/output").json()
    assert (first["text"], first["next_offset"]) == ("abcd", 4)
    second = server.get(f"/runs/{run['id']}/output", params={"offset": 4}).json()
    assert second["text"] == "€fg"


def test_only_the_owner_withdraws_from_the_queue(server: Server) -> None:
    job = server.post("/queue", json={"profiles": ["p1"], "epochs": 2, "deadline_seconds": 3600}).json()
    other = create_token("mallory", "member", settings=server.settings).secret
    refused = server.delete(f"/queue/{job['id']}", headers={"Authorization": f"Bearer {other}"})
    assert is_problem(refused, 403)
    assert server.delete(f"/queue/{job['id']}").status_code == 204
    assert server.get("/queue").json()["items"] == []


def test_a_profile_is_taken_as_a_task_that_can_be_cancelled(server: Server) -> None:
    folder = str(Path(server.settings.store).parent / "program")
    task = server.post("/profiles", "admin", json={"command": ["python3", "train.py"], "folder": folder})
    assert task.status_code == 202
    place = task.headers["Location"].removeprefix("/api/v1")
    assert server.get(place).json()["state"] == "waiting"
    assert is_problem(server.post(f"{place}/cancel"), 403)
    assert server.post(f"{place}/cancel", "admin").json()["state"] == "cancelled"


def test_an_uploaded_script_becomes_a_task_in_the_sandbox_or_is_refused_without_one(server: Server) -> None:
    answer = server.post("/profiles/uploads", files={"file": ("train.py", io.BytesIO(b"print(1)"))})
    if answer.status_code == 202:
        assert answer.json()["sandboxed"]
    else:
        assert answer.status_code < 500
        assert server.get("/tasks").json()["items"] == []


def test_an_upload_of_another_kind_is_refused(server: Server) -> None:
    answer = server.post("/profiles/uploads", files={"file": ("model.pkl", io.BytesIO(b"x"))})
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_the_secret_of_a_token_is_shown_once(server: Server) -> None:
    made = server.post("/tokens", "admin", json={"user": "ada", "role": "viewer"}).json()
    headers = {"Authorization": f"Bearer {made['secret']}"}
    assert server.get("/me", headers=headers).json()["user"] == "ada"
    listed = server.get("/tokens", "admin").json()["items"]
    assert made["id"] in [each["id"] for each in listed]
    assert not any("secret" in each for each in listed)
    assert server.delete(f"/tokens/{made['id']}", "admin").status_code == 204
    assert is_problem(server.get("/me", headers=headers), 401)


def test_a_fault_of_the_server_shows_no_traceback(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_options: Any) -> None:
        raise RuntimeError("a secret path")

    monkeypatch.setattr("trainfare.web.api.costs.costs", broken)
    answer = server.get("/costs")
    assert is_problem(answer, 500)
    assert "secret path" not in answer.text
    assert answer.json()["request_id"] in answer.json()["detail"]


def test_a_damaged_plan_is_said_and_the_others_are_listed(server: Server) -> None:
    with open_history(server.settings.store) as history:
        history.profiles.add(make_profile())
        history.plans.add(make_plan())
    assert [each["plan"] for each in server.get("/plans").json()["items"]] == ["n4t9"]
    assert server.get("/costs").json()["usd"] == 0
    assert server.get("/accuracy").json()["runs"] == []

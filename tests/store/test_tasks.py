"""Tokens and tasks, over every store."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.makers import NOON, make_program
from trainfare.errors import NotFoundError
from trainfare.model.access import Token
from trainfare.model.task import Task, TaskEvent, TaskEventKind, task_lease_name
from trainfare.store.history import AlreadyStoredError, History, StaleLeaseError


def make_token(**changes: Any) -> Token:
    token = Token(id="k1", user="ada", role="member", purpose="api", secret_sha256="ab" * 32, made_at=NOON)
    return replace(token, **changes)


def make_task(**changes: Any) -> Task:
    return replace(Task(id="t1", made_at=NOON, user="ada", program=make_program()), **changes)


def event(kind: TaskEventKind, **values: Any) -> TaskEvent:
    return TaskEvent(task_id="t1", number=0, seen_at=NOON, kind=kind, **values)


def test_a_token_is_found_by_the_digest_of_its_secret(history: History) -> None:
    history.tokens.add(make_token(budget_usd=5.0, expires_at=NOON + timedelta(days=1)))
    assert history.tokens.find("ab" * 32) == history.tokens.get("k1")
    assert history.tokens.find("cd" * 32) is None


def test_a_revoked_token_is_not_found_and_cannot_be_revoked_again(history: History) -> None:
    history.tokens.add(make_token())
    history.tokens.remove("k1")
    assert history.tokens.find("ab" * 32) is None
    assert history.tokens.all() == ()
    with pytest.raises((NotFoundError, AlreadyStoredError)):
        history.tokens.remove("k1")


def test_events_of_a_task_are_numbered_by_the_store(history: History) -> None:
    history.tasks.add(make_task())
    assert [history.task_events.append(event(kind), lease=None).number for kind in ("started", "progress")] == [0, 1]
    assert [each.kind for each in history.task_events.of("t1")] == ["started", "progress"]


def test_nothing_follows_the_end_of_a_task(history: History) -> None:
    history.tasks.add(make_task())
    assert history.task_events.unended_tasks() == ("t1",)
    history.task_events.append(event("succeeded", profile_id="p1"), lease=None)
    assert history.task_events.append(event("cancelled"), lease=None).kind == "succeeded"
    assert len(history.task_events.of("t1")) == 1
    assert history.task_events.unended_tasks() == ()


def test_a_task_is_written_only_under_its_current_lease(history: History) -> None:
    history.tasks.add(make_task())
    name, later = task_lease_name("t1"), NOON + timedelta(minutes=1)
    old = history.leases.take(name, holder="a", seconds=30, now=NOON)
    new = history.leases.take(name, holder="b", seconds=30, now=later)
    assert old
    assert new
    with pytest.raises(StaleLeaseError):
        history.task_events.append(event("progress"), lease=old)
    assert history.task_events.append(event("progress"), lease=new).number == 0


def test_an_event_of_an_unknown_task_is_refused(history: History) -> None:
    with pytest.raises(NotFoundError):
        history.task_events.append(event("started"), lease=None)

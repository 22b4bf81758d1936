"""Several processes on one store: no fact is lost, none is stored twice, and a fenced supervisor writes nothing."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.makers import NOON, make_fact, make_observation, make_run
from tests.store.writers import append_under_lease, remark, running, supervise
from trainfare.model.lease import Lease
from trainfare.model.run import Fact
from trainfare.store.history import History, StaleLeaseError
from trainfare.store.open import open_history

FACTS = 200
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of a history that processes can share, with the run r93."""
    location: str = request.getfixturevalue("postgres") if request.param == "postgres" else str(tmp_path / "history.db")
    with open_history(location) as history:
        history.runs.add(make_run(plan_id=None))
    return location


def take(history: History, holder: str, *, late: timedelta = timedelta(0)) -> Lease | None:
    return history.leases.take("run/r93", holder=holder, seconds=60, now=NOON + late)


def test_a_supervisor_and_another_process_append_without_gap_loss_or_repetition(location: str) -> None:
    with open_history(location) as history:
        lease = take(history, "supervisor")
        with (
            running(supervise, location, lease, FACTS) as (_, by_supervisor),
            running(remark, location, "user", FACTS) as (_, by_user),
        ):
            numbers = by_supervisor.recv(), by_user.recv()
        facts = history.facts.of("r93")
    assert [fact.number for fact in facts] == list(range(2 * FACTS))
    assert sorted([*numbers[0], *numbers[1]]) == list(range(2 * FACTS))
    for name, own in zip(("supervisor", "user"), numbers, strict=True):
        assert [facts[number].text for number in own] == [f"{name} {number}" for number in range(FACTS)]


def test_of_many_that_take_a_lease_at_once_one_gets_it(location: str) -> None:
    with open_history(location) as history, ThreadPoolExecutor(8) as threads:
        for late in (0, 5, 10):
            holders = [f"process {number} at {late}" for number in range(8)]
            taken = list(threads.map(lambda holder, late=late: take(history, holder, late=late * MINUTE), holders))
            assert [lease.token for lease in taken if lease] == [late // 5 + 1]


def test_once_a_lease_is_taken_over_the_old_supervisor_appends_nothing(location: str) -> None:
    with open_history(location) as history, open_history(location) as other:
        first = take(history, "first")
        assert first is not None
        started, refused = threading.Event(), []

        def append_until_refused() -> None:
            number = -1
            try:
                while True:
                    number = append_under_lease(history, first, "first", after=number)
                    started.set()
            except StaleLeaseError as error:
                refused.append(error.current_holder)

        thread = threading.Thread(target=append_until_refused)
        thread.start()
        started.wait(30)
        second = take(other, "second", late=2 * MINUTE)
        assert second is not None
        at_takeover = other.facts.of("r93")
        thread.join(30)
        assert refused == ["second"]
        assert other.facts.of("r93") == at_takeover
        other.facts.append(make_fact(number=len(at_takeover)), lease=second)


def test_a_takeover_waits_for_the_fact_that_is_being_appended(postgres: str) -> None:
    import psycopg

    with open_history(postgres) as history, ThreadPoolExecutor(2) as threads, psycopg.connect(postgres) as blocker:
        history.runs.add(make_run(plan_id=None))
        first = take(history, "first")
        waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query ~ %s"

        def wait_for(processes: int, done: Future[Any]) -> None:
            deadline = time.monotonic() + 300
            with psycopg.connect(postgres, autocommit=True) as observer:
                while time.monotonic() < deadline and not done.done():
                    (found,) = observer.execute(waiting, ["(facts|leases)"]).fetchone() or (0,)
                    if found >= processes:
                        return
                    time.sleep(0.01)

        def take_over() -> tuple[Fact, ...]:
            assert take(history, "second", late=2 * MINUTE)
            return history.facts.of("r93")

        # The append has checked its lease and waits at the last step, for a row of the same key.
        blocker.execute("INSERT INTO facts VALUES ('r93', 0, 'warned', '', '')")
        append = threads.submit(history.facts.append, make_fact(), lease=first)
        wait_for(1, append)
        takeover = threads.submit(take_over)
        wait_for(2, takeover)
        blocker.rollback()
        assert append.result(30) == make_fact()
        assert takeover.result(30) == (make_fact(),)


def test_processes_that_ship_the_same_journal_store_each_entry_once(location: str) -> None:
    journal = [make_observation(number=number, values={"first": number}) for number in range(1, 301)]
    with open_history(location) as history, ThreadPoolExecutor(4) as threads:
        batches = [journal[start : start + 100] for start in range(0, 201, 20)]
        list(threads.map(lambda batch: history.observations.add_all(reversed(batch)), batches))
        assert history.observations.of("r93") == tuple(journal)

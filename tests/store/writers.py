"""Processes that write to a store at the same time as others, and may be killed."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from tests.makers import NOON, make_fact, make_observation
from trainfare.model.lease import Lease, run_lease_name
from trainfare.store.history import AlreadyStoredError, History
from trainfare.store.open import open_history

BATCH = 10
"""The observations that are added at once."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__, "trainfare.store.sql"])


@contextmanager
def running(work: Any, *arguments: object) -> Iterator[tuple[Any, Connection]]:
    """A process that does the work, killed at the end, and the connection that it reports to."""
    reports, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=work, args=(sender, *arguments), daemon=True)
    process.start()
    sender.close()
    try:
        yield process, reports
    finally:
        process.kill()
        process.join()
        reports.close()


def append_under_lease(history: History, lease: Lease, text: str, *, after: int = -1) -> int:
    """Append a warning as a supervisor does that knows the facts up to `after`: when it is refused, it reads the facts
    again. The number of the fact."""
    while True:
        try:
            return history.facts.append(make_fact(kind="warned", number=after + 1, text=text), lease=lease).number
        except AlreadyStoredError:
            after = len(history.facts.of("r93")) - 1


def supervise(reports: Connection, location: str, lease: Lease, facts: int) -> None:
    """Append facts under the lease, then report their numbers."""
    numbers = [-1]
    with open_history(location) as history:
        for number in range(facts):
            numbers.append(append_under_lease(history, lease, f"supervisor {number}", after=numbers[-1]))
    reports.send(numbers[1:])


def remark(reports: Connection, location: str, name: str, facts: int) -> None:
    """Append facts without a lease, then report their numbers."""
    with open_history(location) as history:
        remarks = (make_fact(kind="warned", text=f"{name} {number}") for number in range(facts))
        reports.send([history.facts.append(fact, lease=None).number for fact in remarks])


def write_until_killed(reports: Connection, location: str, round_number: int) -> None:
    """Take the lease of the last supervisor, which was killed; then append facts and observations, and report each."""
    with open_history(location) as history:
        now = NOON + round_number * timedelta(hours=1)
        lease = history.leases.take(run_lease_name("r93"), holder=f"round {round_number}", seconds=60, now=now)
        assert lease is not None
        fact = -1
        while True:
            fact = append_under_lease(history, lease, f"round {round_number}", after=fact)
            reports.send(("fact", fact))
            last = history.observations.last_number("r93", attempt=1, node=0)
            history.observations.add_all(make_observation(number=last + 1 + number) for number in range(BATCH))
            reports.send(("observations", last + BATCH))
            fact = history.facts.append(make_fact(kind="warned", text="from elsewhere"), lease=None).number
            lease = history.leases.renew(lease, 60, now)

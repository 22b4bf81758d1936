"""Machines that wait in a queue: nothing is paid, no patience ends, and the program is sent meanwhile."""

from dataclasses import replace
from datetime import timedelta

from tests.makers import NOON, make_candidate, make_fact, make_offer, make_run
from trainfare.model.bill import Billing
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Fact
from trainfare.runner.charges import charges_of
from trainfare.runner.decide import JobView, Patience, View, Wait, decide
from trainfare.runner.life import life_of
from trainfare.runner.observed import attempts_of
from trainfare.runner.receipt import receipt_of

HOUR = timedelta(hours=1)
RUN = make_run(candidate=make_candidate(offer=make_offer(usd_per_hour=3.6)))
QUEUED = RentedMachine(
    id="m1",
    owner="ada@laptop",
    run_id=RUN.id,
    attempt=1,
    node=0,
    vm_type="slurm/lab-cpu",
    state="queued",
    reason="Priority",
    expires_at=NOON + 30 * HOUR,
)
READY = replace(QUEUED, state="ready", reason=None, launched_at=NOON + 5 * HOUR)


def fact(number: int, kind: str, hours: float, **fields: object) -> Fact:
    return make_fact(
        run_id=RUN.id, number=number, kind=kind, attempt=1, seen_at=NOON + hours * HOUR, text=None, **fields
    )


WAITING = [
    fact(0, "launch intended", 0, candidate=RUN.candidate),
    fact(1, "machines seen", 0, machines=(QUEUED,)),
]
STARTED = [*WAITING, fact(2, "machines ready", 5.1, machines=(READY,)), fact(3, "program started", 5.2)]


def view(machine: RentedMachine, hours: float, **fields: object) -> View:
    values: dict[str, object] = {"now": NOON + hours * HOUR, "machines": (machine,), "job": None, "spent_usd": 0.0}
    return View(**values | fields)  # type: ignore[arg-type] # fields of View


def test_a_queue_may_take_days_and_its_reason_is_said_once() -> None:
    life, patience = life_of(WAITING), Patience(boot=60)
    said = decide(RUN, life, view(QUEUED, 48), patience=patience)
    assert isinstance(said, Fact)
    assert (said.kind, said.text) == ("warned", "It waits in the queue: Priority.")
    life = life_of([*WAITING, said])
    assert decide(RUN, life, view(QUEUED, 48), patience=patience) == "start", "the program is sent meanwhile"
    sent = life_of([*WAITING, said, fact(3, "program sent", 48)])
    assert isinstance(decide(RUN, sent, view(QUEUED, 48), patience=patience), Wait)
    secret = replace(RUN, secrets=("TOKEN",))
    assert isinstance(decide(secret, life, view(QUEUED, 48), patience=patience), Wait), "secrets would be in a file"


def test_days_in_a_queue_are_not_charged() -> None:
    (charge,) = charges_of(RUN, STARTED, billing=Billing(), now=NOON + 6.2 * HOUR)
    receipt = receipt_of(RUN, STARTED, billing=Billing(), now=NOON + 6.2 * HOUR)
    assert (charge.since, charge.usd) == (NOON + 5 * HOUR, receipt.total.paid_usd)


def test_boot_counts_from_the_end_of_the_wait() -> None:
    booting = replace(READY, state="booting")
    life, patience = life_of(WAITING), Patience(boot=60)
    assert decide(RUN, life, view(booting, 5.01), patience=patience) == Wait("it boots")
    lost = decide(RUN, life, view(booting, 5.1), patience=patience)
    assert isinstance(lost, Fact)
    assert lost.kind == "machines lost"


def test_the_queue_is_a_line_of_the_receipt_that_costs_nothing() -> None:
    waiting = receipt_of(RUN, WAITING, billing=Billing(), now=NOON + 4 * HOUR)
    assert (waiting.lines[0].part, waiting.lines[0].seconds, waiting.total.paid_usd) == ("queue", 4 * 3600, 0.0)
    receipt = receipt_of(RUN, STARTED, billing=Billing(), now=NOON + 6.2 * HOUR)
    lines = {line.part: line for line in receipt.lines}
    assert (round(lines["queue"].seconds), round(lines["boot"].seconds)) == (5 * 3600, 360)
    assert abs(receipt.total.paid_usd - 1.2 * 3.6) < 0.01
    (attempt,) = attempts_of(RUN, STARTED, ())
    assert round(attempt.boot_seconds or 0.0) == 360, "the next estimate does not take the queue for boot"


def test_a_program_that_reaches_the_longest_time_of_its_machine_goes_on_in_another() -> None:
    ended = decide(
        RUN,
        life_of(STARTED),
        view(READY, 29, job=JobView(started=True, exit_code=0, cause="lease")),
        patience=Patience(),
    )
    assert isinstance(ended, Fact)
    assert (ended.kind, ended.interrupted) == ("program ended", True)
    assert "the longest time that it may be kept" in (ended.text or "")

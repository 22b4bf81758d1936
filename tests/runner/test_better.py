"""A better machine for the rest of a run is proposed only if it pays for its move with certainty."""

from dataclasses import replace
from typing import Any

import pytest

from tests.makers import NOON, make_candidate, make_checkpoint, make_estimate, make_machine, make_offer, make_run
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.run import Fact
from trainfare.runner.better import BetterMachine, better_machine
from trainfare.runner.decide import JobView, Patience, View, decide
from trainfare.runner.life import Life, after
from trainfare.runner.progress import RunProgress

HOUR = 3600.0


def make_other(hours: float, usd_per_hour: float) -> Estimate:
    """10,000 iterations that take so long together, and a start of 10 minutes."""
    start, steady = Interval.exactly(600.0), Interval.within_factor(hours * HOUR, 1.1)
    return make_estimate(
        candidate=make_candidate(offer=make_offer(usd_per_hour=usd_per_hour)),
        phases=(Phase(name="boot", seconds=start), Phase(name="steady iterations", seconds=steady)),
        seconds=start + steady,
        usd=(start + steady) * (usd_per_hour / HOUR),
        iterations=10_000,
    )


MINE = make_other(10, 1.0)
RUN = make_run(estimate=MINE, candidate=MINE.candidate, resume_flag="auto")
LIFE = Life(
    state="training",
    attempt=1,
    starts=1,
    started_at=NOON,
    candidate=MINE.candidate,
    machines=(make_machine(),),
    checkpoint=make_checkpoint(),
)


def progress(hours_left: float, **changes: Any) -> RunProgress:
    """Half is done; the rest takes so long."""
    fields: dict[str, Any] = {
        "iterations": 5000,
        "total_iterations": 10_000,
        "seconds": HOUR,
        "iteration_seconds": Interval.within_factor(hours_left * HOUR / 5000, 1.02),
        "remaining_seconds": Interval.within_factor(hours_left * HOUR, 1.02),
        "loss": None,
        "is_measured": True,
    }
    return RunProgress(**(fields | changes))


def test_a_machine_that_finishes_the_rest_cheaper_or_faster_is_found_by_the_goal() -> None:
    others = (make_other(4, 4.0), make_other(20, 0.2))
    faster = better_machine(RUN, LIFE, progress(5), others, "fastest")
    cheaper = better_machine(RUN, LIFE, progress(5), others, "cheapest")
    assert faster is not None
    assert cheaper is not None
    assert faster.estimate.candidate.usd_per_hour == 4.0
    assert faster.seconds.value == pytest.approx(2 + 600 + 2 * HOUR), "checkpoint, start, half of four hours"
    assert cheaper.estimate.candidate.usd_per_hour == 0.2
    assert cheaper.text == (
        "aws/g4dn.xlarge would do the rest in 10 h 10 min for $2.03, its move included, instead of 5 h for $5.00 here."
    )
    assert better_machine(RUN, LIFE, progress(5), others, "weighted") is None, "none is better in both"


def test_a_saving_that_is_not_certain_or_does_not_pay_for_the_move_is_none() -> None:
    assert better_machine(RUN, LIFE, progress(5), (make_other(9.5, 1.5),), "fastest") is None
    assert better_machine(RUN, LIFE, progress(0.1), (make_other(4, 0.5),), "fastest") is None, "ten minutes to start"
    assert better_machine(RUN, LIFE, progress(5, is_measured=False), (make_other(1, 0.1),), "fastest") is None
    assert better_machine(RUN, LIFE, progress(5), (MINE,), "fastest") is None


def test_a_program_that_is_slower_than_predicted_is_slower_everywhere() -> None:
    found = better_machine(RUN, LIFE, progress(10), (make_other(4, 1.5),), "fastest")
    assert found is not None
    assert found.seconds.value == pytest.approx(2 + 600 + 2 * 2 * HOUR)
    assert better_machine(RUN, LIFE, progress(10), (make_other(9, 1.5),), "fastest") is None


def decided(run: Any, life: Life, better: BetterMachine) -> Any:
    machines, job = (make_machine(),), JobView(started=True)
    view = View(now=NOON, machines=machines, job=job, spent_usd=0.0, progress=progress(5), better=better)
    return decide(run, life, view, patience=Patience())


def test_it_is_proposed_once_and_taken_only_if_the_user_agreed_beforehand() -> None:
    better = better_machine(RUN, LIFE, progress(5), (make_other(4, 1.5),), "fastest")
    assert better is not None
    proposal = decided(RUN, LIFE, better)
    assert isinstance(proposal, Fact)
    assert (proposal.kind, proposal.text) == ("warned", better.text)
    assert not isinstance(decided(RUN, after(LIFE, proposal), better), Fact), "once"
    taken = decided(replace(RUN, auto_move=True), LIFE, better)
    assert (taken.kind, taken.candidate) == ("move asked", better.estimate.candidate)
    assert not isinstance(decided(replace(RUN, resume_flag=None), LIFE, better), Fact), "it could not go on there"

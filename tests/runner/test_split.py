"""A split plan is carried out: the first segment, a move when its iterations are done, then the second segment."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.makers import (
    NOON,
    make_candidate,
    make_estimate,
    make_fact,
    make_machine,
    make_observation,
    make_offer,
    make_run,
)
from trainfare.model.bill import Billing
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.model.run import Fact
from trainfare.runner.decide import JobView, Patience, View, decide
from trainfare.runner.life import Life, after
from trainfare.runner.progress import progress_of
from trainfare.runner.receipt import receipt_of


def segment(iterations: int, seconds: float, usd_per_hour: float) -> Any:
    span = Interval.exactly(seconds)
    return make_estimate(
        candidate=make_candidate(offer=make_offer(usd_per_hour=usd_per_hour)),
        phases=(Phase(name="steady iterations", seconds=span),),
        seconds=span,
        usd=span * (usd_per_hour / 3600),
        iterations=iterations,
    )


FIRST, SECOND = segment(100, 1000.0, 1.0), segment(300, 600.0, 6.0)
RUN = make_run(estimate=FIRST, candidate=FIRST.candidate, then=SECOND, resume_flag="auto")


def iterations(count: int) -> Any:
    return make_observation(values={"first": 1, "count": count, "seconds": []})


def test_both_segments_count_as_the_training() -> None:
    found = progress_of(RUN, [iterations(40)], seconds=0.0)
    assert (found.iterations, found.total_iterations, found.share) == (40, 400, 0.1)
    assert found.remaining_seconds is not None
    assert found.remaining_seconds.value == pytest.approx(60 * 10.0 + 600.0), "the rest here, and all of it there"
    later = progress_of(RUN, [iterations(50)], seconds=0.0, done_before=100, candidate=SECOND.candidate)
    assert (later.iterations, later.total_iterations) == (150, 400)
    assert later.remaining_seconds is not None
    assert later.remaining_seconds.value == pytest.approx(250 * 2.0)


def test_it_moves_once_when_the_first_segment_is_done() -> None:
    life = Life(
        state="training", attempt=1, starts=1, started_at=NOON, candidate=RUN.candidate, machines=(make_machine(),)
    )
    view = View(now=NOON, machines=life.machines, job=JobView(started=True), spent_usd=0.0)

    def decided(life: Life, done: int) -> Any:
        return decide(
            RUN, life, replace(view, progress=progress_of(RUN, [iterations(done)], seconds=0.0)), patience=Patience()
        )

    assert not isinstance(decided(life, 99), Fact)
    asked = decided(life, 100)
    assert (asked.kind, asked.candidate) == ("move asked", SECOND.candidate)
    assert decided(after(life, asked), 101) == "stop", "it saves"
    assert not isinstance(decided(replace(life, moves=1), 120), Fact)


def test_the_receipt_predicts_both_segments() -> None:
    facts = [make_fact(candidate=RUN.candidate)]
    receipt = receipt_of(RUN, facts, billing=Billing(), now=NOON + timedelta(seconds=5))
    assert receipt.total.predicted_seconds is not None
    assert receipt.total.predicted_usd is not None
    assert receipt.total.predicted_seconds.value == 1600.0
    assert receipt.total.predicted_usd.value == pytest.approx(1000 / 3600 + 1.0)
    training = next(line for line in receipt.lines if line.part == "training")
    assert training.predicted_usd is not None
    assert training.predicted_usd.value == pytest.approx(1000 / 3600 + 1.0)


def test_a_segment_without_a_number_of_iterations_cannot_be_carried_out() -> None:
    with pytest.raises(ValueError, match="number of iterations"):
        replace(RUN, then=replace(SECOND, iterations=None))

"""RunProgress: the prediction first, then what the clock shows, with an interval that narrows."""

from datetime import timedelta

import pytest

from tests.makers import NOON, make_estimate, make_run
from trainfare.model.run import Observation
from trainfare.runner.progress import progress_of


def entry(number: int, first: int, count: int, seconds: float) -> Observation:
    """The iterations up to `first + count - 1`, seen `seconds` after noon."""
    return Observation(
        run_id="r93",
        attempt=1,
        node=0,
        number=number,
        at=NOON + timedelta(seconds=seconds),
        kind="iterations",
        values={"first": first, "count": count, "seconds": [0.1] * count},
    )


def test_before_the_first_iteration_the_prediction_counts() -> None:
    estimate = make_estimate(iterations=1000)
    found = progress_of(make_run(estimate=estimate, candidate=estimate.candidate), (), seconds=0.0)
    assert (found.iterations, found.total_iterations, found.share) == (0, 1000, 0.0)
    steady = next(phase.seconds for phase in estimate.phases if phase.name == "steady iterations")
    assert found.remaining_seconds is not None
    assert found.remaining_seconds.value == pytest.approx(steady.value, rel=0.5)


def test_an_unprofiled_run_has_no_end_but_a_speed() -> None:
    found = progress_of(make_run(estimate=None), [entry(1, 1, 10, 0), entry(2, 11, 10, 2.0)], seconds=3.0)
    assert (found.iterations, found.total_iterations, found.remaining_seconds) == (20, None, None)
    assert found.iteration_seconds is not None
    assert found.iteration_seconds.value == pytest.approx(0.2)


def test_the_clock_wins_over_the_prediction_and_the_interval_narrows() -> None:
    estimate = make_estimate(iterations=100_000)
    run = make_run(estimate=estimate, candidate=estimate.candidate)
    entries = [entry(n + 1, 1 + 50 * n, 50, 5.0 * n) for n in range(200)]
    found = [progress_of(run, entries[:known], seconds=1.0).iteration_seconds for known in (2, 20, 200)]
    widths = [each.high / each.low for each in found if each is not None]
    assert found[-1] is not None
    assert found[-1].value == pytest.approx(0.1, rel=0.02), "5 s for 50 iterations"
    assert len(widths) == 3
    assert widths == sorted(widths, reverse=True)

"""epochs_to_metric: the epoch in which a metric reaches a target, predicted from curves that are cut at many points.

Every curve is cut after 10 to 90% of its epochs. The targets of a cut are the best values that the run had reached
after 1.1 to 3 times as many epochs, where they are better than all that was seen; one more target is never reached in
the run: 5% of the gain beyond its best value. Nothing is learned from these curves, so every program is a held-out one;
`CURVE_FACTOR` was chosen for another question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

from benchmarks.epochs.data import Run
from trainfare.estimator.epochs.convergence import MIN_POINTS, epochs_to_reach
from trainfare.estimator.epochs.learning_rates import classify_schedule
from trainfare.model.epochs import EpochsAnswer

CUTS = tuple(part / 10 for part in range(1, 10))
AHEAD = (1.1, 1.3, 1.6, 2.0, 3.0)
BEYOND = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The answer for one target after one cut."""

    program: str
    run_epochs: int
    truth: float
    """Infinite if the run never reaches the target."""
    answer: EpochsAnswer
    """The answer where the length of the run is known."""
    of_unknown_length: EpochsAnswer


def rows(runs: Sequence[Run]) -> Iterator[Row]:
    for run in runs:
        for cut in CUTS:
            seen = round(cut * len(run.values))
            if MIN_POINTS <= seen < len(run.values):
                yield from _rows_of(run, seen)


def _rows_of(run: Run, seen: int) -> Iterator[Row]:
    upward = [value if run.higher else -value for value in run.values]
    ends = [min(len(upward), ceil(seen * ahead)) for ahead in AHEAD]
    reached = {max(upward[:end]) for end in ends} - {max(upward[:seen])}
    never = max(upward) + BEYOND * (max(upward) - min(upward[:seen]))
    drops = classify_schedule(run.plan).drops
    for level in sorted({*reached, never}):
        target = level if run.higher else -level

        def ask(length: int | None, planned: Sequence[int], target: float = target) -> EpochsAnswer:
            return epochs_to_reach(run.values[:seen], target, higher=run.higher, run_epochs=length, drops=planned)

        yield Row(
            program=run.program,
            run_epochs=len(upward),
            truth=next((float(k) for k, value in enumerate(upward, start=1) if value >= level), inf),
            answer=ask(len(upward), drops),
            of_unknown_length=ask(None, ()),
        )

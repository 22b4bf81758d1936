"""epochs_from_curve: a run is seen to 10, 25 or 50 %; in which epoch will it have settled?

Each program is judged by constants that never saw it: the share of Σ lr is chosen between 0.90 and 0.95 and the usual
share of the run is averaged on the other programs. Optimus, pow3 and vapour are fitted to the seen part alone; where
one cannot be, it is taken to say the declared run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from benchmarks.epochs.data import Run
from trainfare.estimator.epochs.convergence import FORMS, epochs_by_curve, fit_form
from trainfare.estimator.epochs.learning_rates import SMOOTH_SHARE, TYPICAL_SHARE, epoch_at_share, classify_schedule
from trainfare.estimator.epochs.needed import epochs_needed
from trainfare.model.epochs import EpochsAnswer

SEEN = (0.10, 0.25, 0.50)
SHARES = (0.90, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run, seen to a part of it."""

    program: str
    truth: int
    forms: Mapping[str, float]
    constant: float
    curve: EpochsAnswer
    """By the curve alone."""
    ours: EpochsAnswer


def rows(runs: Sequence[Run], seen: float, others: Sequence[Run] | None = None) -> Iterator[Row]:
    """`others` are the runs that constants come from; else those of the other programs in `runs`."""
    for program in dict.fromkeys(run.program for run in runs):
        rest = [run for run in others or runs if run.program != program]
        share, usual = smooth_share(rest), typical_share(rest)
        for run in runs:
            if run.program == program:
                yield _row(run, run.values[: max(2, round(seen * len(run.values)))], share, usual)


def smooth_share(runs: Iterable[Run]) -> float:
    """Of the two candidates the one with the smaller error on these runs; the product's where none falls smoothly."""
    smooth = [run for run in runs if classify_schedule(run.plan).shape in ("smooth", "one-cycle")]
    if not smooth:
        return SMOOTH_SHARE
    return min(SHARES, key=lambda share: sum(abs(log(epoch_at_share(r.plan, share) / r.settled)) for r in smooth))


def typical_share(runs: Sequence[Run]) -> float:
    """The geometric mean, every program counting alike; the product's where there is none."""
    programs = sorted({run.program for run in runs})
    if not programs:
        return TYPICAL_SHARE
    return exp(
        fmean(fmean(log(r.settled / len(r.values)) for r in runs if r.program == program) for program in programs)
    )


def _row(run: Run, values: Sequence[float], share: float, usual: float) -> Row:
    whole = len(run.values)
    fits = {form: fit_form(form, values, higher=run.higher, run_epochs=whole) for form in FORMS}
    return Row(
        program=run.program,
        truth=run.settled,
        forms={form: fit.epoch if fit else whole for form, fit in fits.items()},
        constant=usual * whole,
        curve=epochs_by_curve(values, higher=run.higher, run_epochs=whole, typical_share=usual),
        ours=epochs_needed(values, higher=run.higher, run_epochs=whole, plan=run.plan, share=share, typical_share=usual),
    )

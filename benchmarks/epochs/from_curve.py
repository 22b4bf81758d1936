"""epochs_from_curve: the settled epoch of a run, predicted from its first 10, 25 or 50%.

Each program is predicted with constants from other programs: the share of Σ lr is chosen between 0.90 and 0.95, and the
typical share of the run is averaged over the other programs. Optimus, pow3 and vapour are fitted to the beginning
alone; where a fit fails, its answer is the declared run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from benchmarks.epochs.data import Run
from trainfare.estimator.epochs.convergence import FORMS, epochs_by_curve, fit_form
from trainfare.estimator.epochs.learning_rates import SMOOTH_SHARE, TYPICAL_SHARE, classify_schedule, epoch_at_share
from trainfare.estimator.epochs.needed import epochs_needed
from trainfare.model.epochs import EpochsAnswer

SEEN = (0.10, 0.25, 0.50)
SHARES = (0.90, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The predictions for one run from its beginning."""

    program: str
    truth: int
    forms: Mapping[str, float]
    constant: float
    curve: EpochsAnswer
    """The answer by the curve alone."""
    ours: EpochsAnswer


def rows(runs: Sequence[Run], seen: float, others: Sequence[Run] | None = None) -> Iterator[Row]:
    """`others` are the runs from which constants are learned; by default those of the other programs in `runs`."""
    for program in dict.fromkeys(run.program for run in runs):
        rest = [run for run in others or runs if run.program != program]
        share, typical = smooth_share(rest), typical_share(rest)
        for run in runs:
            if run.program == program:
                yield _row(run, run.values[: max(2, round(seen * len(run.values)))], share, typical)


def smooth_share(runs: Iterable[Run]) -> float:
    """The candidate share with the smaller error on these runs; the default if no schedule falls smoothly."""
    smooth = [run for run in runs if classify_schedule(run.plan).shape in ("smooth", "one-cycle")]
    if not smooth:
        return SMOOTH_SHARE
    return min(SHARES, key=lambda share: sum(abs(log(epoch_at_share(r.plan, share) / r.settled)) for r in smooth))


def typical_share(runs: Sequence[Run]) -> float:
    """The geometric mean over programs; the default without programs."""
    programs = sorted({run.program for run in runs})
    if not programs:
        return TYPICAL_SHARE
    return exp(
        fmean(fmean(log(r.settled / len(r.values)) for r in runs if r.program == program) for program in programs)
    )


def _row(run: Run, values: Sequence[float], share: float, typical: float) -> Row:
    length = len(run.values)
    fits = {form: fit_form(form, values, higher=run.higher, run_epochs=length) for form in FORMS}
    return Row(
        program=run.program,
        truth=run.settled,
        forms={form: fit.epoch if fit else length for form, fit in fits.items()},
        constant=typical * length,
        curve=epochs_by_curve(values, higher=run.higher, run_epochs=length, typical_share=typical),
        ours=epochs_needed(
            values, higher=run.higher, run_epochs=length, plan=run.plan, share=share, typical_share=typical
        ),
    )

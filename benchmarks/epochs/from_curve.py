"""epochs_from_curve: a run is seen to 10, 25 or 50 %; in which epoch will it have settled?

Each program is judged by constants that never saw it: the share of Σ lr is chosen between 0.90 and 0.95 and the usual
share of the run is averaged on the other programs. Optimus, pow3 and vapour are fitted to the seen part alone; where
one cannot be, it is taken to say the declared run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean

from benchmarks.epochs.data import Run
from trainfare.estimator.convergence import FORMS, epochs_by_curve, fit_of
from trainfare.estimator.epochs_needed import epochs_needed
from trainfare.estimator.learning_rates import epoch_of_share, schedule_of

SEEN = (0.10, 0.25, 0.50)
SHARES = (0.90, 0.95)
METHODS = (*FORMS, "constant", "curve", "ours")


@dataclass
class Score:
    """Of one program: absolute errors in %, and whether the 90 % interval held the truth."""

    errors: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in METHODS})
    inside: dict[str, list[bool]] = field(default_factory=lambda: {"curve": [], "ours": []})
    widths: list[float] = field(default_factory=list)
    refused: int = 0

    def mean(self, method: str) -> float | None:
        return fmean(self.errors[method]) if self.errors[method] else None

    def coverage(self, method: str) -> float | None:
        return fmean(self.inside[method]) if self.inside[method] else None


def judge(runs: Sequence[Run], seen: float, others: Sequence[Run] | None = None) -> dict[str, Score]:
    """By program. `others` are the runs that constants come from; else those of the other programs in `runs`."""
    scores: dict[str, Score] = {}
    for program in dict.fromkeys(run.program for run in runs):
        rest = [run for run in others or runs if run.program != program]
        share, usual = smooth_share(rest), usual_share(rest)
        score = scores.setdefault(program, Score())
        for run in runs:
            if run.program == program:
                _add(score, run, run.values[: max(2, round(seen * len(run.values)))], share, usual)
    return scores


def smooth_share(runs: Iterable[Run]) -> float:
    """Of the two candidates the one with the smaller error on these runs."""
    smooth = [run for run in runs if schedule_of(run.plan).shape in ("smooth", "one-cycle")]
    return min(SHARES, key=lambda share: sum(abs(log(epoch_of_share(r.plan, share) / r.settled)) for r in smooth))


def usual_share(runs: Sequence[Run]) -> float:
    """The geometric mean, every program counting alike."""
    programs = sorted({run.program for run in runs})
    return exp(
        fmean(fmean(log(r.settled / len(r.values)) for r in runs if r.program == program) for program in programs)
    )


def _add(score: Score, run: Run, values: Sequence[float], share: float, usual: float) -> None:
    whole, truth = len(run.values), run.settled

    def error(epoch: float) -> float:
        return 100 * abs(epoch / truth - 1)

    for form in FORMS:
        fit = fit_of(form, values, higher=run.higher, run=whole)
        score.errors[form].append(error(fit.epoch if fit else whole))
    score.errors["constant"].append(error(usual * whole))
    answers = {
        "curve": epochs_by_curve(values, higher=run.higher, run=whole, usual_share=usual),
        "ours": epochs_needed(values, higher=run.higher, run=whole, plan=run.plan, share=share, usual_share=usual),
    }
    for name, answer in answers.items():
        if answer.value is not None and answer.low is not None and answer.high is not None:
            score.errors[name].append(error(answer.value))
            score.inside[name].append(answer.low <= truth <= answer.high)
    ours = answers["ours"]
    if ours.low is not None and ours.high is not None:
        score.widths.append(ours.high / ours.low)
    else:
        score.refused += 1

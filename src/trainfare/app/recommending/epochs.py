"""How many epochs does a program need, at its batch size or another?

Two numbers are told apart: how many epochs are *needed* until the model settles, and how many the program *trains*,
because it says so or because its early stopping ends it. A bill counts the second; the first says what to save.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from trainfare.errors import NotFoundError, UsageError
from trainfare.estimator.epochs.by_batch import KnownEpochs, epochs_at_batches
from trainfare.estimator.epochs.convergence import FORMS, Fit, epochs_by_curve, epochs_to_reach, fit_of, unusable
from trainfare.estimator.epochs.learning_rates import Shape, end_of, epochs_by_schedule, schedule_of
from trainfare.estimator.epochs.needed import epochs_needed
from trainfare.estimator.epochs.stabilisation import patience_epoch, settled_epoch
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.profile import Profile
from trainfare.profiler.stopping import (
    PATIENCE,
    complete_epochs,
    higher_is_better,
    convergence_metric,
    stabilisation_point,
)
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_history

TRAINING_LOSS = "training loss"
"""As `convergence_metric` names the mean of each epoch; `loss` is understood too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A metric epoch by epoch from the first on; NaN where training had diverged."""

    metric: str
    higher: bool
    """Higher is better."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stabilised:
    """Where the epochs that were seen came to rest, by three rules; None where they did not."""

    settled: int
    """Within 2 % of the improvement so far, on the running median: the steadiest rule."""
    patience: int | None
    """Where early stopping with a patience of five ends."""
    eye: int | None
    """Malta's stabilisation point of 2019."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEpochs:
    """What one profile says."""

    profile_id: str
    program: str
    batch_size: int | None
    """Of one iteration, all processes together."""
    declared: int | None
    """Epochs of the run: by you, by the program, or until its learning rate has gone."""
    trains: EpochsAnswer
    needed: EpochsAnswer
    by_schedule: EpochsAnswer
    by_curve: EpochsAnswer
    shape: Shape
    curve: Curve | None
    fits: tuple[Fit, ...]
    stabilised: Stabilised | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsReport:
    """`answer` is what was asked for; `profiles` are what it leans on, the leading one first."""

    answer: EpochsAnswer
    profiles: tuple[ProfileEpochs, ...]


def epochs(
    profile_ids: Sequence[str] = (),
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    metric: str | None = None,
    target: float | None = None,
    seen: int | None = None,
    settings: Settings | None = None,
) -> EpochsReport:
    """How many epochs the program of these profiles needs; of the newest where none is named.

    `batch_size` is another one to answer for; profiles at several are used together. `epochs` is how long the run is
    where the program does not say, `seen` takes only so many of the first epochs. With a `target`, the answer is how
    many until the metric is there, at the batch size of the profile.
    """
    for name, number in (("--batch-size", batch_size), ("--epochs", epochs), ("--seen", seen)):
        if number is not None and number < 1:
            raise UsageError(f"{name} must be a whole number of at least 1, got {number}.")
    with open_history((settings or read_settings()).store) as history:
        profiles = _profiles(history, profile_ids)
    _require_one_program(profiles)
    found = tuple(profile_epochs(profile, epochs=epochs, metric=metric, seen=seen) for profile in profiles)
    if target is not None:
        return EpochsReport(answer=_to_target(found[0], target, batch_size), profiles=found)
    return EpochsReport(answer=_answer(found, profiles, batch_size), profiles=found)


def expected_epochs(profile: Profile, *, epochs: int | None = None, metric: str | None = None) -> EpochsAnswer:
    """How many epochs this program will train, for a bill: what you say, what it says, its early stopping; where
    nobody says, as many as it needs. May be a refusal."""
    found = profile_epochs(profile, epochs=epochs, metric=metric)
    return found.needed if found.trains.refused else found.trains


def epochs_to_target(profile: Profile, target: float, *, metric: str) -> EpochsAnswer:
    """How many until the metric has this value, by the curve of the profile. May be a refusal."""
    return _to_target(profile_epochs(profile, metric=metric), target, None)


def profile_epochs(
    profile: Profile, *, epochs: int | None = None, metric: str | None = None, seen: int | None = None
) -> ProfileEpochs:
    """What this profile says, by every rule."""
    curve = _curve(profile, metric, seen)
    values, higher = (curve.values, curve.higher) if curve else ((), False)
    declared = epochs or declared_epochs(profile)
    plan = planned_rates(profile, declared)
    if declared is None and (end := end_of(plan)) is not None and end >= len(values):
        # Nobody says how long it trains, but its learning rate does.
        declared, plan = end, plan[:end]
    whole = declared is not None and len(plan) == declared
    needed = _not_of_the_diverged(profile, seen, epochs_needed(values, higher=higher, run=declared, plan=plan))
    batch_size = profile.effective_batch_size
    needed = replace(needed, batch_size=batch_size)
    length = max(declared, len(values)) if declared else None
    usable = len(values) and unusable(values, higher=higher) is None
    fits = tuple(fit for form in FORMS if (fit := fit_of(form, values, higher=higher, run=length))) if usable else ()
    return ProfileEpochs(
        profile_id=profile.id,
        program=profile.program.name,
        batch_size=batch_size,
        declared=declared,
        trains=_trains(profile, epochs, needed),
        needed=needed,
        by_schedule=epochs_by_schedule(plan, whole=whole, values=values, higher=higher),
        by_curve=epochs_by_curve(values, higher=higher, run=declared),
        shape=schedule_of(plan).shape,
        curve=curve,
        fits=fits,
        stabilised=_stabilised(curve, declared),
    )


def declared_epochs(profile: Profile) -> int | None:
    """As the program says, in epochs or in iterations."""
    if profile.epochs:
        return profile.epochs
    length = profile.iterations_per_epoch
    return math.ceil(profile.planned_iterations / length) if profile.planned_iterations and length else None


def planned_rates(profile: Profile, declared: int | None) -> tuple[float, ...]:
    """The learning rate at the start of each epoch, as planned or, of a run that was seen whole, as it was.

    Empty where nobody knows it ahead: a schedule that waits for the metric lowers it when it lowers it.
    """
    if "plateau" in (profile.learning_rate_schedule or "").lower():
        return ()
    if profile.learning_rate_plan:
        return profile.learning_rate_plan[:declared]
    length = profile.iterations_per_epoch
    rates = profile.learning_rate[::length] if length else ()
    known = tuple(rate for rate in rates if rate is not None)
    return known[:declared] if declared and len(known) == len(rates) >= declared else ()


def epochs_record(report: EpochsReport) -> dict[str, Any]:
    """What `--json` prints."""
    return {"answer": _answer_record(report.answer), "profiles": [_profile_record(found) for found in report.profiles]}


def _to_target(leading: ProfileEpochs, target: float, batch_size: int | None) -> EpochsAnswer:
    if not math.isfinite(target):
        raise UsageError(f"--target must be a number, got {target}.")
    if batch_size not in (None, leading.batch_size):
        raise UsageError("--target goes by the curve of a profile, so it cannot be asked for another batch size.")
    if leading.curve is None:
        return EpochsAnswer(rule="target", why="no whole epoch with a loss or a metric was seen")
    curve = leading.curve
    answer = epochs_to_reach(curve.values, target, higher=curve.higher, run=leading.declared)
    return replace(answer, why=f"{curve.metric}: {answer.why}", batch_size=leading.batch_size)


def _answer(found: Sequence[ProfileEpochs], profiles: Sequence[Profile], batch_size: int | None) -> EpochsAnswer:
    leading = found[0]
    samples = next((profile.samples for profile in profiles if profile.samples), None)
    if batch_size is None:
        return leading.needed
    same = next((one for one in found if one.batch_size == batch_size and not one.needed.refused), None)
    if same is not None:
        return same.needed
    told = [
        KnownEpochs.of(one.needed, one.batch_size, profile.gradient_noise)
        for one, profile in zip(found, profiles, strict=True)
        if one.batch_size is not None
    ]
    known = [one for one in told if one is not None]
    answer = epochs_at_batches(known, [batch_size], samples=samples)[batch_size]
    return answer if known or not leading.needed.refused else replace(answer, why=f"{answer.why}: {leading.needed.why}")


def _trains(profile: Profile, asked: int | None, needed: EpochsAnswer) -> EpochsAnswer:
    if asked is not None:
        return _exactly(asked, "you", f"you said {asked} epochs")
    declared, stopping = declared_epochs(profile), profile.early_stopping
    if stopping is not None and not needed.refused:
        patience = stopping.patience
        low, high = (needed.low or 1) + patience, (needed.high or 1) + patience
        value = (needed.value or math.sqrt(low * high)) + patience
        at_most = float(declared or math.inf)
        return EpochsAnswer(
            rule="early stopping",
            value=min(value, at_most),
            low=min(low, at_most),
            high=min(max(high, value), at_most),
            why=f"the program stops {patience} epochs after {stopping.metric or 'its metric'} is best"
            + (f", and at {declared} at the latest" if declared else ""),
        )
    if declared is None:
        return EpochsAnswer(rule="program", why="the program does not say how many epochs it trains")
    said = "says so" if profile.epochs else f"trains {profile.planned_iterations} iterations"
    if stopping is None:
        return _exactly(declared, "program", f"the program {said}")
    return EpochsAnswer(
        rule="early stopping",
        value=declared,
        low=min(stopping.patience + 1, declared),
        high=declared,
        why=f"the program {said}, and may stop earlier by itself",
    )


def _exactly(number: int, rule: Any, why: str) -> EpochsAnswer:
    return EpochsAnswer(rule=rule, value=number, low=number, high=number, why=why)


def _not_of_the_diverged(profile: Profile, seen: int | None, answer: EpochsAnswer) -> EpochsAnswer:
    """A loss that is no number any more ends the question, whatever the schedule says."""
    if seen is None and profile.loss and profile.loss[-1] is None and any(v is not None for v in profile.loss):
        first = profile.loss.index(None) + 1
        return EpochsAnswer(
            rule="curve",
            why=f"the loss is not a number from iteration {first} on: training diverges. "
            "Lower the learning rate before asking how long it takes",
        )
    return answer


def _curve(profile: Profile, metric: str | None, seen: int | None) -> Curve | None:
    followed = convergence_metric(profile) if metric is None else _named(profile, metric)
    if followed is None:
        return None
    name, numbers, values = followed
    every = _every_epoch(numbers, values)
    diverged = name == TRAINING_LOSS and any(
        epoch.loss is None and epoch.number > numbers[0] for epoch in complete_epochs(profile)
    )
    tail = (math.nan,) if diverged else ()
    return Curve(metric=name, higher=higher_is_better(name), values=(*every, *tail)[:seen])


def _named(profile: Profile, metric: str) -> tuple[str, list[int], list[float]] | None:
    done = complete_epochs(profile)
    if metric in (TRAINING_LOSS, "loss") and not any(metric in epoch.metrics for epoch in done):
        trained = [(epoch.number, epoch.loss) for epoch in done if epoch.loss is not None]
        if trained:
            return TRAINING_LOSS, [number for number, _ in trained], [loss for _, loss in trained]
    having = [epoch for epoch in done if metric in epoch.metrics]
    if not having:
        names = sorted({name for epoch in done for name in epoch.metrics})
        known = [*names, *(("loss",) if any(epoch.loss is not None for epoch in done) else ())]
        if not known:
            raise UsageError(
                f"profile {profile.id} has no whole epoch with a metric. Let it see some: "
                f"trainfare profile --epochs 5 -- {profile.program.command_line}"
            )
        raise _NoMetric(metric, profile.id, known)
    return metric, [epoch.number for epoch in having], [epoch.metrics[metric] for epoch in having]


class _NoMetric(NotFoundError):
    def __init__(self, name: str, profile_id: str, known: Sequence[str]) -> None:
        super().__init__("metric", name, known)
        self.args = (f"{self.args[0]} Profile {profile_id} has {', '.join(known)}.",)


def _every_epoch(numbers: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    """One value an epoch from the first on: on a line between those that were validated, flat before the first."""
    every = [values[0]] * numbers[0]
    for (before, start), (here, end) in pairwise(zip(numbers, values, strict=True)):
        every += [start + (end - start) * (number - before) / (here - before) for number in range(before + 1, here + 1)]
    return tuple(every)


def _stabilised(curve: Curve | None, run: int | None) -> Stabilised | None:
    if curve is None or unusable(curve.values, higher=curve.higher):
        return None
    return Stabilised(
        settled=settled_epoch(curve.values, higher=curve.higher, run=run),
        patience=patience_epoch(curve.values, higher=curve.higher, patience=PATIENCE),
        eye=None if (place := stabilisation_point(curve.values, PATIENCE)) is None else place + 1,
    )


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    if profile_ids:
        return tuple(history.profile(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles()
    if not every:
        raise UsageError("there is no profile yet. Make one first: trainfare profile --epochs 5 -- python train.py")
    return (every[0],)


def _require_one_program(profiles: Sequence[Profile]) -> None:
    names = sorted({profile.program.name for profile in profiles})
    if len(names) > 1:
        raise UsageError(
            f"these are profiles of {len(names)} programs ({', '.join(names)}), and each needs its own number of "
            "epochs. Ask for one program at a time."
        )


def _answer_record(answer: EpochsAnswer) -> dict[str, Any]:
    return {
        "epochs": answer.whole,
        "value": answer.value,
        "low": answer.low,
        "high": answer.high,
        "confidence": None if answer.refused else 0.9,
        "refused": answer.refused,
        "rule": answer.rule,
        "why": answer.why,
        "batch_size": answer.batch_size,
        "warnings": list(answer.warnings),
    }


def _profile_record(found: ProfileEpochs) -> dict[str, Any]:
    curve = found.curve
    return {
        "profile": found.profile_id,
        "program": found.program,
        "batch_size": found.batch_size,
        "declared": found.declared,
        "trains": _answer_record(found.trains),
        "needed": _answer_record(found.needed),
        "by_schedule": _answer_record(found.by_schedule),
        "by_curve": _answer_record(found.by_curve),
        "schedule": found.shape,
        "metric": curve and curve.metric,
        "higher_is_better": curve and curve.higher,
        # JSON has no NaN.
        "values": [value if math.isfinite(value) else None for value in curve.values] if curve else [],
        "fits": [asdict(fit) for fit in found.fits],
        "stabilised": found.stabilised and asdict(found.stabilised),
    }

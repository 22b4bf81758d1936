"""The number of epochs that a profiled program needs and trains, by every rule.

Two numbers are distinguished: the epochs *needed* until the model converges, and the epochs that the program *trains*,
because it declares them or because its early stopping ends the run. A bill counts the second; the first shows how many
could be saved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trainfare.errors import NotFoundError, Remedy, UsageError
from trainfare.estimator.epochs.by_batch import KnownEpochs, epochs_at_batches
from trainfare.estimator.epochs.convergence import (
    FORMS,
    CurveFit,
    epochs_by_curve,
    epochs_to_reach,
    fit_form,
    unusable_reason,
)
from trainfare.estimator.epochs.learning_rates import ScheduleShape, classify_schedule, epochs_by_schedule, planned_end
from trainfare.estimator.epochs.needed import epochs_needed
from trainfare.estimator.epochs.stabilisation import patience_epoch, settled_epoch
from trainfare.model.epochs import EpochsAnswer, EpochsRule
from trainfare.model.profile import Profile
from trainfare.model.stability import (
    PATIENCE,
    complete_epochs,
    convergence_metric,
    higher_is_better,
    stabilisation_point,
)
from trainfare.units import format_epochs, plural

TRAINING_LOSS = "training loss"
"""The name that `convergence_metric` gives to the mean loss of each epoch; users may also call it `loss`."""
MORE_EPOCHS = 5
"""Epochs that a profile should cover, in advice to profile again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurve:
    """The values of a metric, one per epoch from the first epoch on; NaN after the training diverged."""

    metric: str
    higher: bool
    """True if higher values are better."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvergedEpochs:
    """The epoch at which the measured curve converged, by three rules; None if it did not."""

    settled: int
    """Within 2 % of the improvement so far, on the running median: the most robust rule."""
    patience: int | None
    """The epoch at which early stopping with a patience of five ends the run."""
    eye: int | None
    """Malta's stabilisation point of 2019."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEpochs:
    """The numbers of epochs that follow from one profile."""

    profile_id: str
    program: str
    batch_size: int | None
    """Effective batch size: samples per iteration of all processes together."""
    declared: int | None
    """Length of the run in epochs: stated by the user, declared by the program, or until the learning rate reaches
    zero."""
    trains: EpochsAnswer
    needed: EpochsAnswer
    by_schedule: EpochsAnswer
    by_curve: EpochsAnswer
    shape: ScheduleShape
    curve: MetricCurve | None
    fits: tuple[CurveFit, ...]
    converged: ConvergedEpochs | None
    drops: tuple[int, ...] = ()
    """The last epoch before each planned drop of the learning rate, if it falls in steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsReport:
    """The requested number of epochs, and what each profile contributes to it, the leading profile first."""

    answer: EpochsAnswer
    profiles: tuple[ProfileEpochs, ...]


def report_epochs(
    profiles: Sequence[Profile],
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    metric: str | None = None,
    target: float | None = None,
    seen: int | None = None,
) -> EpochsReport:
    """The number of epochs that the program of these profiles needs, at its own or at another `batch_size`.

    `epochs` is the length of the run if the program does not declare it; `seen` limits the curve to its first epochs.
    With a `target`, the answer is the number of epochs until the metric reaches it.
    """
    found = tuple(profile_epochs(profile, epochs=epochs, metric=metric, seen=seen) for profile in profiles)
    if target is not None:
        return EpochsReport(answer=_epochs_to_target(found[0], target, batch_size), profiles=found)
    return EpochsReport(answer=_needed_at(found, profiles, batch_size), profiles=found)


def expected_epochs(profile: Profile, *, epochs: int | None = None, metric: str | None = None) -> EpochsAnswer:
    """The number of epochs that this program will train, for a bill.

    It is stated by the user, else declared by the program, else ended by its early stopping, else the number that it
    needs. The answer may be a refusal.
    """
    found = profile_epochs(profile, epochs=epochs, metric=metric)
    return found.needed if found.trains.refused else found.trains


def epochs_to_target(profile: Profile, target: float, *, metric: str) -> EpochsAnswer:
    """The number of epochs until the metric reaches this value, by the curve of the profile; may be a refusal."""
    return _epochs_to_target(profile_epochs(profile, metric=metric), target, None)


def profile_epochs(
    profile: Profile, *, epochs: int | None = None, metric: str | None = None, seen: int | None = None
) -> ProfileEpochs:
    """The numbers of epochs that follow from this profile, by every rule."""
    curve = _curve(profile, metric, seen)
    values, higher = (curve.values, curve.higher) if curve else ((), False)
    declared = epochs or declared_epochs(profile)
    plan = planned_rates(profile, declared)
    if declared is None and (end := planned_end(plan)) is not None and end >= len(values):
        # The program does not declare the length of its run, but its learning rate ends there.
        declared, plan = end, plan[:end]
    complete = declared is not None and len(plan) == declared
    schedule = classify_schedule(plan)
    needed = _refused_if_diverged(profile, seen, epochs_needed(values, higher=higher, run_epochs=declared, plan=plan))
    batch_size = profile.effective_batch_size
    needed = replace(needed, batch_size=batch_size)
    length = max(declared, len(values)) if declared else None
    usable = len(values) and unusable_reason(values, higher=higher) is None
    fits = (
        tuple(fit for form in FORMS if (fit := fit_form(form, values, higher=higher, run_epochs=length)))
        if usable
        else ()
    )
    return ProfileEpochs(
        profile_id=profile.id,
        program=profile.program.name,
        batch_size=batch_size,
        declared=declared,
        trains=_trained_epochs(profile, epochs, needed),
        needed=needed,
        by_schedule=epochs_by_schedule(plan, complete=complete, values=values, higher=higher),
        by_curve=epochs_by_curve(values, higher=higher, run_epochs=declared),
        shape=schedule.shape,
        drops=schedule.drops,
        curve=curve,
        fits=fits,
        converged=_converged(curve, declared),
    )


def declared_epochs(profile: Profile) -> int | None:
    """The number of epochs that the program declares, in epochs or in iterations."""
    if profile.epochs:
        return math.ceil(profile.epochs)
    length = profile.iterations_per_epoch
    return math.ceil(profile.planned_iterations / length) if profile.planned_iterations and length else None


def planned_rates(profile: Profile, declared: int | None) -> tuple[float, ...]:
    """The learning rate at the start of each epoch: as planned, or as recorded if the run was profiled to its end.

    Empty if it is not known in advance: a schedule that reacts to the metric lowers it at an unknown epoch.
    """
    if "plateau" in (profile.learning_rate_schedule or "").lower():
        return ()
    if profile.learning_rate_plan:
        return profile.learning_rate_plan[:declared]
    length = profile.iterations_per_epoch
    rates = profile.learning_rate[::length] if length else ()
    known = tuple(rate for rate in rates if rate is not None)
    return known[:declared] if declared and len(known) == len(rates) >= declared else ()


def _epochs_to_target(leading: ProfileEpochs, target: float, batch_size: int | None) -> EpochsAnswer:
    if not math.isfinite(target):
        raise UsageError(f"must be a finite number, got {target}.", field="target")
    if batch_size not in (None, leading.batch_size):
        raise UsageError(
            "a target is read off the curve of a profile, so it cannot be combined with another batch size.",
            field="target",
        )
    if leading.curve is None:
        return EpochsAnswer(rule="target", why="no complete epoch with a loss or a metric was profiled")
    curve = leading.curve
    run, drops = leading.declared, leading.drops
    answer = epochs_to_reach(curve.values, target, higher=curve.higher, run_epochs=run, drops=drops)
    return replace(answer, why=f"{curve.metric}: {answer.why}", batch_size=leading.batch_size)


def _needed_at(found: Sequence[ProfileEpochs], profiles: Sequence[Profile], batch_size: int | None) -> EpochsAnswer:
    """The epochs needed at a batch size: of the profile with that size, else predicted from all profiles."""
    leading = found[0]
    samples = next((profile.samples for profile in profiles if profile.samples), None)
    if batch_size is None:
        return leading.needed
    same = next((one for one in found if one.batch_size == batch_size and not one.needed.refused), None)
    if same is not None:
        return same.needed
    answers = [
        KnownEpochs.from_answer(one.needed, one.batch_size, profile.gradient_noise)
        for one, profile in zip(found, profiles, strict=True)
        if one.batch_size is not None
    ]
    known = [one for one in answers if one is not None]
    answer = epochs_at_batches(known, [batch_size], samples=samples)[batch_size]
    return answer if known or not leading.needed.refused else replace(answer, why=f"{answer.why}: {leading.needed.why}")


def _trained_epochs(profile: Profile, stated: int | None, needed: EpochsAnswer) -> EpochsAnswer:
    """The epochs that the program trains: stated, declared, or ended by early stopping."""
    if stated is not None:
        return _exactly(stated, "you", f"you stated {plural(stated, 'epoch')}")
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
            why=f"the program stops {plural(patience, 'epoch')} after the best {stopping.metric or 'metric'}"
            + (f", and after {plural(declared, 'epoch')} at the latest" if declared else ""),
        )
    if declared is None:
        return EpochsAnswer(rule="program", why="the program does not declare a number of epochs")
    length = format_epochs(profile.epochs) if profile.epochs else plural(profile.planned_iterations or 0, "iteration")
    if stopping is None:
        return _exactly(declared, "program", f"the program declares {length}")
    return EpochsAnswer(
        rule="early stopping",
        value=declared,
        low=min(stopping.patience + 1, declared),
        high=declared,
        why=f"the program declares {length}, and its early stopping may end earlier",
    )


def _exactly(number: int, rule: EpochsRule, why: str) -> EpochsAnswer:
    return EpochsAnswer(rule=rule, value=number, low=number, high=number, why=why)


def _refused_if_diverged(profile: Profile, seen: int | None, answer: EpochsAnswer) -> EpochsAnswer:
    """A refusal if the loss has become NaN, whatever the learning rate schedule says; else the answer."""
    if seen is None and profile.loss and profile.loss[-1] is None and any(v is not None for v in profile.loss):
        first = profile.loss.index(None) + 1
        return EpochsAnswer(
            rule="curve",
            why=f"the loss is not a number from iteration {first} on, so the training diverges. "
            "Lower the learning rate first",
        )
    return answer


def _curve(profile: Profile, metric: str | None, seen: int | None) -> MetricCurve | None:
    found = convergence_metric(profile) if metric is None else _metric_named(profile, metric)
    if found is None:
        return None
    name, numbers, values = found
    every = _interpolated(numbers, values)
    diverged = name == TRAINING_LOSS and any(
        epoch.loss is None and epoch.number > numbers[0] for epoch in complete_epochs(profile)
    )
    tail = (math.nan,) if diverged else ()
    return MetricCurve(metric=name, higher=higher_is_better(name), values=(*every, *tail)[:seen])


def _metric_named(profile: Profile, metric: str) -> tuple[str, list[int], list[float]]:
    """The name, epochs and values of a metric of the profile; an error that lists its metrics if it has none such."""
    done = complete_epochs(profile)
    if metric in (TRAINING_LOSS, "loss") and not any(metric in epoch.metrics for epoch in done):
        trained = [(epoch.number, epoch.loss) for epoch in done if epoch.loss is not None]
        if trained:
            return TRAINING_LOSS, [number for number, _ in trained], [loss for _, loss in trained]
    with_metric = [epoch for epoch in done if metric in epoch.metrics]
    if with_metric:
        return metric, [epoch.number for epoch in with_metric], [epoch.metrics[metric] for epoch in with_metric]
    names = sorted({name for epoch in done for name in epoch.metrics})
    known = [*names, *(("loss",) if any(epoch.loss is not None for epoch in done) else ())]
    if not known:
        raise UsageError(
            f"profile {profile.id} has no complete epoch with a metric. Profile the program again for a few epochs.",
            field="metric",
            remedies=[profile_epochs_remedy(profile)],
        )
    error = NotFoundError("metric", metric, known, field="metric")
    error.message += f" Profile {profile.id} has {', '.join(known)}."
    raise error


def profile_epochs_remedy(profile: Profile, epochs: int = MORE_EPOCHS) -> Remedy:
    """The advice to profile this program for a number of epochs."""
    return Remedy({"epochs": epochs}, command="profile", program=profile.program.command_line)


def _interpolated(numbers: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    """One value per epoch from the first epoch on: linear between validated epochs, constant before the first."""
    every = [values[0]] * numbers[0]
    for (before, start), (here, end) in pairwise(zip(numbers, values, strict=True)):
        every += [start + (end - start) * (number - before) / (here - before) for number in range(before + 1, here + 1)]
    return tuple(every)


def _converged(curve: MetricCurve | None, run: int | None) -> ConvergedEpochs | None:
    if curve is None or unusable_reason(curve.values, higher=curve.higher):
        return None
    return ConvergedEpochs(
        settled=settled_epoch(curve.values, higher=curve.higher, run_epochs=run),
        patience=patience_epoch(curve.values, higher=curve.higher, patience=PATIENCE),
        eye=None if (index := stabilisation_point(curve.values, PATIENCE)) is None else index + 1,
    )

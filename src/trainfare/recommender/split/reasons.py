"""The reasons for a split plan, or for a single machine instead of one, as data."""

from collections.abc import Iterator, Mapping, Sequence

from trainfare.estimator.cost.timing import STARTUP_PHASES
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.reason import Reason, Scalar
from trainfare.model.split import Migration, Segment, SplitPlan
from trainfare.recommender.explain.codes import limit_values
from trainfare.recommender.names import candidate_name
from trainfare.recommender.split.search import MachineCost, Split


def split_reasons(plan: SplitPlan, goal: Goal, *, writes_checkpoints: bool) -> tuple[Reason, ...]:
    """The plan itself, its migration, the value of each segment, and what the program must be able to do."""
    return (
        _plan_reason(plan, goal),
        *_early_target_reason(plan, goal),
        _migration_reason(plan.migration, plan.segments[1]),
        *_delta_reason(plan),
        *_progress_reason(plan),
        Reason(
            topic="why",
            code="program_must_resume",
            values={"after": plan.split_after, "writes_checkpoints": writes_checkpoints},
        ),
    )


def single_machine_reason(code: str) -> Reason:
    """A reason for a single machine that needs no numbers."""
    return Reason(topic="why", code=code)


def no_split_reason(
    best: Split | None, machines: Sequence[MachineCost], single_machine: Estimate | None, goal: Goal
) -> Reason:
    """The reason for a single machine. `best` is a split that would be better but for its uncertainty."""
    limits = limit_values(goal)
    if single_machine is None:
        return Reason(topic="why", code="no_split_within_limits", values=limits)
    if best is None:
        return Reason(topic="why", code="no_split_is_better", values=limits)
    return Reason(
        topic="why",
        code="split_saving_uncertain",
        values={
            "after": best.after,
            "first": candidate_name(machines[best.first].candidate),
            "second": candidate_name(machines[best.second].candidate),
            "seconds": best.seconds,
            "usd": best.usd,
            "single_machine": candidate_name(single_machine.candidate),
            "single_seconds": single_machine.seconds.value,
            "single_usd": single_machine.usd.value,
        },
    )


def _plan_reason(plan: SplitPlan, goal: Goal) -> Reason:
    saving = plan.saving
    saved: Mapping[str, Scalar] | None = (
        None
        if saving is None
        else {
            "quantity": saving.quantity,
            "amount": saving.amount.value,
            "low": saving.amount.low,
            "high": saving.amount.high,
            "confidence": saving.amount.confidence,
            "share": saving.share,
        }
    )
    single = plan.single_machine
    return Reason(
        topic="why",
        code="split_plan",
        values={
            "segments": tuple(_segment(segment) for segment in plan.segments),
            "seconds": plan.seconds.value,
            "usd": plan.usd.value,
            **limit_values(goal),
            "single_machine": None if single is None else candidate_name(single.candidate),
            "saving": saved,
        },
    )


def _segment(segment: Segment) -> dict[str, Scalar]:
    estimate = segment.estimate
    return {
        "first_epoch": segment.first_epoch,
        "last_epoch": segment.last_epoch,
        "machine": candidate_name(estimate.candidate),
        "seconds": estimate.seconds.value,
        "usd": estimate.usd.value,
    }


def _early_target_reason(plan: SplitPlan, goal: Goal) -> Iterator[Reason]:
    found = plan.early_target
    if found is None:
        return
    target, epochs = found.target, found.epochs
    yield Reason(
        topic="why",
        code="early_target_expected",
        values={
            "metric": target.metric,
            "value": target.value,
            "limit_seconds": target.seconds,
            "epochs": epochs.value,
            "epochs_low": epochs.low,
            "epochs_high": epochs.high,
            "confidence": epochs.confidence,
            "seconds": found.seconds.value,
            "seconds_high": found.seconds.upper_bound(goal.confidence),
            "bound_confidence": goal.confidence,
        },
    )


def _migration_reason(migration: Migration, second: Segment) -> Reason:
    start = sum(p.seconds.value for p in second.estimate.phases if p.name in STARTUP_PHASES)
    return Reason(
        topic="why",
        code="migration_cost",
        values={
            "seconds": migration.seconds.value,
            "usd": migration.usd.value,
            "bytes": None if migration.bytes is None else migration.bytes.value,
            "parts": tuple(
                {"part": name, "seconds": part.seconds.value, "basis": part.basis}
                for name, part in migration.parts.items()
            ),
            "start_seconds": start,
        },
    )


def _delta_reason(plan: SplitPlan) -> Iterator[Reason]:
    """Sanghvi's Δ of one epoch on each machine."""
    deltas = {candidate_name(s.estimate.candidate): s.delta for s in plan.segments if s.delta is not None}
    if deltas:
        machines: tuple[dict[str, Scalar], ...] = tuple(
            {"machine": name, "delta": delta} for name, delta in deltas.items()
        )
        yield Reason(topic="why", code="split_deltas", values={"machines": machines})


def _progress_reason(plan: SplitPlan) -> Iterator[Reason]:
    """The expected change of the metric in each segment, and per dollar."""
    segments: tuple[dict[str, Scalar], ...] = tuple(
        {
            "first_epoch": segment.first_epoch,
            "last_epoch": segment.last_epoch,
            "metric": segment.progress.metric,
            "before": segment.progress.before,
            "after": segment.progress.after,
            "change_per_usd": segment.change_per_usd,
        }
        for segment in plan.segments
        if segment.progress is not None
    )
    if segments:
        yield Reason(topic="why", code="split_progress", values={"segments": segments})

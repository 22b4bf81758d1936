"""What a run needs to go on after a loss: the words that the user states, and the machines that may follow."""

import shlex
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from trainfare.app.running.doors import open_door, open_doors
from trainfare.errors import NotFoundError, StoreError, UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import GoalKind
from trainfare.model.run import FINDS_ITSELF, Fact, Run
from trainfare.runner.progress import RunProgress
from trainfare.runner.recovery import REMEMBERED_SECONDS, OfferKey, Situation, SpotRecord, spot_records
from trainfare.settings import Settings
from trainfare.store.history import History

RUNS_READ = 50
"""Ended runs whose losses on spot are counted, the newest."""


def check_resume_flag(flag: str | None) -> str | None:
    """The words that make the program go on. `UsageError` if they do not name the checkpoint, or cannot be split."""
    if flag is None or flag == FINDS_ITSELF:
        return flag
    try:
        shlex.split(flag)
    except ValueError as error:
        raise UsageError(f"{flag!r} cannot be split into words: {error}.", field="resume_flag") from error
    if "{}" not in flag:
        raise UsageError(
            f"{flag!r} must hold {{}}, which stands for the path of the checkpoint; or it must be {FINDS_ITSELF}, if "
            "the program or its Trainer finds the checkpoint by itself.",
            field="resume_flag",
        )
    return flag


def read_segments(
    history: History, plan_id: str | None, resume_flag: str | None, settings: Settings
) -> tuple[Estimate, Estimate]:
    """The two segments of a split plan that is to be carried out. `UsageError` if there are none, if a door is missing,
    or if the program could not go on from its checkpoint on the second machine."""
    plan = history.plans.get(plan_id) if plan_id else None
    if plan is None or plan.split is None:
        raise UsageError("There is no split plan to carry out: name a plan that has two segments.", field="plan")
    if resume_flag is None:
        raise UsageError(
            "A split plan needs a way to go on from a checkpoint on its second machine.", field="resume_flag"
        )
    first, second = (segment.estimate for segment in plan.split.segments)
    for estimate in (first, second):
        open_door(settings, estimate.candidate.offer.vm_type.key)
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """The other machines of the plan of a run that doors lead to."""

    estimates: tuple[Estimate, ...] = ()
    goal: GoalKind = "cheapest"
    confidence: float = 0.9
    records: Mapping[OfferKey, SpotRecord] = field(default_factory=dict)
    """Losses and hours of offers on spot in other runs."""
    refusals: tuple[Fact, ...] = ()
    """Refusals that they have met within a day."""

    def within(self, usd: float) -> tuple[Candidate, ...]:
        """The candidates that are not predicted to cost more."""
        return tuple(estimate.candidate for estimate in self.estimates if estimate.usd.value <= usd)

    def situation(
        self, now: datetime, *, spent: float, progress: RunProgress, records: Mapping[OfferKey, SpotRecord]
    ) -> Situation:
        """A run at this moment; `records` are its own."""
        every = {key: self.records.get(key, SpotRecord()) + records.get(key, SpotRecord()) for key in records}
        return Situation(
            now=now,
            spent_usd=spent,
            progress=progress,
            others=self.estimates,
            confidence=self.confidence,
            records={**self.records, **every},
            refusals=self.refusals,
        )


def list_alternatives(history: History, run: Run, settings: Settings) -> Alternatives:
    """The runners-up of the plan, in their order, and this machine; none without a plan."""
    if run.plan_id is None:
        return Alternatives()
    try:
        plan = history.plans.get(run.plan_id)
    except (NotFoundError, StoreError):
        return Alternatives()
    providers = frozenset(open_doors(settings))
    every = (*plan.runners_up, *((plan.here,) if plan.here else ()), plan.chosen, *plan.spot_fallbacks)
    return Alternatives(
        estimates=tuple(
            estimate
            for estimate in dict.fromkeys(every)
            if estimate.candidate.offer.vm_type.provider in providers and estimate.candidate != run.candidate
        ),
        goal=plan.goal.kind,
        confidence=plan.goal.confidence,
        records=_records_of_others(history, run),
        refusals=history.facts.refusals(since=datetime.now(UTC) - timedelta(seconds=REMEMBERED_SECONDS)),
    )


def _records_of_others(history: History, run: Run) -> dict[OfferKey, SpotRecord]:
    """The losses and hours on spot of the last runs."""
    found: dict[OfferKey, SpotRecord] = defaultdict(SpotRecord)
    for run_id in (*history.facts.ended_runs(limit=RUNS_READ), *history.facts.unended_runs()):
        if run_id == run.id:
            continue
        with suppress(StoreError):  # a damaged run says nothing
            for key, record in spot_records(history.facts.of(run_id)).items():
                found[key] += record
    return dict(found)

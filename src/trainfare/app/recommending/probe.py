"""Measure what is worth measuring: the plan of it, and the plan carried out on slices of this machine.

After each profile everything is estimated anew with it, and the policy (`recommender/probing/next_probe.py`) asked again. Slices
are the machines that can be reached today; what lies behind other doors is named, for the user to profile there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from trainfare.app.profiling.profile import ProfilingFailed, profile_command
from trainfare.app.recommending.question import Asked, Question
from trainfare.app.recommending.recommend import Recommendation, consider, keep_plan
from trainfare.clouds.slices import is_slice
from trainfare.errors import UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.probing import Probe, ProbePlan
from trainfare.model.profile import Profile
from trainfare.recommender.probing import plan as probe_plan
from trainfare.settings import Settings, read_settings

MOST = 8
"""Probes in one go, unless the user says otherwise."""
NOTHING_PAYS = "no further probe is expected to save more than it costs"
OUT_OF_REACH = "what is still worth a probe lies behind doors that are not built yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingPlan:
    """What to measure, and which of it cannot be reached from here."""

    plan: ProbePlan
    profiles: tuple[Profile, ...]
    unreached: tuple[Probe, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One probe that was carried out: what could be kept of it, and why there is no more."""

    probe: Probe
    profile: Profile | None = None
    failure: str | None = None
    chosen: Estimate | None = None
    """What is recommended with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    steps: tuple[Step, ...]
    stopped: str
    """Why no more was measured."""
    interrupted: bool
    unreached: tuple[Probe, ...]
    """What would be worth a probe and no door leads to."""
    recommendation: Recommendation
    """As it stands now."""


def plan_probes(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    settings: Settings | None = None,
    **asked: Unpack[Asked],
) -> ProbingPlan:
    """Where to begin, which machines to measure after that, what each costs and saves, and when to stop. `asked` are
    those of `recommend`."""
    settings = settings or read_settings()
    found = consider(profile_ids, Question(goal=goal or Goal(kind=settings.goal), **asked), settings=settings)
    kept = 1.0 if any(profile.checkpoint_seconds for profile in found.profiles) else 0.0
    plan = probe_plan.plan_probes(found.alternatives, found.plan.goal, kept=kept)
    unmeasured = [plan.start] if plan.start.seconds else []
    return ProbingPlan(
        plan=plan,
        profiles=found.profiles,
        unreached=tuple(p for p in (*unmeasured, *plan.probes) if not _reaches(p.candidate, found.profiles[0])),
    )


def run_probes(
    profile_ids: Sequence[str] = (),
    *,
    most: int = MOST,
    on_probe: Callable[[Probe], None] = lambda _: None,
    on_step: Callable[[Step], None] = lambda _: None,
    profiling: dict[str, Any] | None = None,
    goal: Goal | None = None,
    settings: Settings | None = None,
    **asked: Unpack[Asked],
) -> Probing:
    """Carry the plan out on slices of this machine: the program of the leading profile runs on one after another, as
    long as that is expected to save more than it costs.

    `asked` are those of `recommend`, `profiling` the options of `profile`. `on_probe` is told before a slice is
    measured, `on_step` after it. An interruption ends it; what was measured is kept, and the plan as it then stands.
    """
    if most < 1:
        raise UsageError(f"--most must be at least 1, got {most}.")
    settings = settings or read_settings()
    ids = list(profile_ids)
    question = Question(goal=goal or Goal(kind=settings.goal), **asked)
    found = consider(ids, question, settings=settings)
    leading = found.profiles[0]
    ids = ids or [leading.id]
    steps: list[Step] = []
    interrupted = False
    while not interrupted and len(steps) < most:
        following = _next(found, {s.probe.candidate.offer.vm_type.key for s in steps})
        if following is None:
            break
        on_probe(following)
        step, interrupted = _measure(following, leading, settings, profiling or {})
        if step.profile is not None:
            if len(ids) > 1:  # profiles that are named one by one are those that count
                ids.append(step.profile.id)
            found = consider(ids, question, settings=settings)
        steps.append(Step(probe=step.probe, profile=step.profile, failure=step.failure, chosen=found.plan.chosen))
        on_step(steps[-1])
    keep_plan(found, settings)
    unreached = _unreached(found)
    return Probing(
        steps=tuple(steps),
        stopped=_why(interrupted=interrupted, done=len(steps), most=most, unreached=unreached),
        interrupted=interrupted,
        unreached=unreached,
        recommendation=found,
    )


def _next(found: Recommendation, tried: set[str]) -> Probe | None:
    """The machine believed best, where the training begins anyway; then whatever pays."""

    def reachable(estimate: Estimate) -> bool:
        candidate = estimate.candidate
        return _reaches(candidate, found.profiles[0]) and candidate.offer.vm_type.key not in tried

    goal, alternatives = found.plan.goal, found.alternatives
    start = probe_plan.plan_probes(alternatives, goal).start
    best = next(e for e in alternatives if e.candidate == start.candidate)
    if not tried and best.basis != "measured" and reachable(best):
        return replace(start, why="it is believed best, and nobody has measured it")
    return probe_plan.next_probe(alternatives, goal, reachable=reachable)


def _unreached(found: Recommendation) -> tuple[Probe, ...]:
    leading = found.profiles[0]
    other = probe_plan.next_probe(
        found.alternatives, found.plan.goal, reachable=lambda e: not _reaches(e.candidate, leading)
    )
    return () if other is None else (other,)


def _measure(following: Probe, leading: Profile, settings: Settings, profiling: dict[str, Any]) -> tuple[Step, bool]:
    """And whether the user has interrupted it."""
    directory = Path(leading.program.directory)
    if not directory.is_dir():
        raise UsageError(
            f"{directory}, from which {leading.program.name} was started, is not there any more. Profile it again "
            "from where it is now."
        )
    on = following.candidate.offer.vm_type.key
    try:
        kept = profile_command(leading.program.command, directory=directory, on=on, settings=settings, **profiling)
    except ProfilingFailed as error:
        return Step(probe=following, profile=error.profile, failure=str(error)), error.exit_code == 130
    return Step(probe=following, profile=kept), kept.ending == "interrupted"


def _reaches(candidate: Candidate, leading: Profile) -> bool:
    """Whether a door leads there: today to slices of this machine, at the batch size that the command says."""
    as_profiled = candidate.batch_size in (None, leading.effective_batch_size)
    return is_slice(candidate.offer.vm_type) and candidate.nodes == 1 and as_profiled


def _why(*, interrupted: bool, done: int, most: int, unreached: Sequence[Probe]) -> str:
    if interrupted:
        return "interrupted"
    if done >= most:
        return f"{most} probe{'s' if most != 1 else ''} were asked for at most"
    return OUT_OF_REACH if unreached else NOTHING_PAYS

"""Use case: plan the measurements that pay, and take them on slices of this machine.

After each new profile everything is estimated again, and the rule of `recommender/probing/next_probe.py` decides about
the next probe. Only slices of this machine can be reached; other machines that would pay are named, so that the user
can profile there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trainfare.app.profiling.options import ProfileKeywords, ProfileOptions
from trainfare.app.profiling.profile import ProfilingError, profile_command
from trainfare.app.recommending.question import EVERYTHING, Question
from trainfare.app.recommending.recommend import Recommendation, answer, save_plan
from trainfare.clouds.slices import is_slice
from trainfare.errors import UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.probing import Probe, ProbeResult, ProbingPlan, ProbingResult
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason
from trainfare.model.scope import Scope
from trainfare.model.split import EarlyTarget
from trainfare.recommender.probing import plan as probe_plan
from trainfare.settings import Settings, read_settings

MOST_PROBES = 8
"""Probes in one call, by default."""
INTERRUPTED_EXIT_CODE = 130


def plan_probes(
    profile_ids: Sequence[str] = (),
    *,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    epochs: int | None = None,
    early: EarlyTarget | None = None,
    split: bool = False,
    iterations_per_epoch: int | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
) -> ProbingPlan:
    """The machine to start on, the machines to probe, what each probe costs and saves, and when to stop.

    The arguments are those of `recommend`.
    """
    settings = settings or read_settings()
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=scope,
        epochs=epochs,
        early=early,
        split=split,
        iterations_per_epoch=iterations_per_epoch,
        overheads=overheads,
    )
    found = answer(question, profile_ids, settings=settings)
    writes_checkpoints = any(profile.checkpoint_seconds for profile in found.profiles)
    plan = probe_plan.plan_probes(found.alternatives, found.plan.goal, keeps_work=writes_checkpoints)
    unmeasured = [plan.start] if plan.start.seconds else []
    return ProbingPlan(
        plan=plan,
        profiles=found.profiles,
        unreachable=tuple(p for p in (*unmeasured, *plan.probes) if not _is_reachable(p.candidate, found.profiles[0])),
    )


def run_probes(
    profile_ids: Sequence[str] = (),
    *,
    most: int = MOST_PROBES,
    on_probe: Callable[[Probe], None] = lambda _: None,
    on_step: Callable[[ProbeResult], None] = lambda _: None,
    profiling: ProfileKeywords | None = None,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    epochs: int | None = None,
    early: EarlyTarget | None = None,
    split: bool = False,
    iterations_per_epoch: int | None = None,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
) -> ProbingResult:
    """Run the program of the leading profile on slices of this machine, as long as a probe is expected to pay.

    `profiling` holds options of `profile`, the other arguments are those of `recommend`. `on_probe` is called before a
    slice is measured and `on_step` after it. An interruption ends the probing; its profiles and the plan that follows
    from them are saved.
    """
    if most < 1:
        raise UsageError(f"must be at least 1, got {most}.", field="most")
    settings = settings or read_settings()
    ids = list(profile_ids)
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=scope,
        epochs=epochs,
        early=early,
        split=split,
        iterations_per_epoch=iterations_per_epoch,
        overheads=overheads,
    )
    found = answer(question, ids, settings=settings)
    leading = found.profiles[0]
    ids = ids or [leading.id]
    steps: list[ProbeResult] = []
    interrupted = False
    while not interrupted and len(steps) < most:
        probe = _next_probe(found, {s.probe.candidate.offer.vm_type.key for s in steps})
        if probe is None:
            break
        on_probe(probe)
        step, interrupted = _take_probe(probe, leading, settings, profiling or {})
        if step.profile is not None:
            if len(ids) > 1:  # with several named profiles, no other profile is used unless it is named too
                ids.append(step.profile.id)
            found = answer(question, ids, settings=settings)
        steps.append(replace(step, chosen=found.plan.chosen))
        on_step(steps[-1])
    save_plan(found, settings)
    unreachable = _unreachable_probes(found)
    return ProbingResult(
        steps=tuple(steps),
        stopped=_stop_reason(interrupted=interrupted, done=len(steps), most=most, unreachable=unreachable),
        interrupted=interrupted,
        unreachable=unreachable,
        plan=found.plan,
    )


def _next_probe(found: Recommendation, tried: set[str]) -> Probe | None:
    """First the machine expected to be best, where the training starts anyway; then the probe that pays most."""

    def reachable(estimate: Estimate) -> bool:
        candidate = estimate.candidate
        return _is_reachable(candidate, found.profiles[0]) and candidate.offer.vm_type.key not in tried

    goal, alternatives = found.plan.goal, found.alternatives
    start = probe_plan.plan_probes(alternatives, goal).start
    best = next(e for e in alternatives if e.candidate == start.candidate)
    if not tried and best.basis != "measured" and reachable(best):
        return replace(start, reason=probe_plan.unmeasured_best_reason())
    return probe_plan.next_probe(alternatives, goal, reachable=reachable)


def _unreachable_probes(found: Recommendation) -> tuple[Probe, ...]:
    """The best probe that would pay on a machine that cannot be reached, if there is one."""
    leading = found.profiles[0]
    probe = probe_plan.next_probe(
        found.alternatives, found.plan.goal, reachable=lambda e: not _is_reachable(e.candidate, leading)
    )
    return () if probe is None else (probe,)


def _take_probe(
    probe: Probe, leading: Profile, settings: Settings, profiling: ProfileKeywords
) -> tuple[ProbeResult, bool]:
    """The result of profiling the program there, and True if the user interrupted it."""
    directory = Path(leading.program.directory)
    if not directory.is_dir():
        raise UsageError(
            f"the folder {directory}, from which {leading.program.name} was started, no longer exists. Profile the "
            "program again from its present folder."
        )
    keywords: ProfileKeywords = {
        **profiling,
        "directory": directory,
        "on": probe.candidate.offer.vm_type.key,
        "settings": settings,
    }
    try:
        profile = profile_command(leading.program.command, ProfileOptions(**keywords))
    except ProfilingError as error:
        result = ProbeResult(probe=probe, profile=error.profile, failure=str(error))
        return result, error.exit_code == INTERRUPTED_EXIT_CODE
    return ProbeResult(probe=probe, profile=profile), profile.ending == "interrupted"


def _is_reachable(candidate: Candidate, leading: Profile) -> bool:
    """True for slices of this machine, at the batch size of the profiled command."""
    as_profiled = candidate.batch_size in (None, leading.effective_batch_size)
    return is_slice(candidate.offer.vm_type) and candidate.nodes == 1 and as_profiled


def _stop_reason(*, interrupted: bool, done: int, most: int, unreachable: Sequence[Probe]) -> Reason:
    if interrupted:
        return Reason(topic="why", code="probing_interrupted")
    if done >= most:
        return Reason(topic="why", code="probe_limit_reached", values={"most": most})
    return Reason(topic="why", code="only_unreachable_probes_pay" if unreachable else "no_probe_pays")

"""Use case: plan the measurements that pay, and take them on slices of this machine and on the user's own hosts.

After each new profile everything is estimated again, and the rule of `recommender/probing/next_probe.py` decides about
the next probe. Other machines that would pay are named, so that the user can profile there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_clusters import known_description, learn_cluster, own_clusters
from trainfare.app.probing.distant import ProbeStatus
from trainfare.app.probing.machines import ProbeCrew, ProbeTask, ProbeTerms, learn_machines, with_time_limit
from trainfare.app.profiling.failures import ProfilingError
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.app.recommending.question import EVERYTHING, Question
from trainfare.app.recommending.recommend import Recommendation, answer, save_plan
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.catalog.own_clusters import CLUSTERS
from trainfare.catalog.own_machines import HOSTS
from trainfare.clouds.slices import is_slice
from trainfare.errors import ExternalError, UsageError
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
    early: EarlyTarget | None = None,
    split: bool = False,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> ProbingPlan:
    """The machine to start on, the machines to probe, what each probe costs and saves, and when to stop.

    The arguments are those of `recommend`.
    """
    settings = settings or read_settings()
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=scope,
        length=StatedLength(**length),
        early=early,
        split=split,
        overheads=overheads,
    )
    _learn_own_hosts(settings)
    found = answer(question, profile_ids, settings=settings)
    writes_checkpoints = any(profile.checkpoint_seconds for profile in found.profiles)
    plan = probe_plan.plan_probes(_contenders(found), found.resolved_goal, keeps_work=writes_checkpoints)
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
    profiling: ProfileOptions | None = None,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    early: EarlyTarget | None = None,
    split: bool = False,
    overheads: Overheads | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> ProbingResult:
    """Run the program of the leading profile on slices of this machine and on own hosts, as long as a probe is expected
    to pay.

    `profiling` has the options of each measurement but its folder and machine, the other arguments are those of
    `recommend`. `on_probe` is called before a machine is measured and `on_step` after it. An interruption ends the
    probing; its profiles and the plan that follows from them are saved.
    """
    if most < 1:
        raise UsageError(f"must be at least 1, got {most}.", field="most")
    settings = settings or read_settings()
    ids = list(profile_ids)
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=scope,
        length=StatedLength(**length),
        early=early,
        split=split,
        overheads=overheads,
    )
    _learn_own_hosts(settings)
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
        step, interrupted = _take_probe(probe, leading, settings, profiling or ProfileOptions())
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


def _learn_own_hosts(settings: Settings) -> None:
    """Ask the hosts and clusters of machines.toml that were never used what they are: before, nothing can be predicted
    for them. One that does not answer is no candidate."""
    own = [offer.vm_type.key for offer in open_catalog(settings).offers if offer.vm_type.provider == HOSTS]
    learn_machines(own, settings)
    for cluster in own_clusters(settings):
        if known_description(settings, cluster) is None:
            with suppress(ExternalError):
                learn_cluster(settings, cluster)


def _next_probe(found: Recommendation, tried: set[str]) -> Probe | None:
    """First the machine expected to be best, where the training starts anyway; then the probe that pays most."""

    def reachable(estimate: Estimate) -> bool:
        candidate = estimate.candidate
        return _is_reachable(candidate, found.profiles[0]) and candidate.offer.vm_type.key not in tried

    goal, alternatives = found.resolved_goal, _contenders(found)
    start = probe_plan.plan_probes(alternatives, goal).start
    best = next(e for e in alternatives if e.candidate == start.candidate)
    if not tried and best.basis != "measured" and reachable(best):
        return replace(start, reason=probe_plan.unmeasured_best_reason())
    return probe_plan.next_probe(alternatives, goal, reachable=reachable)


def _contenders(found: Recommendation) -> tuple[Estimate, ...]:
    """The machines between which a measurement may decide: only the machine at hand, if that is the answer."""
    return (found.plan.chosen,) if found.plan.chosen == found.plan.here else found.alternatives


def _unreachable_probes(found: Recommendation) -> tuple[Probe, ...]:
    """The best probe that would pay on a machine that cannot be reached, if there is one."""
    leading = found.profiles[0]
    probe = probe_plan.next_probe(
        _contenders(found), found.resolved_goal, reachable=lambda e: not _is_reachable(e.candidate, leading)
    )
    return () if probe is None else (probe,)


def _take_probe(
    probe: Probe, leading: Profile, settings: Settings, profiling: ProfileOptions
) -> tuple[ProbeResult, bool]:
    """The result of profiling the program there, and True if the user interrupted it."""
    directory = Path(leading.program.directory)
    if not directory.is_dir():
        raise UsageError(
            f"the folder {directory}, from which {leading.program.name} was started, no longer exists. Profile the "
            "program again from its present folder."
        )
    machine = probe.candidate.offer.vm_type
    if machine.provider in (HOSTS, CLUSTERS):
        return _take_on_host(probe, leading, settings, profiling)
    options = replace(profiling, directory=directory, on=machine.key, settings=settings)
    try:
        profile = profile_command(leading.program.command, options)
    except ProfilingError as error:
        result = ProbeResult(probe=probe, profile=error.profile, failure=str(error))
        return result, error.exit_code == INTERRUPTED_EXIT_CODE
    return ProbeResult(probe=probe, profile=profile), profile.ending == "interrupted"


def _take_on_host(
    probe: Probe, leading: Profile, settings: Settings, profiling: ProfileOptions
) -> tuple[ProbeResult, bool]:
    def show(status: ProbeStatus) -> None:
        if status.progress is not None:
            profiling.on_progress(status.progress)

    crew = ProbeCrew(directory=Path(leading.program.directory), terms=ProbeTerms(), settings=settings, on_status=show)
    task = ProbeTask(
        machine=probe.candidate.offer.vm_type.key,
        command=leading.program.command,
        options=with_time_limit(replace(profiling, on_output=None)),
    )
    (taken,) = crew.take([task])
    return ProbeResult(probe=probe, profile=taken.profile, failure=taken.failure), taken.interrupted


def _is_reachable(candidate: Candidate, leading: Profile) -> bool:
    """True for this machine, its slices, hosts and clusters of the user, at the batch size of the profiled command."""
    as_profiled = candidate.batch_size in (None, leading.effective_batch_size)
    vm_type = candidate.offer.vm_type
    reachable = candidate.offer.is_here or is_slice(vm_type) or vm_type.provider in (HOSTS, CLUSTERS)
    return reachable and candidate.nodes == 1 and as_profiled


def _stop_reason(*, interrupted: bool, done: int, most: int, unreachable: Sequence[Probe]) -> Reason:
    if interrupted:
        return Reason(topic="why", code="probing_interrupted")
    if done >= most:
        return Reason(topic="why", code="probe_limit_reached", values={"most": most})
    return Reason(topic="why", code="only_unreachable_probes_pay" if unreachable else "no_probe_pays")

"""Use case: from a program to an agreed run: profile it, recommend a machine, and choose one that a door leads to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.app.recommending.question import EVERYTHING
from trainfare.app.recommending.recommend import Recommendation, recommend
from trainfare.app.running.doors import open_doors
from trainfare.app.running.run import RunOptions, agree, attend, start_run
from trainfare.app.running.supervise import reached
from trainfare.app.stated import LengthKeywords
from trainfare.errors import InfeasibleError
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.run import Run
from trainfare.model.scope import Scope
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A run to agree to, and the recommendation that it follows, or follows as far as doors lead."""

    run: Run
    recommendation: Recommendation

    @property
    def is_the_recommended(self) -> bool:
        return self.run.candidate == self.recommendation.plan.chosen.candidate


def propose(
    command: Sequence[str] | ProgramSource,
    options: RunOptions,
    *,
    profiling: ProfileOptions,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    **length: Unpack[LengthKeywords],
) -> Proposal:
    """Profile a program, recommend a machine, and agree on the best one that can be launched from here."""
    settings = profiling.settings or read_settings()
    given = command if isinstance(command, ProgramSource) else read_program(command, settings, folder=options.folder)
    source = replace(given, variables={**given.variables, **options.variables})
    profile = profile_command(source, profiling)
    reached("profiled")
    found = recommend((profile.id,), goal=goal, scope=scope, settings=settings, **length)
    chosen = best_reachable(found, settings)
    wanted = replace(options, plan_id=found.plan.id, profile_id=profile.id, on=chosen.candidate.offer.vm_type.key)
    as_chosen = options.nodes in (None, chosen.candidate.nodes)
    run = agree(source, wanted, settings=settings, predicted=chosen if as_chosen else None)
    return Proposal(run=run, recommendation=found)


def best_reachable(found: Recommendation, settings: Settings) -> Estimate:
    """The best estimate of a machine that a door leads to."""
    plan, providers = found.plan, frozenset(open_doors(settings))
    ranked: list[Estimate] = [plan.chosen, *plan.runners_up, *found.alternatives]
    for estimate in [*ranked, plan.here] if plan.here else ranked:
        if estimate.candidate.offer.vm_type.provider in providers:
            return estimate
    raise InfeasibleError(
        f"No machine that Trainfare can launch suits: it reaches {', '.join(sorted(providers))}, "
        f"and the best machine is {plan.chosen.candidate.offer.vm_type.key}."
    )


def train(
    command: Sequence[str],
    options: RunOptions | None = None,
    *,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    settings: Settings | None = None,
    detach: bool = False,
    on_status: Callable[[RunStatus], None] = lambda _status: None,
    **length: Unpack[LengthKeywords],
) -> RunStatus:
    """From a program to its receipt: profile it, recommend a machine, run it there, and bring its results home.

    With `detach` it returns once the program runs. `on_status` is called after each step.
    """
    settings = settings or read_settings()
    profiling = ProfileOptions(settings=settings)
    proposal = propose(command, options or RunOptions(), profiling=profiling, goal=goal, scope=scope, **length)
    start_run(proposal.run, settings=settings)
    return attend(proposal.run.id, settings=settings, on_status=on_status, until_started=detach)

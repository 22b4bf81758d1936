"""Use case: measure a program on machines that the user names, and recommend again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from trainfare.app.probing.distant import ProbeStatus
from trainfare.app.probing.machines import (
    ProbeCrew,
    ProbeTask,
    ProbeTerms,
    learn_machines,
    read_command,
    resolve_machines,
    with_time_limit,
)
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.recommending.question import EVERYTHING, Question
from trainfare.app.recommending.recommend import Recommendation, answer, save_plan
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.errors import InfeasibleError, NotFoundError, TrainfareError, UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.probing import MachineProbe, MachineProbing
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.model.scope import Scope
from trainfare.recommender.probing.plan import probe_seconds
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history, open_history


def probe_machines(
    machines: Sequence[str],
    command: Sequence[str] = (),
    *,
    profile_ids: Sequence[str] = (),
    terms: ProbeTerms | None = None,
    profiling: ProfileOptions | None = None,
    goal: Goal | None = None,
    scope: Scope = EVERYTHING,
    settings: Settings | None = None,
    on_status: Callable[[ProbeStatus], None] = lambda _status: None,
    on_probe: Callable[[MachineProbe], None] = lambda _probe: None,
    **length: Unpack[LengthKeywords],
) -> MachineProbing:
    """Profile a program on each of these machines: hosts such as `ssh/box`, this machine and its slices.

    The program is `command` in the current folder, an archive or a task file, as for a run; without one, that of the
    named profile or of the newest. Different machines are measured at once. Each result is a Profile in the store, and
    the recommendation is made again with them. A machine that fails is a result too. `profiling` has the options of
    each measurement but its folder and machine; the other arguments are those of `recommend`. `on_status` is called
    from several threads.
    """
    settings, terms = settings or read_settings(), terms or ProbeTerms()
    keys = resolve_machines(machines, settings)
    if command:
        program, terms = read_command(command, terms, settings)
        leading = _profile_of(program, settings)
    else:
        leading = _leading(profile_ids, settings)
        program = leading.program
    open_history(settings.store).close()  # a store that cannot be written is reported before anything is started
    failures = learn_machines(keys, settings)
    reached = tuple(key for key in keys if key not in failures)
    question = Question(
        goal=goal or Goal(kind=settings.goal),
        scope=replace(scope, also=reached),
        length=StatedLength(**length),
    )
    before = _before(question, leading, settings)
    expected = _estimates(before, reached)
    options = with_time_limit(profiling or ProfileOptions())
    crew = ProbeCrew(
        directory=Path(program.directory), terms=terms, settings=settings, on_status=on_status, on_probe=on_probe
    )
    tasks = [
        ProbeTask(
            machine=key,
            command=program.command,
            options=options,
            expected_seconds=_expected_seconds(expected, key, options),
        )
        for key in reached
    ]
    probes = [*_failed(failures, on_probe), *crew.take(tasks)]
    probes.sort(key=lambda probe: keys.index(probe.machine))
    after, why_not = _after(question, leading, [p.profile for p in probes if p.profile], profile_ids, settings)
    return MachineProbing(
        probes=tuple(probes),
        before=None if before is None else before.plan,
        after=None if after is None else after.plan,
        estimates_before=expected,
        estimates_after=_estimates(after, reached),
        no_recommendation=why_not,
        budget_usd=terms.budget_usd,
    )


def _failed(failures: dict[str, str], on_probe: Callable[[MachineProbe], None]) -> list[MachineProbe]:
    found = [MachineProbe(machine=key, failure=failure) for key, failure in failures.items()]
    for probe in found:
        on_probe(probe)
    return found


def _profile_of(program: Program, settings: Settings) -> Profile | None:
    """The newest profile of a program; None if there is none."""
    with suppress(UsageError), open_existing_history(settings.store) as history:
        return next((profile for profile in history.profiles.all() if profile.program == program), None)
    return None


def _leading(profile_ids: Sequence[str], settings: Settings) -> Profile:
    """The named profile, or the newest; its program must still be there."""
    with open_existing_history(settings.store) as history:
        profiled = (profile for profile in history.profiles.all() if profile.origin != "run")
        leading = history.profiles.get(profile_ids[0]) if profile_ids else next(profiled, None)
    if leading is None:
        raise UsageError("there is nothing to measure: give a command, or profile a program.", field="command")
    if not Path(leading.program.directory).is_dir():
        raise UsageError(
            f"the folder {leading.program.directory}, from which {leading.program.name} was started, no longer exists. "
            "Give the command from its present folder.",
            field="command",
        )
    return leading


def _before(question: Question, leading: Profile | None, settings: Settings) -> Recommendation | None:
    """The recommendation without the probes; a question that is wrong is reported before anything is started."""
    if leading is None:
        return None
    try:
        return answer(question, [leading.id], settings=settings)
    except NotFoundError:
        raise
    except InfeasibleError:
        return None


def _after(
    question: Question,
    leading: Profile | None,
    measured: Sequence[Profile],
    profile_ids: Sequence[str],
    settings: Settings,
) -> tuple[Recommendation | None, str | None]:
    """The recommendation with the probes, which is stored; or why there is none."""
    if not measured:
        return None, None
    if len(profile_ids) > 1:  # with several named profiles, no other profile is used unless it is named too
        ids = [*profile_ids, *(profile.id for profile in measured)]
    else:
        ids = [leading.id if leading else measured[0].id]
    try:
        found = answer(question, ids, settings=settings)
    except TrainfareError as error:
        return None, error.message
    save_plan(found, settings)
    return found, None


def _estimates(found: Recommendation | None, keys: Sequence[str]) -> tuple[Estimate, ...]:
    """The named machines, at the batch size of the leading profile, in their order."""
    if found is None:
        return ()
    catalog = found.workload.catalog
    offers = {offer.vm_type.key: offer for offer in (*catalog.offers, *catalog.hosts, *catalog.at_hand)}
    size = found.profiles[0].effective_batch_size
    wanted = [Candidate(offer=offers[key], nodes=1, batch_size=size) for key in keys if key in offers]
    try:
        return found.workload.estimate(wanted)
    except TrainfareError:  # a machine on which an iteration cannot be predicted
        return ()


def _expected_seconds(estimates: Sequence[Estimate], key: str, options: ProfileOptions) -> float | None:
    """The expected time of a probe by iterations; None if it is unknown."""
    if options.epochs is not None or options.until_stable:
        return None
    return next((probe_seconds(e) for e in estimates if e.candidate.offer.vm_type.key == key), None)


def split_words(words: Sequence[str], settings: Settings) -> tuple[Sequence[str], Sequence[str]]:
    """Words that are a command, or ids of stored profiles: the command, and the ids."""
    if not words:
        return (), ()
    known: set[str] = set()
    with suppress(UsageError), open_existing_history(settings.store) as history:
        known = {profile.id for profile in history.profiles.all()}
    return ((), words) if known.issuperset(words) else (words, ())

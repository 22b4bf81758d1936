"""Learns from a run that has ended: its iterations become a profile of the machine that it ran on."""

from contextlib import suppress
from dataclasses import replace

from trainfare.app.catalog.own_hosts import known_host
from trainfare.catalog.own_machines import HOSTS
from trainfare.clouds.slices import is_slice
from trainfare.errors import NotFoundError, StoreError
from trainfare.model.machine import HERE, HERE_PROVIDER, Host
from trainfare.model.profile import Profile
from trainfare.model.run import Run
from trainfare.profiler.host import this_gpus, this_host
from trainfare.runner.measured_profile import profile_of_attempt
from trainfare.runner.observed import KINDS, AttemptTimes, attempts_of
from trainfare.settings import Settings
from trainfare.store.history import AlreadyStoredError, History


def learn_from_run(history: History, run: Run, settings: Settings) -> tuple[Profile, ...]:
    """Store the profiles of the attempts of an ended run, once; returns those that are new.

    An attempt that shared its machine with another run is left out: its iterations were slower than they would be.
    """
    facts = history.facts.of(run.id)
    learned = []
    for attempt in attempts_of(run, facts, history.observations.of(run.id, kinds=KINDS)):
        host = _host(attempt, settings)
        if host is None or _was_shared(history, run, attempt):
            continue
        profile = profile_of_attempt(run, attempt, _base(history, run), host)
        if profile is None:
            continue
        with suppress(AlreadyStoredError):
            history.profiles.add(profile)
            learned.append(profile)
    return tuple(learned)


def _base(history: History, run: Run) -> Profile | None:
    """The profile by which the run was predicted, if it is of the same program."""
    if run.estimate is None:
        return None
    try:
        base = history.profiles.get(run.estimate.profile_id)
    except (NotFoundError, StoreError):
        return None
    return base if base.program.command == run.program.command else None


def _host(attempt: AttemptTimes, settings: Settings) -> Host | None:
    """The machine of an attempt; None if it is not known what it is."""
    vm_type = attempt.candidate.offer.vm_type
    if vm_type.provider == HOSTS:
        return known_host(settings, vm_type.key)
    if vm_type.provider != HERE_PROVIDER:
        return Host(
            name=vm_type.name,
            vm_type=vm_type.key,
            gpu=vm_type.gpu.name if vm_type.gpu else None,
            gpus=vm_type.gpus,
            memory_gib=vm_type.memory_gib,
            cores=round(vm_type.vcpus) if vm_type.vcpus and vm_type.vcpus >= 1 else None,
        )
    gpu, gpus = this_gpus()
    host = this_host(vm_type=None, gpu=gpu, gpus=gpus)
    if vm_type.key == HERE:
        return host
    cores = max(1, round(vm_type.vcpus)) if vm_type.vcpus else host.cores
    return replace(host, vm_type=vm_type.key, gpu=None, gpus=0, cores=cores, memory_gib=vm_type.memory_gib)


def _was_shared(history: History, run: Run, attempt: AttemptTimes) -> bool:
    """Another run was on the machine while this one trained."""
    for other in history.runs.all():
        if other.id == run.id or other.made_at > attempt.last_seen_at or not _same_machine(other, attempt):
            continue
        with suppress(StoreError):
            facts = history.facts.of(other.id)
            ended = bool(facts) and facts[-1].kind == "run ended"
            if facts and not (ended and facts[-1].seen_at <= attempt.asked_at):
                return True
    return False


def _same_machine(other: Run, attempt: AttemptTimes) -> bool:
    """Both ran on one machine of the user. Slices of this machine have CPUs of their own."""
    mine, others = attempt.candidate.offer.vm_type, other.candidate.offer.vm_type
    if mine.provider == HERE_PROVIDER == others.provider:
        return not (is_slice(mine) and is_slice(others) and mine.key != others.key)
    return mine.provider == HOSTS and mine.key == others.key

"""Saves what was measured as a Profile of this machine."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.ids import new_id
from trainfare.app.stated import StatedLength
from trainfare.clouds.slices import is_slice
from trainfare.errors import UsageError
from trainfare.model.machine import HERE, Host, VmType
from trainfare.model.profile import Ending, Origin, Profile
from trainfare.model.program import Program
from trainfare.profiler.events import Event, build_profile, gpu_from_events, leading_process_events
from trainfare.profiler.host import this_host, this_host_name
from trainfare.settings import Settings
from trainfare.store.history import AlreadyStoredError
from trainfare.store.open import open_history

MIN_ITERATIONS = 2
"""The first iteration is not typical, so a profile needs at least one more."""


def find_machine(name: str, settings: Settings) -> VmType:
    """The machine of the catalog with this name; a NotFoundError if there is none."""
    return open_catalog(settings).find(name, field="on")[0].vm_type


def this_machine(on: str | None, settings: Settings) -> VmType | None:
    """The machine that the user names, else the user's own machine with the name of this host; None if it is only
    known as this machine, `here`."""
    if on is not None:
        found = find_machine(on, settings)
        return None if found.key == HERE else found
    own = f"own/{this_host_name()}"
    return next((offer.vm_type for offer in open_catalog(settings).offers if offer.vm_type.key == own), None)


def count_iterations(events: Sequence[Event]) -> int:
    """The iterations of the process that trained most."""
    return sum(event["event"] == "iteration" for event in leading_process_events(events))


def save_profile(
    events: Sequence[Event],
    *,
    program: Program,
    machine: VmType | None,
    ending: Ending,
    started: float,
    store: str,
    host: Host | None = None,
    origin: Origin = "probe",
    stated: StatedLength = StatedLength(),  # noqa: B008 # it is frozen, so sharing it is safe
) -> Profile:
    """Build the Profile from events with at least one iteration, and save it with what the user states about it.

    `host` is the machine that it was measured on, if that is not this one.
    What was measured is saved also if the statements do not fit it, which raises UsageError.
    """
    gpu, gpus = gpu_from_events(leading_process_events(events))
    profile = build_profile(
        events,
        id=new_id("p"),
        program=program,
        host=_host(machine, gpu, gpus) if host is None else replace(host, gpu=gpu, gpus=gpus),
        measured_at=datetime.now(UTC),
        ending=ending,
        started=started,
    )
    profile = replace(profile, origin=origin)
    try:
        (profile,) = stated.apply([profile])
    except UsageError as error:
        saved = add_to_history(profile, store)
        message = f"{error.message} What was measured is stored as {saved.id}."
        raise UsageError(message, field=error.field, remedies=error.remedies) from error
    return add_to_history(profile, store)


def add_to_history(profile: Profile, store: str) -> Profile:
    """Add the profile to the store, under another id if its own is taken; returns it as it was stored."""
    with open_history(store) as history:
        while True:
            try:
                history.profiles.add(profile)
            except AlreadyStoredError:
                profile = replace(profile, id=new_id("p"))
                continue
            return profile


def _host(machine: VmType | None, gpu: str | None, gpus: int) -> Host:
    """The host of a profile. A slice has the CPUs and the memory that it is limited to, not those of the machine."""
    host = this_host(vm_type=machine.key if machine else None, gpu=gpu, gpus=gpus)
    if machine is None or not is_slice(machine) or machine.vcpus is None:
        return host
    cores = math.ceil(machine.vcpus)
    share = (host.physical_cores or 0) / (host.cores or 1)
    return replace(
        host,
        cores=cores,
        physical_cores=math.ceil(cores * share) or None,
        memory_gib=machine.memory_gib or host.memory_gib,
    )

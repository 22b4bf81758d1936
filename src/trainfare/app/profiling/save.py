"""Turn what was measured into a Profile of this machine, and keep it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.ids import new_id
from trainfare.clouds.slices import is_slice
from trainfare.model.machine import Host, VmType
from trainfare.model.profile import Ending, Origin, Profile
from trainfare.model.program import Program
from trainfare.profiler.events import Event, gpu_of, of_leading_process, profile_of
from trainfare.profiler.host import this_host, this_host_name
from trainfare.settings import Settings
from trainfare.store.history import AlreadyKept
from trainfare.store.open import open_history

FEWEST_ITERATIONS = 2
"""The first is special, so one iteration says nothing of the others."""


def machine_called(name: str, settings: Settings) -> VmType:
    return open_catalog(settings).find(name)[0].vm_type


def this_machine(on: str | None, settings: Settings) -> VmType | None:
    """As the user names it; else as one of their own machines has our host's name."""
    if on is not None:
        return machine_called(on, settings)
    own = f"own/{this_host_name()}"
    return next((offer.vm_type for offer in open_catalog(settings).offers if offer.vm_type.key == own), None)


def _host(machine: VmType | None, gpu: str | None, gpus: int) -> Host:
    """A slice has the CPUs and the memory that it is limited to, not those of the whole."""
    host = this_host(vm_type=machine.key if machine else None, gpu=gpu, gpus=gpus)
    if machine is None or not is_slice(machine) or machine.vcpus is None:
        return host
    return replace(host, cores=math.ceil(machine.vcpus), memory_gib=machine.memory_gib or host.memory_gib)


def keep(
    events: Sequence[Event],
    *,
    program: Program,
    machine: VmType | None,
    ending: Ending,
    started: float,
    store: str,
    origin: Origin = "probe",
) -> Profile:
    """Needs at least one iteration among the events."""
    gpu, gpus = gpu_of(of_leading_process(events))
    found = profile_of(
        events,
        id=new_id("p"),
        program=program,
        host=_host(machine, gpu, gpus),
        measured_at=datetime.now(UTC),
        ending=ending,
        started=started,
    )
    found = replace(found, origin=origin)
    with open_history(store) as history:
        while True:
            try:
                history.add_profile(found)
            except AlreadyKept:
                found = replace(found, id=new_id("p"))
                continue
            return found

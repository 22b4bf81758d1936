"""Turn what was measured into a Profile of this machine, and keep it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.ids import new_id
from trainfare.catalog.catalog import load_catalog
from trainfare.model.profile import Ending, Origin, Profile
from trainfare.model.program import Program
from trainfare.profiler.events import Event, gpu_of, of_leading_process, profile_of
from trainfare.profiler.host import this_host, this_host_name
from trainfare.settings import Settings
from trainfare.store.history import AlreadyKept
from trainfare.store.open import open_history

FEWEST_ITERATIONS = 2
"""The first is special, so one iteration says nothing of the others."""


def machine_key(on: str | None, settings: Settings) -> str | None:
    """The key of this machine: as the user names it; else as one of their own machines has our host's name."""
    catalog = load_catalog(machines=Path(settings.machines), prices=Path(settings.prices))
    if on is not None:
        return catalog.find(on)[0].vm_type.key
    own = f"own/{this_host_name()}"
    return own if any(offer.vm_type.key == own for offer in catalog.offers) else None


def keep(
    events: Sequence[Event],
    *,
    program: Program,
    machine: str | None,
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
        host=this_host(vm_type=machine, gpu=gpu, gpus=gpus),
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

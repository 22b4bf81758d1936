"""Use case: end what was left behind, quietly and at once, before a command that deals with runs.

Only machines that are known at home and that no run needs are touched, so that usually nothing is asked of anyone.
`reap` asks every door, and goes on with runs that are not watched.
"""

import threading
from dataclasses import dataclass

from trainfare.app.running.doors import open_doors
from trainfare.app.running.run import is_needed, owner_name
from trainfare.clouds.door import Door
from trainfare.errors import ExternalError, StoreError, TrainfareError
from trainfare.model.rented import RentedMachine
from trainfare.settings import Settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history

WITHIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Launches that no run needs: those that were ended, and those that could not be."""

    ended: tuple[str, ...] = ()
    """Keys of launches."""
    failed: tuple[str, ...] = ()
    """One sentence for each that could not be ended."""
    pending: tuple[str, ...] = ()
    """Keys of launches whose hosts have not answered yet."""


def end_leftovers(settings: Settings, *, within_seconds: float = WITHIN_SECONDS) -> Leftovers:
    """End machines of this owner that no run of the store needs. Hosts that do not answer in time are left to go on
    without being waited for."""
    found = _leftovers(settings)
    if not found:
        return Leftovers()
    ended: list[str] = []
    failed: list[str] = []
    threads = []
    for key, door in found.items():
        thread = threading.Thread(target=_end, args=(door, key, ended, failed), daemon=True)
        thread.start()
        threads.append(thread)
    each = within_seconds / len(threads)
    for thread in threads:
        thread.join(each)
    done = {*ended, *(sentence.partition(":")[0] for sentence in failed)}
    return Leftovers(
        ended=tuple(sorted(ended)), failed=tuple(sorted(failed)), pending=tuple(sorted(found.keys() - done))
    )


def _leftovers(settings: Settings) -> dict[str, Door]:
    """The doors of launches that no run needs, by their keys. The store is opened only if home knows of a machine."""
    owner = owner_name(settings)
    try:
        doors = open_doors(settings).values()
        known = [(m, door) for door in doors for m in _known_machines(door) if m.owner == owner]
        if not known:
            return {}
        with open_existing_history(settings.store) as history:
            return {machine.key: door for machine, door in known if not _may_be_needed(history, machine)}
    except TrainfareError:  # the command itself reports what is wrong with a file or with the store
        return {}


def _known_machines(door: Door) -> tuple[RentedMachine, ...]:
    try:
        return door.known_machines()
    except ExternalError:  # `reap` reports it
        return ()


def _may_be_needed(history: History, machine: RentedMachine) -> bool:
    try:
        return is_needed(history, machine)
    except StoreError:  # a damaged run may need it
        return True


def _end(door: Door, key: str, ended: list[str], failed: list[str]) -> None:
    try:
        door.terminate(key)
        ended.append(key)
    except ExternalError as error:
        failed.append(f"{key}: {error}")

"""The state that estimates depend on, apart from the question: profiles, ended runs, prices, coefficients."""

from collections.abc import Hashable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trainfare.runner.recovery import REMEMBERED_SECONDS
from trainfare.settings import Settings
from trainfare.store.open import open_existing_history


def estimation_state(settings: Settings) -> Hashable:
    """A value that changes whenever the same question might be estimated otherwise: a profile was added or removed, a
    run has ended or was refused machines, a file with prices, machines or coefficients was written, a day began."""
    now = datetime.now(UTC)
    with open_existing_history(settings.store) as history:
        profiles = tuple((profile.id, profile.measured_at) for profile in history.profiles.all())
        ended = history.facts.ended_runs()
        refusals = history.facts.refusals(since=now - timedelta(seconds=REMEMBERED_SECONDS))
    return (
        now.date(),
        profiles,
        len(ended),
        ended[:1],
        tuple((fact.run_id, fact.number) for fact in refusals),
        settings.store,
        settings.boot_seconds,
        settings.setup_seconds,
        tuple(_stamps(settings)),
    )


def _stamps(settings: Settings) -> Iterator[tuple[str, int, int]]:
    """The path, the size and the time of change of every file that a catalog is read from."""
    runs = Path(settings.runs)
    folders = (Path(settings.prices), Path(settings.calibrations), runs / "hosts", runs / "clusters")
    for path in (Path(settings.machines), *(file for folder in folders for file in sorted(folder.glob("*")))):
        try:
            found = path.stat()
        except OSError:
            continue
        yield str(path), found.st_size, found.st_mtime_ns

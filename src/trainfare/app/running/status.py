"""Use cases: the stored runs, one run as it is now, its output and its receipt."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.running.arrivals import read_arrivals
from trainfare.app.running.journal import output_path
from trainfare.app.running.reading import SeenReader
from trainfare.errors import StoreError
from trainfare.model.run import Run
from trainfare.runner.life import life_of
from trainfare.runner.status import RunStatus, status_of
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """The runs, the newest first, and a sentence for each that is damaged and therefore left out."""

    runs: tuple[RunStatus, ...]
    damaged: tuple[str, ...]


def load_status(history: History, run: Run, *, now: datetime, reader: SeenReader | None = None) -> RunStatus:
    """A run as the store knows it. With a `reader` that is kept, only what is new is read."""
    facts = history.facts.of(run.id)
    reader = reader or SeenReader(history, run.id)
    life = life_of(facts)
    return status_of(run, facts, reader.read(life.attempt, nodes=(life.candidate or run.candidate).nodes), now=now)


def show_run(run_id: str, *, settings: Settings | None = None) -> RunStatus:
    """One run as the store knows it. `NotFoundError` if there is none of this id."""
    with open_existing_history((settings or read_settings()).store) as history:
        status = load_status(history, history.runs.get(run_id), now=datetime.now(UTC))
    return with_arrivals(status, settings or read_settings())


def with_arrivals(status: RunStatus, settings: Settings) -> RunStatus:
    """The status of a run whose results are collected, with how far they have come, if this machine knows."""
    if status.life.state != "collecting":
        return status
    return replace(status, arrivals=read_arrivals(run_folder(settings, status.run.id), status.life.attempt))


def list_runs(*, settings: Settings | None = None) -> RunList:
    """All runs, the newest first, and a sentence for each that is damaged and therefore left out."""
    now = datetime.now(UTC)
    with open_existing_history((settings or read_settings()).store) as history:
        found = []
        for run in history.runs.all():
            with suppress(StoreError):  # it is reported as damaged
                found.append(load_status(history, run, now=now))
        return RunList(runs=tuple(found), damaged=history.damaged)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Some runs, the newest first."""

    runs: tuple[RunStatus, ...]
    """The state of a run that has ended, from its facts alone: its journal is not read."""
    following: str | None
    """The run after which the next page begins; None if this is the last."""
    damaged: tuple[str, ...]


def page_runs(*, limit: int = 25, after: str | None = None, settings: Settings | None = None) -> RunPage:
    """A page of the runs, the newest first, from the one that follows the run `after` on. It takes the same time
    however many runs there are before and after it."""
    now = datetime.now(UTC)
    with open_existing_history((settings or read_settings()).store) as history:
        runs = history.runs.page(limit=limit + 1, after=after)
        facts = history.facts.of_each([run.id for run in runs[:limit]])
        found = []
        for run in runs[:limit]:
            if run.id not in facts:
                continue
            with suppress(StoreError):
                if life_of(facts[run.id]).state == "ended":
                    found.append(status_of(run, facts[run.id], (), now=now))
                else:
                    found.append(load_status(history, run, now=now))
        # Damaged runs are missing from what was read: there may be more, and the next page may be empty.
        has_more = len(runs) > limit or (history.damaged and runs)
        following = runs[:limit][-1].id if has_more else None
        return RunPage(runs=tuple(found), following=following, damaged=history.damaged)


def run_folder(settings: Settings, run_id: str) -> Path:
    """The folder at home with what was fetched of a run while it ran."""
    return Path(settings.runs) / run_id


def read_output(run_id: str, *, settings: Settings | None = None, offset: int = 0) -> bytes:
    """The output of all attempts and nodes at home, one after the other, from `offset` on."""
    settings = settings or read_settings()
    status = show_run(run_id, settings=settings)
    return b"".join(path.read_bytes() for path in _output_files(settings, status))[offset:]


def _output_files(settings: Settings, status: RunStatus) -> Iterator[Path]:
    nodes = status.run.candidate.nodes
    for attempt in range(1, status.life.attempt + 1):
        for node in range(nodes):
            path = output_path(run_folder(settings, status.run.id), attempt, node)
            if path.exists():
                yield path

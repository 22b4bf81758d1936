"""Use cases: the result files of a run, and to bring them to a folder.

    <runs>/<run>/results.json    the files that were fetched, with their sizes and SHA-256

Results are fetched to the folder that was agreed to when the program ends. From there they are copied; those of a
program that still runs are fetched from its machine as they are now.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from trainfare.app.running.doors import open_door
from trainfare.app.running.status import run_folder
from trainfare.clouds import driver
from trainfare.clouds.door import Shell
from trainfare.clouds.driver import ResultFile, Results
from trainfare.clouds.local_shell import LocalShell
from trainfare.errors import ExternalError, UsageError
from trainfare.model.rented import launch_key
from trainfare.model.run import FactKind, Run
from trainfare.runner.life import Life, life_of
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history

_NAME = "results.json"
_COLLECTED: tuple[FactKind, ...] = ("results collected", "results lost")
"""The ways in which collecting ends; only of a loss there is a text."""
_TRIES = 3
"""A program that runs may write a file while it is fetched."""

_CHANGED = """
cd work && find . -type f -newer ../before.json ! -path '*/__pycache__/*' -exec sha256sum -z {} + &&
find . -type f -newer ../before.json ! -path '*/__pycache__/*' -printf 'size %s %P\\0'
"""
"""The files that the program has created or changed so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedResults:
    """The files that were brought to a folder."""

    folder: Path
    files: dict[str, ResultFile]
    bytes: int
    """Bytes that were copied or received; files that were there already are not."""
    complete: bool
    """False if the program still runs, so that more may come, or if some were lost."""
    lost: str | None = None
    """The results that were given up, in a sentence."""


def remember_results(folder: Path, found: Results) -> None:
    """Note in the folder of a run which files were fetched."""
    files = {**_remembered(folder), **found.files}
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{_NAME}.new"
    fresh.write_bytes(msgspec.json.encode(Results(files=files)))
    fresh.replace(folder / _NAME)


def result_files(run_id: str, *, settings: Settings | None = None) -> dict[str, ResultFile]:
    """The files that were fetched, by their paths within the folder of results; empty before the program has ended."""
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        history.runs.get(run_id)
    return _remembered(run_folder(settings, run_id))


def fetch_results(run_id: str, folder: Path, *, settings: Settings | None = None) -> FetchedResults:
    """Bring the results of a run to a folder, each verified: those that are at home are copied, others are fetched from
    the machine, also while the program runs."""
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        run = history.runs.get(run_id)
        facts = history.facts.of(run_id)
    life = life_of(facts)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", field="folder")
    files = _remembered(run_folder(settings, run.id))
    if files and life.state != "collecting":  # more are on the machine then
        lost = next((fact.text for fact in reversed(facts) if fact.kind in _COLLECTED), None)
        found = _copy_from_home(run, folder, files, complete=life.state == "ended" and lost is None)
        return replace(found, lost=lost)
    if not life.may_cost:
        raise ExternalError(_nothing_sentence(run, life, collected=any(fact.collected_files for fact in facts)))
    return _fetch_from_machines(run, life, folder, settings)


def save_download(folder: Path, name: str, file: ResultFile, download: Callable[[Path], object]) -> None:
    """Bring one file to a folder by `download`, and verify it. A name that leads out of the folder is refused."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ExternalError(f"{name} would lie outside of {folder}, so it was not written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    download(path)
    with path.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
            raise ExternalError(f"{name} did not arrive as it was. Fetch it again.")


def _copy_from_home(run: Run, folder: Path, files: dict[str, ResultFile], *, complete: bool) -> FetchedResults:
    home = Path(run.results_directory)
    if folder.resolve() == home.resolve():
        return FetchedResults(folder=folder, files=files, bytes=0, complete=complete)
    shell = LocalShell(folder=home)
    try:
        size = shell.fetch(".", folder, files={name: file.sha256 for name, file in files.items()})
    except ExternalError as error:
        raise ExternalError(
            f"The results of {run.id} were brought to {home}, and not all of them are there as they were: {error}"
        ) from error
    return FetchedResults(folder=folder, files=files, bytes=size, complete=complete)


def _fetch_from_machines(run: Run, life: Life, folder: Path, settings: Settings) -> FetchedResults:
    machine = (life.candidate or run.candidate).offer.vm_type.key
    door = open_door(settings, machine)
    key = launch_key(run.id, life.attempt)
    shells = [door.shell(each) for each in door.machines(key) if each.state == "ready"]
    if not shells:
        raise ExternalError(f"{machine} does not answer, and no results of {run.id} are at home. Try again later.")
    files: dict[str, ResultFile] = {}
    size, complete = 0, True
    for shell in shells:
        found, received, ended = _fetch(shell, folder)
        files |= found.files
        size, complete = size + received, complete and ended
    if not files:
        raise ExternalError(f"The program of {run.id} has written no file yet.")
    return FetchedResults(folder=folder, files=files, bytes=size, complete=complete)


def _fetch(shell: Shell, folder: Path) -> tuple[Results, int, bool]:
    """The files of one node, the bytes that were received, and whether they are all."""
    final = driver.results(shell)
    if final is not None:
        return final, driver.fetch(shell, final, folder), True
    for tries_left in reversed(range(_TRIES)):
        found = _changed_so_far(shell)
        try:
            return found, driver.fetch(shell, found, folder) if found.files else 0, False
        except ExternalError:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def _changed_so_far(shell: Shell) -> Results:
    done = shell.run(("sh", "-c", _CHANGED))
    if done.exit_code and b"before.json" in done.error:
        return Results(files={})  # the program has not started
    if done.exit_code:
        reason = done.error.decode(errors="replace").strip().rpartition("\n")[2]
        raise ExternalError(f"The files on the machine cannot be listed: {reason}")
    sums, sizes = {}, {}
    for entry in done.output.decode(errors="surrogateescape").split("\0"):
        if entry.startswith("size "):
            _, size, name = entry.split(" ", 2)
            sizes[name] = int(size)
        elif entry:
            sha256, name = entry.split("  ", 1)
            sums[name.removeprefix("./")] = sha256
    return Results(
        files={name: ResultFile(bytes=sizes.get(name, 0), sha256=sha256) for name, sha256 in sorted(sums.items())}
    )


def _remembered(folder: Path) -> dict[str, ResultFile]:
    try:
        text = (folder / _NAME).read_bytes()
    except OSError:
        return {}
    try:
        return dict(msgspec.convert(json.loads(text), Results).files)
    except (ValueError, msgspec.ValidationError) as error:
        raise ExternalError(f"{folder / _NAME} cannot be read: {error}. Remove it.") from error


def _nothing_sentence(run: Run, life: Life, *, collected: bool) -> str:
    if collected:
        return (
            f"The results of {run.id} were brought to {run.results_directory}; the list of them is not on this machine."
        )
    if life.state != "ended":
        return f"{run.id} has not started yet, so it has no results."
    return f"{run.id} ended without results: {life.message or life.outcome}"

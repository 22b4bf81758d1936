"""Reads a program in the form in which the user gives it.

python train.py                  a command, in this folder or in another one
model.whl main.py --epochs 3     a wheel or a zip, and a main script in it (`main.py` unless it is named)
task.yaml                        a task file of SkyPilot
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainfare.app.programs.task_file import TaskFile, read_task_file
from trainfare.clouds.archives import SUFFIXES, unpack
from trainfare.errors import UsageError
from trainfare.model.program import Program
from trainfare.settings import Settings

MAIN_SCRIPT = "main.py"
_PYTHON = "python3"
_UNSUPPORTED = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".7z", ".rar")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSource:
    """A program and what was stated with it; None where nothing was."""

    program: Program
    results: Path
    """The folder that results are brought to."""
    setup: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    nodes: int = 1
    terms: Mapping[str, object] = field(default_factory=dict)
    """The terms of a run that a task file states, by the names that `RunOptions` has for them."""
    notes: tuple[str, ...] = ()
    """Sentences about what was stated and has no effect."""


def read_program(words: Sequence[str], settings: Settings, *, folder: Path | None = None) -> ProgramSource:
    """The program that words name. `folder` is the one in which a command is started, or the results of an archive
    go; None means the current one."""
    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}.", field="folder")
    here = (folder or Path.cwd()).absolute()
    first = Path(words[0]) if words else Path()
    rest = list(words[2:] if list(words[1:2]) == ["--"] else words[1:])
    if first.suffix in (".yaml", ".yml"):
        return _of_task(read_task_file(first), rest, folder)
    if first.suffix in SUFFIXES:
        if not first.is_file():
            raise UsageError(f"there is no archive {first}.", field="command")
        unpacked = unpack(first.absolute(), Path(settings.runs).absolute() / "programs")
        command = main_command(first, unpacked, rest)
        return ProgramSource(program=Program(command=command, directory=str(unpacked)), results=here)
    if str(first).endswith(_UNSUPPORTED) and first.is_file():
        raise UsageError(f"{first} is not a kind of archive that is unpacked: make a zip or a wheel.", field="command")
    return ProgramSource(program=Program(command=tuple(words), directory=str(here)), results=here)


def main_command(archive: Path, folder: Path, rest: Sequence[str]) -> tuple[str, ...]:
    """The command that runs an archive: its main script with arguments, a module, or any other command in it."""
    if rest and rest[0] == "-m":
        return (_PYTHON, *rest)
    if rest and not rest[0].startswith("-") and not rest[0].endswith(".py"):
        return tuple(rest)
    named = bool(rest) and rest[0].endswith(".py")
    script = rest[0] if named else MAIN_SCRIPT
    arguments = rest[1:] if named else rest
    return (_PYTHON, _find_script(archive, folder, script), *arguments)


def _find_script(archive: Path, folder: Path, script: str) -> str:
    """The path of a script in the archive: as it is named, or the only one of that name."""
    inside = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.py"))
    if script in inside:
        return script
    found = [path for path in inside if path.endswith(f"/{script}")]
    if len(found) == 1:
        return found[0]
    several = f"several scripts {script}" if found else f"no script {script}"
    raise UsageError(
        f"{archive} has {several}: name one of {', '.join((found or inside)[:8]) or 'its scripts'}.", field="command"
    )


def _of_task(task: TaskFile, rest: Sequence[str], folder: Path | None) -> ProgramSource:
    if rest:
        raise UsageError(f"A task file has its own command; {rest[0]} cannot be added to it.", field="command")
    directory = (folder or task.workdir or Path.cwd()).absolute()
    if not directory.is_dir():
        raise UsageError(f"the task's folder {directory} does not exist.", field="command")
    return ProgramSource(
        program=Program(command=task.command, directory=str(directory)),
        results=directory,
        setup=task.setup,
        variables=task.variables,
        secrets=task.secrets,
        nodes=task.nodes,
        data=task.data,
        terms=task.terms,
        notes=task.notes,
    )

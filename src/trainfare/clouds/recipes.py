"""The Python environment that a program's folder defines: by `uv.lock`, `requirements.txt`, `pyproject.toml` or the
metadata of a wheel.

A recipe is read at home, and carried out by `agent/supply.py` on the machine. Environments outlive a launch, so they
hold the packages that a project needs and not the project: its own code changes from run to run, and is found through
the folders of its sources. One that refers to the folder of a launch (`-e .`, dependencies that only a build knows) is
made for that launch alone.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePath
from typing import Any

from trainfare.errors import UsageError

OWN_ENVIRONMENT = frozenset({"uv", "poetry", "pdm", "conda", "mamba", "micromamba", "pixi", "hatch", "pipenv"})
"""Programs that make an environment themselves before they start what follows."""
_NOT_INSTALLED = ("environment.yml", "environment.yaml", "Pipfile", "setup.py")
_NESTED = ("-r", "--requirement", "-c", "--constraint")  # of pip
_EDITABLE = ("-e", "--editable")  # of pip
_FOLDERS = ("-f", "--find-links")  # of pip


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecipe:
    """The way to make an environment. Without arguments and lock, the machine's own Python is enough."""

    named_by: str
    """The file that defines it."""
    digest: str
    """A hash of everything that defines it."""
    arguments: tuple[str, ...] = ()
    """The words after `pip install`."""
    locked: bool = False
    """`uv.lock` has the exact versions."""
    reusable: bool = True
    """It does not refer to the folder of a launch."""
    source_roots: tuple[str, ...] = ()
    """Folders below the program's folder in which its own packages are."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The commands that the project defines, as `module:function`."""

    @property
    def installs(self) -> bool:
        """True if there is something to install, and so a virtual environment to make."""
        return bool(self.arguments) or self.locked


def read_recipe(folder: Path) -> EnvironmentRecipe | None:
    """The recipe for the environment of the program in a folder; None if the folder defines none."""
    project = _read_project(folder)
    if project is not None and (folder / "uv.lock").is_file():
        return _locked_recipe(folder, project)
    if (folder / "requirements.txt").is_file():
        return _requirements_recipe(folder, project)
    return _project_recipe(folder, project) if project is not None else _wheel_recipe(folder)


def uninstalled_definition(folder: Path) -> str | None:
    """A file that defines an environment in a way that is not installed; None if there is none."""
    return next((name for name in _NOT_INSTALLED if (folder / name).is_file()), None)


def runs_in_environment(command: tuple[str, ...]) -> bool:
    """False if the command makes an environment itself, as `uv run` does."""
    return PurePath(command[0]).name not in OWN_ENVIRONMENT


def command_in_environment(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The command with the programs of the machine's environment: the Python at home, and programs of an environment
    at home, are named by their paths, which mean nothing elsewhere."""
    program = Path(command[0])
    at_home = folder / program
    is_python = re.fullmatch(r"python[\d.]*", program.name) is not None
    if not is_python and (len(program.parts) == 1 or not (at_home.parent.parent / "pyvenv.cfg").is_file()):
        return command
    return ("python" if is_python else program.name, *command[1:])


def _read_project(folder: Path) -> dict[str, Any] | None:
    """The content of pyproject.toml, if it describes a project and is not only the configuration of tools."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Fix it, or switch the installation off.") from error
    return content if "project" in content or "poetry" in content.get("tool", {}) else None


def _locked_recipe(folder: Path, project: Mapping[str, Any]) -> EnvironmentRecipe:
    try:
        lock = tomllib.loads((folder / "uv.lock").read_text(encoding="utf-8"))
        sources = [package.get("source", {}) for package in lock.get("package", [])]
        local = [source.get("editable") or source.get("directory") or source.get("virtual") for source in sources]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        raise UsageError(f"{folder / 'uv.lock'} cannot be read: {error}. Run `uv lock` again.") from error
    unlocked = _project_recipe(folder, project)
    return EnvironmentRecipe(
        named_by="uv.lock",
        digest=_digest(folder, ["uv.lock", "pyproject.toml", ".python-version"]),
        arguments=unlocked.arguments,
        locked=True,
        reusable=unlocked.reusable and all(path in (None, ".") for path in local),
        source_roots=unlocked.source_roots,
        scripts=unlocked.scripts,
    )


def _requirements_recipe(folder: Path, project: Mapping[str, Any] | None) -> EnvironmentRecipe:
    files, editable = ["requirements.txt"], False
    for option, value in _requirements(folder, "requirements.txt"):
        editable = editable or (option in _EDITABLE and "://" not in value)
        if option in _NESTED or (folder / value).exists():
            files.append(value)
    own = _project_recipe(folder, project) if project is not None and not editable else None
    return EnvironmentRecipe(
        named_by="requirements.txt",
        digest=_digest(folder, files),
        arguments=("-r", "requirements.txt"),
        reusable=not editable,
        source_roots=own.source_roots if own else (),
        scripts=own.scripts if own else {},
    )


def _requirements(folder: Path, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The options and paths in a file of requirements, and in files that it includes: `("-e", ".")`, `("", "./x.whl")`;
    a plain requirement is `("", "torch==2.0")`."""
    try:
        text = (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # pip will say so on the machine
    for line in re.sub(r"\\\n", " ", text).splitlines():
        stripped = re.sub(r"(^|\s)#.*", "", line).strip()
        option, value = "", stripped
        if match := re.match(r"(--?[a-z-]+)(?:\s+|=|(?<=^-[a-z]))(.+)", stripped):
            option, value = match[1], match[2].strip()
        if not value:
            continue
        value = value.removeprefix("file:")
        if option in _NESTED:
            value = str(PurePath(name).parent / value)
            yield option, value
            if depth < 8:  # pip itself refuses files that include each other
                yield from _requirements(folder, value, depth + 1)
        elif not option or option in (*_EDITABLE, *_FOLDERS):
            yield option, value.partition(";")[0].strip()


def _project_recipe(folder: Path, content: Mapping[str, Any]) -> EnvironmentRecipe:
    project = content.get("project", {})
    dependencies = project.get("dependencies", [])
    built = "dependencies" in project.get("dynamic", []) or not project
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise UsageError(f"{folder / 'pyproject.toml'} must list the dependencies of the project as texts.")
    roots = [] if built else [root for root in ("src", ".") if (folder / root).is_dir()]
    return EnvironmentRecipe(
        named_by="pyproject.toml",
        digest=_digest(folder, ["pyproject.toml"]),
        arguments=(".",) if built else tuple(dependencies),
        reusable=not built,
        source_roots=tuple(roots),
        scripts={} if built else dict(project.get("scripts", {})),
    )


def _wheel_recipe(folder: Path) -> EnvironmentRecipe | None:
    """The recipe of a wheel that was unpacked: what its metadata requires."""
    found = sorted(folder.glob("*.dist-info/METADATA"))
    if not found:
        return None
    metadata = HeaderParser().parsestr(found[0].read_text(encoding="utf-8", errors="replace"))
    required = [each for each in metadata.get_all("Requires-Dist") or [] if not re.search(r";.*\bextra\b", each)]
    name = str(found[0].relative_to(folder))
    return EnvironmentRecipe(
        named_by=name, digest=_digest(folder, [name]), arguments=tuple(required), source_roots=(".",)
    )


def _digest(folder: Path, names: list[str]) -> str:
    """A hash of files and folders, by name and content; those that do not exist, or are elsewhere, count by name."""
    total = hashlib.sha256()
    for name in dict.fromkeys(names):
        path = folder / name
        inside = path.resolve().is_relative_to(folder.resolve())
        found = sorted(p for p in path.rglob("*") if p.is_file()) if inside and path.is_dir() else [path]
        for file in found:
            content = file.read_bytes() if inside and file.is_file() else b""
            within = PurePath(name) / file.relative_to(path)
            total.update(f"{within!a} {len(content)}\n".encode())
            total.update(content)
    return total.hexdigest()

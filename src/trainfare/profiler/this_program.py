"""The program that this process runs: its command, or the notebook whose cells it runs."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainfare.model.program import KERNELS, Program


def this_program() -> Program:
    """The Program of this process."""
    main = getattr(sys.modules.get("__main__"), "__dict__", {})
    return program_of(tuple(sys.orig_argv), Path.cwd(), os.environ, main, parent=_parent_command())


def program_of(
    command: Sequence[str],
    directory: Path,
    environ: Mapping[str, str],
    main: Mapping[str, object],
    *,
    parent: Sequence[str] = (),
) -> Program:
    """The Program of a process with this command; that of a notebook's kernel is a command that runs the notebook.

    `main` has the names that the program's main module defines, `parent` is the command that started this process.
    """
    words = tuple(command) or ("python",)
    if any(Path(word).stem in KERNELS for word in words):
        notebook = find_notebook(directory, environ, main, parent)
        if notebook is not None:
            words = ("jupyter", "execute", notebook)
    return Program(command=words, directory=str(directory))


def find_notebook(
    directory: Path, environ: Mapping[str, str], main: Mapping[str, object], parent: Sequence[str] = ()
) -> str | None:
    """The file of the notebook that a kernel runs; None if it is not known.

    Jupyter passes the path to its kernels in the environment, and Visual Studio Code in a variable. What runs a
    notebook from beginning to end, such as `jupyter execute`, `nbconvert` or `papermill`, names it in its own command
    and starts the kernel. Otherwise the only notebook in the folder, in which kernels are started, must be it.
    """
    executed = next((word for word in parent if word.endswith(".ipynb")), None)
    stated = main.get("__vsc_ipynb_file__") or environ.get("JPY_SESSION_NAME") or executed or ""
    path = Path(str(stated))
    if path.suffix == ".ipynb":
        # Jupyter's path begins at the folder of the server, VS Code's at the root: the file itself is in the folder.
        return path.name if (directory / path.name).is_file() or not path.is_absolute() else str(path)
    try:
        found = sorted(directory.glob("*.ipynb"))
    except OSError:
        return None
    return found[0].name if len(found) == 1 else None


def _parent_command() -> tuple[str, ...]:
    """The command of the process that started this one; empty where the system does not show it."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="replace") for word in words.split(b"\0") if word)

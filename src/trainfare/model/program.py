"""The training program of the user."""

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from trainfare.model.checks import require_text, require_unicode

KERNELS = ("ipykernel_launcher", "ipykernel", "colab_kernel_launcher")
"""Modules that run the cells of a notebook, whose name their command does not contain."""

SHELLS = ("bash", "sh", "zsh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The user's own command, unmodified, and the directory in which it is started."""

    command: tuple[str, ...]
    directory: str

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("command must not be empty")
        require_text(executable=self.command[0], directory=self.directory)
        require_unicode(**{f"word {n} of the command": word for n, word in enumerate(self.command, 1)})

    @property
    def name(self) -> str:
        """The name that a person would use: the script, the notebook, the module, or else the executable."""
        return PurePath(self.path).name

    @property
    def path(self) -> str:
        """The path of the script or notebook that is run; of a module or another executable, its name in the folder."""
        words = self._script_words or self.command if self._notebook is None else (self._notebook,)
        for word, following in zip(words, (*words[1:], ""), strict=True):
            if word == "-m" and following:
                return str(PurePath(self.directory, "a notebook" if following in KERNELS else following))
            if word.endswith((".py", ".sh", ".ipynb")):
                script = PurePath(self.directory, word)
                return str(script.with_name("a notebook") if script.stem in KERNELS else script)
        return str(PurePath(self.directory, PurePath(self.command[0]).name))

    @property
    def _script_words(self) -> tuple[str, ...]:
        """The words of a script that a shell runs, such as `bash -c 'cd src; python train.py'`; else none."""
        is_script = len(self.command) > 2 and self.command[1] == "-c" and PurePath(self.command[0]).name in SHELLS
        return tuple(self.command[2].replace(";", " ").split()) if is_script else ()

    @property
    def _notebook(self) -> str | None:
        """The notebook that the command runs through another program, such as `jupyter` or `papermill`."""
        return next((word for word in self.command if word.endswith(".ipynb")), None)

    @property
    def command_line(self) -> str:
        """The command as one line that a shell understands."""
        return shlex.join(self.command)

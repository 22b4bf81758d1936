"""The training program of the user."""

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from trainfare.model.checks import require_text, require_unicode


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
        """The name that a person would use: the script, the module, or else the executable."""
        for word, following in zip(self.command, (*self.command[1:], ""), strict=True):
            if word == "-m" and following:
                return following
            if word.endswith((".py", ".sh")):
                return PurePath(word).name
        return PurePath(self.command[0]).name

    @property
    def command_line(self) -> str:
        """The command as one line that a shell understands."""
        return shlex.join(self.command)

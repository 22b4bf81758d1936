"""One error tree; its branches say who must act.

    TrainfareError
    ├── UsageError           the caller: an argument, a file or an id is not right          exit 2
    │   └── NotFoundError    … names something that does not exist, with the nearest match
    ├── ProgramError         the author of the training program                             exit 1
    ├── InfeasibleError      no one: no machine satisfies the request                       exit 3
    ├── ExternalError        the operator: a provider, the network or the store             exit 4
    │   └── StoreError       … the history cannot be read or written
    └── NotFiniteError       the authors of Trainfare: an estimate is not a number           exit 5

A message says what happened, to which thing, and what to do next. It names no command-line flag: `field` names the
argument at fault and `remedies` the arguments that would help, so that Python, the command line and a page can each
show them in their own words. Wrong arguments between our own functions are plain `ValueError`s: they are bugs, not
news for the user.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Remedy:
    """Arguments that would help: of the call that failed, or of another command.

    `Remedy({"epochs": 30})` is `epochs=30` in Python, and the option of that name on the command line; `python` is the
    code where Python takes the arguments in another form, such as `goal=Goal(deadline_seconds=7920)`.
    `command` is the words of a command as in `profiles list`; `program` is the training command that follows it.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    command: str | None = None
    program: str | None = None
    python: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The remedy as Python code."""
        if self.python is not None:
            return self.python
        keywords = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        if self.command is None:
            return keywords
        positional = [repr(self.program)] if self.program else []
        return f"trainfare {self.command}({', '.join([*positional, *([keywords] if keywords else [])])})"


class TrainfareError(Exception):
    """Something the user can act on; the command line prints it as one paragraph.

    `field` is the name of the argument at fault, as Python spells it.
    """

    exit_code = 1

    def __init__(self, message: str, *, field: str | None = None, remedies: Sequence[Remedy] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedies = tuple(remedies)

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        advice = "".join(f" Try {remedy}." for remedy in self.remedies)
        return f"{where}{self.message}{advice}"


class UsageError(TrainfareError):
    exit_code = 2


class NotFoundError(UsageError):
    """Names a thing that does not exist, and the nearest that does."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, listed_by: str | None = None, field: str | None = None
    ) -> None:
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        guess = f" Did you mean {near[0]}?" if near else ""
        listed = f" `{listed_by}` shows all." if listed_by else ""
        super().__init__(f"there is no {kind} {name}.{guess}{listed}", field=field)
        self.kind, self.name, self.near = kind, name, near[0] if near else None


class ProgramError(TrainfareError):
    exit_code = 1


class InfeasibleError(TrainfareError):
    exit_code = 3


class ExternalError(TrainfareError):
    exit_code = 4


class StoreError(ExternalError):
    pass


class NotFiniteError(TrainfareError, ValueError):
    """An estimate came out infinite or not a number: a fault in the models, raised where the number arises."""

    exit_code = 5

    def __init__(self, what: str, value: float) -> None:
        super().__init__(
            f"{what} came out as {value:g}, which is not a number that can be used. That is a fault in Trainfare, not "
            "in the program or the profile. Please report it with the profile, which `trainfare profiles show` "
            "prints; a profile without operations can still be used on the machine that it was taken on."
        )

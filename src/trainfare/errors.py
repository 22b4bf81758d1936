"""One error tree; its branches say who must act.

    TrainfareError
    ├── AskedWrongly      the caller: a flag, a file or an id is not right          exit 2
    │   └── NotFound      … names something that is not there, with what is near
    ├── ProgramFailed     the author of the training program                       exit 1
    ├── Infeasible        nobody: no machine satisfies what was asked               exit 3
    └── OutsideFailed     the operator: a provider, the network or the store        exit 4
        └── StoreFailed   … history cannot be read or written

A message says what happened, to which thing, and what to do next. Wrong arguments between our own
functions are plain `ValueError`s: they are bugs, not news for the user.
"""

import difflib
from collections.abc import Iterable


class TrainfareError(Exception):
    """Something the user can act on; the command line prints it as one paragraph."""

    exit_code = 1


class AskedWrongly(TrainfareError):
    exit_code = 2


class NotFound(AskedWrongly):
    """Names a thing that does not exist, and the nearest that does."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, listed_by: str | None = None) -> None:
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        guess = f" Did you mean {near[0]}?" if near else ""
        listed = f" `{listed_by}` shows all." if listed_by else ""
        super().__init__(f"there is no {kind} {name}.{guess}{listed}")
        self.kind, self.name, self.near = kind, name, near[0] if near else None


class ProgramFailed(TrainfareError):
    exit_code = 1


class Infeasible(TrainfareError):
    exit_code = 3


class OutsideFailed(TrainfareError):
    exit_code = 4


class StoreFailed(OutsideFailed):
    pass

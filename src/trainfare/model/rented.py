"""A machine that a door has launched, and the status of the program on it."""

from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_not_negative, require_text

ProgramState = Literal["idle", "running", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedMachine:
    """The `node`-th machine of one Run; `id` is the name that the door gives it."""

    id: str
    run_id: str
    node: int
    vm_type: str
    """The key of its VmType."""

    def __post_init__(self) -> None:
        require_text(id=self.id, run_id=self.run_id, vm_type=self.vm_type)
        require_not_negative(node=self.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStatus:
    """The status of the program on a machine: not started, running, or ended."""

    state: ProgramState
    seconds: float | None = None
    """The time since it was started, or from its start to its end."""
    exit_code: int | None = None

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds)
        if (self.exit_code is None) == (self.state == "ended"):
            raise ValueError(f"a program has an exit code when it has ended, not when it is {self.state}")

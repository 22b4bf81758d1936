"""The contract of every door to machines: offers → launch → start → observe → collect → terminate."""

from pathlib import Path
from typing import Protocol

from trainfare.model.offer import Candidate, Offer
from trainfare.model.program import Program
from trainfare.model.rented import ProgramStatus, RentedMachine


class Door(Protocol):
    """A provider of machines. Calls name a Run by its id, so that a second process can continue after a first one."""

    def offers(self) -> tuple[Offer, ...]:
        """The offers that can be launched now."""

    def launch(self, candidate: Candidate, *, run_id: str) -> tuple[RentedMachine, ...]:
        """Launch one machine for each node. A second call with the same `run_id` launches nothing new."""

    def machines(self) -> tuple[RentedMachine, ...]:
        """All machines that exist through this door, whichever process launched them."""

    def start(self, machine: RentedMachine, program: Program) -> None:
        """Copy the program's folder to the machine and start its command. A second call starts nothing new."""

    def observe(self, machine: RentedMachine) -> ProgramStatus:
        """The current status of the program."""

    def output(self, machine: RentedMachine) -> bytes:
        """The output of the program so far."""

    def collect(self, machine: RentedMachine, into: Path) -> tuple[Path, ...]:
        """Copy the files that the program created or changed to `into`, and return their paths there."""

    def terminate(self, run_id: str) -> None:
        """End the program and release the machines: when it returns, nothing of the run costs money any more."""

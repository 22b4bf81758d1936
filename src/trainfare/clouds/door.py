"""What every door to machines promises: offer → machines → start → observe → collect → terminate."""

from pathlib import Path
from typing import Protocol

from trainfare.model.offer import Candidate, Offer
from trainfare.model.program import Program
from trainfare.model.rented import ProgramStatus, RentedMachine


class Door(Protocol):
    """Each call is for one Run, named by its id, so that a second process can go on where the first one died."""

    def offers(self) -> tuple[Offer, ...]:
        """What can be had here now."""

    def launch(self, candidate: Candidate, *, run_id: str) -> tuple[RentedMachine, ...]:
        """One machine a node. Twice with the same `run_id` is one launch."""

    def machines(self) -> tuple[RentedMachine, ...]:
        """All that exist through this door, whoever launched them."""

    def start(self, machine: RentedMachine, program: Program) -> None:
        """Bring the program's folder there and start its command. Twice is one start."""

    def observe(self, machine: RentedMachine) -> ProgramStatus:
        """What the program does now."""

    def output(self, machine: RentedMachine) -> bytes:
        """What the program has printed so far."""

    def collect(self, machine: RentedMachine, into: Path) -> tuple[Path, ...]:
        """Bring home the files that the program made or changed; the paths under `into`."""

    def terminate(self, run_id: str) -> None:
        """End the program and give the machines back: when it returns, nothing of the run is left to pay for."""

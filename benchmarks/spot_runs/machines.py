"""A provider whose spot machines come and go as a trace says, and machines on which a training is simulated.

The door keeps the contract of `clouds/door.py`, and a machine answers to everything that `clouds/driver.py` and
`clouds/snapshots.py` do through a `Shell`: it has the journal, the results and the snapshots that the agent writes.
Both look at a clock that the replay moves, so that a training of days takes a second.

Simulated are the boot, the agent and the program: it does an iteration every `iteration_seconds`, saves every
`save_every` of them and when it is asked to end, and goes on from the number in its checkpoint.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.clouds.door import Completed, Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine

CHECKPOINT = "last.ckpt"
REPORT_ITERATIONS = 5


@dataclass(slots=True)
class Clock:
    """A clock that is moved by hand."""

    seconds: float = 0.0
    """Since 1970."""

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The training that is simulated."""

    iterations: int
    iteration_seconds: float = 60.0
    save_every: int = 15
    init_seconds: float = 60.0
    boot_seconds: float = 240.0
    notice_seconds: float = 0.0
    """The provider announces so long before that it takes a machine back; 0 if it does not."""


@dataclass(slots=True, kw_only=True)
class SimulatedMachine:
    """One machine as a `Shell`, with the agent and the program on it."""

    clock: Clock
    program: Program
    launched: float
    taken: float | None
    """The moment at which the provider takes it back."""
    work: dict[str, bytes] = field(default_factory=dict)
    started: float | None = None
    first: int = 0
    """Iterations of the checkpoint that it goes on from."""
    done: int = 0
    """Iterations of this attempt that are in the journal."""
    saved: int = 0
    ended: bool = False
    stopped: bool = False
    journal: bytes = b""
    number: int = 0

    @property
    def is_gone(self) -> bool:
        return self.taken is not None and self.clock.seconds >= self.taken

    # The shell.

    def run(self, command: Sequence[str], **_options: object) -> Completed:
        self._look()
        words = [str(word) for word in command]
        answer = b""
        if words[-2:-1] == ["entries"]:
            lines = self.journal.splitlines(keepends=True)
            skipped = b"".join(line for line in lines if json.loads(line)["number"] <= int(words[-1]))
            answer = b"%d\n" % len(skipped) + self.journal[len(skipped) :]
        elif words[-1] == CHECKPOINT:
            content = self.work[CHECKPOINT]
            files = {CHECKPOINT: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
            answer = json.dumps({"files": files}).encode()
        return Completed(exit_code=0, output=answer, error=b"")

    def write(self, path: str, _content: bytes) -> None:
        self._look()
        self.stopped = self.stopped or path == "stop"
        self._look()

    def read(self, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        self._look()
        content = b""
        if path == "agent.pid":
            content = b"1" if self.started is not None else b""
        elif path == "journal.jsonl":
            content = self.journal
        elif path == "results.json":
            content = b'{"files": {}}' if self.ended else b""
        elif path.startswith("snapshots/"):
            content = self.work.get(path.rpartition("/")[2], b"")
        return content[offset : offset + limit]

    def send(self, folder: Path, path: str, *, files: Sequence[str]) -> int:
        self._look()
        if path == "work":
            self.work.update({name: (folder / name).read_bytes() for name in files})
        return 0

    def fetch(self, _path: str, _folder: Path, *, files: Mapping[str, str]) -> int:
        """The simulated program leaves no other results than its checkpoint."""
        self._look()
        return len(files)

    def start_agent(self, _secrets: Mapping[str, str]) -> None:
        self._look()
        if self.started is None:
            self.started, self.first = self.clock.seconds, int(self.work.get(CHECKPOINT, b"0"))
            self._add(self.started, "program", state="started", pid=1)

    # The program.

    def _look(self) -> None:
        """Everything that has happened since the last look. A machine that is gone does not answer."""
        if self.is_gone:
            raise MachineUnreachableError("the machine does not answer.")
        if self.started is None or self.ended:
            return
        announced = None if self.taken is None else self.taken - self.program.notice_seconds
        until, cause = self.clock.seconds, "stop" if self.stopped else "own"
        if self.program.notice_seconds and announced is not None and until >= announced:
            until, cause = max(self.started, announced), "interruption"
        program, begun = self.program, self.started + self.program.init_seconds
        possible = int(max(0.0, until - begun) / program.iteration_seconds)
        reached = min(possible, program.iterations - self.first)
        while self.saved + program.save_every <= reached:
            self._save(self.saved + program.save_every)
        is_done = reached >= program.iterations - self.first
        if is_done or cause != "own" or reached - self.done >= REPORT_ITERATIONS:
            self._report(reached)
        if not is_done and cause == "own":
            return
        if cause == "interruption" and not is_done and self.taken is not None:
            self._add(until, "interruption", provider="aws", seconds=program.notice_seconds, taken=self.taken)
        if reached > self.saved:
            self._save(reached)
        self.ended = True
        self._add(until, "program", state="ended", exit_code=0, seconds=0.0, cause="own" if is_done else cause)

    def _report(self, count: int) -> None:
        if count > self.done and self.started is not None:
            each = self.program.iteration_seconds
            moment = self.started + self.program.init_seconds + count * each
            self._add(moment, "iterations", first=self.done + 1, count=count - self.done, seconds=[each])
            self.done = count

    def _save(self, count: int) -> None:
        self._report(count)
        self.saved = count
        self.work[CHECKPOINT] = str(self.first + count).encode()
        moment = (self.started or 0.0) + self.program.init_seconds + count * self.program.iteration_seconds
        self._add(moment, "checkpoint", path=CHECKPOINT, bytes=8, seconds=0.0, saved=moment, iteration=count)

    def _add(self, moment: float, kind: str, **fields: object) -> None:
        self.number += 1
        entry = {"number": self.number, "time": moment, "kind": kind, **fields}
        self.journal += json.dumps(entry).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The slots in which a zone has a machine."""

    begins: float
    """Seconds since 1970 of the first slot."""
    gap_seconds: float
    seen: tuple[int, ...]

    def at(self, seconds: float) -> bool:
        slot = int((seconds - self.begins) / self.gap_seconds)
        return 0 <= slot < len(self.seen) and bool(self.seen[slot])

    def lost_after(self, seconds: float) -> float | None:
        """The end of the last slot with a machine from now on; None if the trace ends before."""
        slot = int((seconds - self.begins) / self.gap_seconds)
        while slot < len(self.seen) and self.seen[slot]:
            slot += 1
        return None if slot >= len(self.seen) else self.begins + slot * self.gap_seconds


@dataclass(slots=True, kw_only=True)
class TraceDoor:
    """A `Door`. A spot machine of a region can be had, and is kept, as long as its trace has one; on demand always."""

    clock: Clock
    program: Program
    zones: Mapping[str, Availability]
    machines_by_key: dict[str, tuple[RentedMachine, SimulatedMachine]] = field(default_factory=dict)
    name: str = "aws"
    powers_off: bool = True
    appears_within_seconds: float = 0.0
    boots_within_seconds: float = 900.0
    extends_leases: bool = True

    def offers(self) -> tuple[Offer, ...]:
        return ()

    def launch(self, launch: Launch) -> None:
        if launch.key in self.machines_by_key:
            return
        offer, now, taken = launch.candidate.offer, self.clock.seconds, None
        if offer.market == "spot":
            zone = self.zones[offer.region]
            if not zone.at(now):
                raise RefusedError(f"there is no capacity in {offer.region} now.", cause="capacity")
            taken = zone.lost_after(now)
        (machine,) = launch.ready_machines(now=self.clock())
        simulated = SimulatedMachine(clock=self.clock, program=self.program, launched=now, taken=taken)
        self.machines_by_key[launch.key] = (machine, simulated)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        return tuple(self._in_its_state(k) for k in self.machines_by_key if key in (None, k))

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return self.machines()

    def shell(self, machine: RentedMachine) -> Shell:
        return self.machines_by_key[machine.key][1]

    def terminate(self, key: str) -> None:
        self.machines_by_key.pop(key, None)

    def _in_its_state(self, key: str) -> RentedMachine:
        machine, simulated = self.machines_by_key[key]
        if simulated.is_gone:
            return replace(machine, state="preempted", reason="The provider has taken the machine back.")
        is_ready = self.clock.seconds >= simulated.launched + self.program.boot_seconds
        return machine if is_ready else replace(machine, state="booting")

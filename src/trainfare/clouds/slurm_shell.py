"""A node of a Slurm job as a place with files and commands: files through the login host, commands by `srun`."""

import json
import secrets as random_tokens
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainfare.clouds.door import Completed, MachineUnreachableError, Shell
from trainfare.clouds.slurm_scripts import RUN
from trainfare.model.rented import RentedMachine

_START_SECONDS = 5.0
"""The time in which an agent usually starts, for which a call waits."""
_GIVE = 'exec timeout 20 sh -c "cat > \\"$(cat up)\\""'


class SlurmShell:
    """A `Shell` that `StartsAgent`. `files` is the folder of the node, as the login host sees it."""

    def __init__(self, files: Shell, machine: RentedMachine) -> None:
        self._files = files
        self._machine = machine

    def run(self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        done, said = self._try(command, given, timeout_seconds)
        if done is None and self._files.read("results.json", limit=1):  # the job has just ended
            done, said = self._try(command, given, timeout_seconds)
        if done is None:
            raise MachineUnreachableError(f"No command can be run on {self._machine.id}: {said}.")
        return done

    def _try(self, command: Sequence[str], given: bytes, timeout_seconds: float) -> tuple[Completed | None, str]:
        """A command that has ended; or None, and what srun said."""
        mark = f"@{random_tokens.token_hex(8)}@"
        words = ("sh", "-c", RUN, "sh", str(self._machine.node + 1), mark, *command)
        done = self._files.run(words, given=given, timeout_seconds=timeout_seconds)
        said, *parts = done.error.split(mark.encode())
        if len(parts) != 2:
            lines = [line for line in said.decode(errors="replace").splitlines() if line and "cpu binding" not in line]
            return None, lines[-1] if lines else "its job has ended, or ends"
        return Completed(exit_code=_number(parts[1]), output=done.output, error=parts[0]), ""

    def write(self, path: str, content: bytes) -> None:
        self._files.write(path, content)

    def read(self, path: str, *, offset: int = 0, limit: int = 1 << 20) -> bytes:
        return self._files.read(path, offset=offset, limit=limit)

    def send(self, folder: Path, path: str, *, files: Sequence[str]) -> int:
        return self._files.send(folder, path, files=files)

    def fetch(self, path: str, folder: Path, *, files: Mapping[str, str]) -> int:
        return self._files.fetch(path, folder, files=files)

    def start_agent(self, secrets: Mapping[str, str]) -> None:
        """The keeper on the node starts it, when it finds a file or is given secrets through its pipe."""
        if not secrets:
            self._files.write("begin", b"")
        elif not self._files.read("agent.pid", limit=1):
            given = json.dumps(dict(secrets)).encode() + b"\n"
            done = self.run(("sh", "-c", _GIVE), given=given)
            if done.exit_code:
                raise MachineUnreachableError(f"The secrets could not be given to {self._machine.id}.")
        give_up = time.monotonic() + (_START_SECONDS if self._machine.state == "ready" else 0.0)
        while not self._files.read("agent.pid", limit=1) and time.monotonic() < give_up:
            time.sleep(0.1)


def _number(text: bytes) -> int:
    """The exit code before anything that srun says at the end."""
    return int(text.split()[0]) if text.split() else 0

"""Brings the results of a run home when its program has ended, in parts of a few seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainfare.app.running.arrivals import read_arrivals, write_arrivals
from trainfare.app.running.results import remember_results
from trainfare.clouds import driver
from trainfare.clouds.door import Shell
from trainfare.clouds.driver import Results
from trainfare.clouds.receiving import Receiving, Wanted
from trainfare.runner.collecting import Arrivals

_NAMED = 10


@dataclass(slots=True, kw_only=True)
class Collecting:
    """The results of one attempt on their way home."""

    folder: Path
    """The folder of the run."""
    results: Path
    """The folder that the results come to."""
    key: str
    """The key of the launch."""
    attempt: int
    _receiving: Receiving | None = None
    _before: Arrivals | None = None

    @property
    def arrivals(self) -> Arrivals | None:
        """The state of the transfer; None before the list of results was read."""
        found = self._receiving
        if found is None:
            return None
        before = self._before
        return Arrivals(
            attempt=self.attempt,
            files=len(found.files),
            bytes=sum(wanted.file.bytes for wanted in found.files.values()),
            whole_files=len(found.whole),
            arrived_bytes=found.whole_bytes,
            missing=found.missing[:_NAMED],
            received_bytes=found.bytes + (before.received_bytes if before else 0),
            seconds=found.seconds + (before.seconds if before else 0.0),
        )

    @property
    def steps(self) -> tuple[int, int]:
        """A pair that changes whenever something has arrived."""
        return self._receiving.steps if self._receiving else (-1, 0)

    def advance(self, shells: Mapping[int, Shell], *, seconds: float) -> bool:
        """Receive for about so long; True once all files are at home and verified. After an `ExternalError` the next
        call continues."""
        if self._receiving is None:
            self._before = read_arrivals(self.folder, self.attempt)
            self._receiving = self._begin(shells)
        if self._receiving is None:
            return False
        try:
            return self._receiving.advance(shells, seconds=seconds)
        finally:
            write_arrivals(self.folder, self.arrivals)

    def settle(self) -> None:
        """Move what has arrived to its place, and note it as results."""
        found = self._receiving
        if found is None:
            return
        found.settle()
        if found.whole:
            remember_results(self.folder, Results(files={name: found.files[name].file for name in found.whole}))

    def _begin(self, shells: Mapping[int, Shell]) -> Receiving | None:
        """The files of all nodes; None while the program of one has not ended, which is asked to. If several nodes
        have a file, the last node's is taken."""
        files: dict[str, Wanted] = {}
        for node, shell in sorted(shells.items()):
            found = driver.results(shell)
            if found is None and driver.has_started(shell):
                driver.ask_to_stop(shell, "it ends everywhere")  # of a setup that failed on another node
                return None
            if found is not None:  # otherwise nothing was started there
                files |= {name: Wanted(node, file) for name, file in found.files.items()}
        return Receiving(folder=self.results, key=self.key, files=files)

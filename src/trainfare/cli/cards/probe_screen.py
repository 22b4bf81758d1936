"""Shows probes while they run: a line for each machine."""

import sys
import threading
import time
from collections.abc import Sequence

from trainfare.app.probing.distant import ProbeStatus
from trainfare.cli.cards.profile_screen import progress_line
from trainfare.cli.console import err, print_note
from trainfare.model.probing import MachineProbe
from trainfare.model.stability import steady_interval
from trainfare.units import format_duration, format_usd

_STAGES = {
    "waiting": "waiting",
    "launching": "starting the machine",
    "queued": "waiting in the queue",
    "sending": "sending the program",
    "setting up": "setting up",
    "measuring": "starting",
    "ending": "ending the machine",
}
_PLAIN_SECONDS = 10.0
"""Seconds between two lines about the same measurement where lines are not replaced in place."""


class ProbeScreen:
    """The state of each machine, on stderr: lines that are replaced on a terminal; elsewhere a line for each new stage,
    and one now and then. Several threads call it."""

    def __init__(self, machines: Sequence[str] = (), *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._lock = threading.Lock()
        self._lines: dict[str, str] = dict.fromkeys(machines, "waiting")
        self._stages: dict[str, tuple[str, float]] = {}
        self._shown = 0

    def status(self, status: ProbeStatus) -> None:
        if self._quiet:
            return
        with self._lock:
            if status.stage == "ended":
                self._lines.pop(status.machine, None)
            else:
                self._lines[status.machine] = status_line(status)
            if self._live:
                self._draw()
            elif status.stage not in ("waiting", "ended"):
                self._print_occasionally(status)

    def probe(self, probe: MachineProbe) -> None:
        """A probe has ended."""
        with self._lock:
            self._erase()
            self._lines.pop(probe.machine, None)
            print_note(ended_line(probe))
            if probe.left_behind:
                print_note(f"note: {probe.left_behind}")
            if self._live:
                self._draw()

    def close(self) -> None:
        with self._lock:
            self._erase()
            self._lines.clear()

    def _print_occasionally(self, status: ProbeStatus) -> None:
        before, at = self._stages.get(status.machine, ("", 0.0))
        now = time.monotonic()
        if status.stage != before or now - at >= _PLAIN_SECONDS:
            self._stages[status.machine] = (status.stage, now)
            print_note(f"{status.machine}: {self._lines[status.machine]}")

    def _draw(self) -> None:
        self._erase()
        width = err().width - 1
        for machine, line in self._lines.items():
            sys.stderr.write(f"\x1b[2m{f'{machine}: {line}'[:width]}\x1b[0m\n")
        self._shown = len(self._lines)
        sys.stderr.flush()

    def _erase(self) -> None:
        if self._shown:
            sys.stderr.write(f"\x1b[{self._shown}A\x1b[J")
            sys.stderr.flush()
            self._shown = 0


def status_line(status: ProbeStatus) -> str:
    if status.stage == "measuring" and status.progress is not None:
        return progress_line(status.progress)
    return _STAGES[status.stage]


def ended_line(probe: MachineProbe) -> str:
    """`ssh/box: profile p7k2m stored, 9.2 ms per iteration; 12 s, $0.0012`, or what went wrong."""
    name = probe.machine if probe.batch_size is None else f"{probe.machine} at batch size {probe.batch_size}"
    spent = ", ".join(
        [*([format_duration(probe.seconds)] if probe.seconds else []), *([format_usd(probe.usd)] if probe.usd else [])]
    )
    if probe.failure or probe.profile is None:
        return f"{name}: failed{f' after {spent}' if spent else ''}: {probe.failure}"
    middle = steady_interval(probe.profile)
    each = "" if middle is None else f", {format_duration(middle.value)} per iteration"
    return f"{name}: profile {probe.profile.id} stored{each}{f'; {spent}' if spent else ''}"

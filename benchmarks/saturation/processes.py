"""A process on a host that receives its orders over a pipe, outside the measured traffic."""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.saturation.hosts import Host

_FORK = multiprocessing.get_context("fork")
"""PyTorch is loaded once before the fork: loading it in eight processes would take longer than all measurements."""
TIMEOUT_SECONDS = 90.0
PR_SET_PDEATHSIG = 1


class HostProcess:
    """Runs `work` on a host with one end of a pipe, until the end of the `with` block."""

    def __init__(self, host: Host, work: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=_run, args=(host, theirs, self._ours, work, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, order: object) -> None:
        self._ours.send(order)

    def receive(self) -> Any:
        """The next answer; an error in the process is raised here."""
        if not self._ours.poll(TIMEOUT_SECONDS):
            raise TimeoutError(f"no answer from a host within {TIMEOUT_SECONDS:.0f} s")
        try:
            found = self._ours.recv()
        except EOFError:
            raise RuntimeError("a process on a host ended before it had answered") from None
        if isinstance(found, Exception):
            raise RuntimeError(f"a process on a host failed: {found!r}") from found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()


def _run(
    host: Host, orders: Connection, other_end: Connection, work: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    other_end.close()
    # Ctrl-C goes to the whole process group; the parent ends the children in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # in case the parent is killed
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    try:
        host.enter()
        work(orders, *arguments)
    except Exception as error:  # noqa: BLE001 # any error goes to the parent
        orders.send(RuntimeError(f"{type(error).__name__}: {error}"))


def sent_bytes() -> int:
    """Bytes sent over eth0 of the host of this process, since it was created."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    line = next(line for line in lines if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])

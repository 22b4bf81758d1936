"""Hosts that are network namespaces of this machine, joined by a bridge, with limited bandwidth.

    h0 ─eth0──┐
    h1 ─eth0──┤ bridge in its own namespace        10.77.0.1, 10.77.0.2, …
    h2 ─eth0──┘

A token bucket (`tc … tbf`) at either end of a host's cable limits what it sends and what it receives separately: the
link is full duplex, like those of clouds. Names contain the id of the process that created them, and everything is
removed when that process ends, except by SIGKILL; `remove_leftovers` removes the hosts of a killed process.
"""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "tfsat"
NAMED = Path("/run/netns")
CLONE_NEWNET = 0x40000000
BURST_SECONDS, MIN_BURST_BYTES = 0.004, 24_000
"""Size of the token bucket: the burst of an idle link. Small, so that idle times give little advantage; but the kernel
clock may tick only every 4 ms."""
QUEUE = "100ms"
"""The longest wait of a packet in the bucket's queue before it is dropped."""


def missing_requirement() -> str | None:
    """The reason why no hosts can be created here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root: run it as root, or in a privileged container"
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"{program} is not installed: on Debian, apt-get install iproute2"
    probe = f"{PREFIX}{os.getpid()}x"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be created: {made.stderr.strip() or made.stdout.strip()}"
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    namespace: str
    address: str
    port: str
    """The port of the bridge, which is the other end of its cable."""
    hub: str

    def enter(self) -> None:
        """Move this process and its children to the host; the process must have one thread."""
        with (NAMED / self.namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")

    def limit(self, mbps: float | None) -> None:
        """Limit the bandwidth in each direction, in Mbit/s; None removes the limit."""
        for namespace, device in ((self.namespace, "eth0"), (self.hub, self.port)):
            _in(namespace, "tc", "qdisc", "del", "dev", device, "root", check=False)
            if mbps is not None:
                burst = max(MIN_BURST_BYTES, round(mbps * 125_000 * BURST_SECONDS))
                _in(
                    namespace,
                    *("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbps * 1e6:.0f}bit"),
                    *("burst", str(burst), "latency", QUEUE),
                )


@contextmanager
def hosts(count: int) -> Iterator[tuple[Host, ...]]:
    """A number of hosts, removed at the end; a handler must turn SIGTERM into an exception for that."""
    remove_leftovers()
    name = f"{PREFIX}{os.getpid()}"
    hub = f"{name}b"
    try:
        _ip("netns", "add", hub)
        _in(hub, "ip", "link", "set", "lo", "up")
        _in(hub, "ip", "link", "add", "br0", "type", "bridge")
        _in(hub, "ip", "link", "set", "br0", "up")
        yield tuple(_host(f"{name}h{i}", f"10.77.0.{i + 1}", f"p{i}", hub) for i in range(count))
    finally:
        _remove(name)


def remove_leftovers() -> None:
    """Remove the hosts of processes that no longer exist."""
    for found in _namespaces():
        owner = re.match(rf"{PREFIX}(\d+)[bhx]", found)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            _ip("netns", "del", found, check=False)


def _host(namespace: str, address: str, port: str, hub: str) -> Host:
    _ip("netns", "add", namespace)
    _in(hub, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    _in(hub, "ip", "link", "set", port, "master", "br0", "up")
    _in(namespace, "ip", "address", "add", f"{address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _in(namespace, "ip", "link", "set", device, "up")
    return Host(namespace=namespace, address=address, port=port, hub=hub)


def _remove(name: str) -> None:
    for found in _namespaces():
        if found.startswith((f"{name}b", f"{name}h")):
            _ip("netns", "del", found, check=False)


def _namespaces() -> list[str]:
    return sorted(path.name for path in NAMED.iterdir()) if NAMED.is_dir() else []


def _in(namespace: str, *command: str, check: bool = True) -> None:
    _run("ip", "netns", "exec", namespace, *command, check=check)


def _ip(*arguments: str, check: bool = True) -> None:
    _run("ip", *arguments, check=check)


def _run(*command: str, check: bool) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")

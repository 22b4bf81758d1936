"""Hosts that are network namespaces of this machine, joined by a bridge, their network as narrow as one wants.

    h0 ─eth0──┐
    h1 ─eth0──┤ bridge in a namespace of its own        10.77.0.1, 10.77.0.2, …
    h2 ─eth0──┘

A token bucket (`tc … tbf`) at either end of a host's cable limits what it sends and what it receives, each for itself:
the link is full duplex, as those of clouds are. Names carry the id of the process that made them, and everything is
taken away again however that ends, but by SIGKILL; `remove_left_over` takes away what a killed one left.
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
BURST_SECONDS, LEAST_BURST = 0.004, 24_000
"""Of the token bucket: what a link that has rested may send at once. Small, so that rests give little away; but a
kernel clock ticks every 4 ms at worst."""
QUEUE = "100ms"
"""How long a packet may wait in the bucket's queue before it is dropped."""


def why_not() -> str | None:
    """Why no hosts can be made here; None where they can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root: run it as root, or in a container that may"
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"{program} is not installed: on Debian, apt-get install iproute2"
    probe = f"{PREFIX}{os.getpid()}x"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"this system gives out no network namespaces: {made.stderr.strip() or made.stdout.strip()}"
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    namespace: str
    address: str
    port: str
    """Of the bridge: the other end of its cable."""
    hub: str

    def enter(self) -> None:
        """This process and what it starts are on that host from now on; needs a process of one thread."""
        with (NAMED / self.namespace).open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")

    def narrow(self, mbps: float | None) -> None:
        """So many megabits a second in each direction; None is as fast as it goes."""
        for namespace, device in ((self.namespace, "eth0"), (self.hub, self.port)):
            _in(namespace, "tc", "qdisc", "del", "dev", device, "root", check=False)
            if mbps is not None:
                burst = max(LEAST_BURST, round(mbps * 125_000 * BURST_SECONDS))
                _in(
                    namespace,
                    *("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbps * 1e6:.0f}bit"),
                    *("burst", str(burst), "latency", QUEUE),
                )


@contextmanager
def hosts(count: int) -> Iterator[tuple[Host, ...]]:
    """So many hosts; whoever stops on SIGTERM must turn it into an exception for them to be taken away."""
    remove_left_over()
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


def remove_left_over() -> None:
    """Of processes that are no more."""
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

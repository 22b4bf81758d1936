"""Finds the place of this node among the nodes of its launch, before the program starts. One file, Python 3.8 or newer.

    python3 place.py

Only a node itself knows by which interface it reaches the others, and in a queue no one knows the addresses before:

    place.json     node, addresses (or null), ports that must be free, variables that name the interface
    job.json       command and environment, with @node0@, @node1@, … where an address belongs
    ../nodes       the name and the address of each node of a job of Slurm, used if place.json has no addresses
    placed.json    command and environment of this node, written by this program
    failure        why there is no place, in a sentence
"""

from __future__ import annotations

import errno
import fcntl
import json
import re
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

SIOCGIFADDR = 0x8915
RESOLVE_SECONDS = 30.0
"""The time in which the names of the other nodes must be known."""
FREE_SECONDS = 2.0
"""A port that an earlier attempt has just left may take so long."""


class NoPlaceError(Exception):
    """The program cannot be started on this node."""


def read_addresses(folder: Path, stated: list[str | None] | None) -> list[str]:
    """The addresses of all nodes, the first one first."""
    if stated is None:
        lines = [line.split() for line in (folder.parent / "nodes").read_text().splitlines()]
        stated = [words[-1] for words in lines if words]
    for node, address in enumerate(stated):
        if not address:
            raise NoPlaceError(f"The address of node {node} is not known, so that the other nodes cannot reach it.")
    return [str(address) for address in stated]


def resolve(address: str) -> tuple[Any, ...]:
    """The family and the numbers of an address; its name may become known a moment later."""
    give_up = time.monotonic() + RESOLVE_SECONDS
    while True:
        try:
            found = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)
            return min(found, key=lambda each: each[0] != socket.AF_INET)
        except OSError as error:
            if time.monotonic() > give_up:
                raise NoPlaceError(f"The address {address} of another node cannot be resolved: {error}.") from error
            time.sleep(0.5)


def own_address(others: list[str]) -> str:
    """The address from which this node sends to the others. Nothing is sent."""
    family, kind, protocol, _, target = resolve(others[0])
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.connect(target)
        except OSError as error:
            raise NoPlaceError(f"There is no way from this node to {others[0]}: {error.strerror}.") from error
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The interface with an address; None if it cannot be found."""
    if ":" in address:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        lines = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
        return next((words[5] for words in lines if words[0] == wanted), None)
    if address.startswith("127."):
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                reply = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(reply[20:24]) == address:
                return name
    return None


def require_free(port: int) -> None:
    """Refuse a port at which something else listens."""
    give_up = time.monotonic() + FREE_SECONDS
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise NoPlaceError(f"Port {port} cannot be used on {socket.gethostname()}: {error}.") from error
        if time.monotonic() > give_up:
            raise NoPlaceError(
                f"Port {port} is taken on {socket.gethostname()}, where the nodes were to meet. Set MASTER_PORT to "
                "another one for the program, or end what uses it."
            )
        time.sleep(0.25)


def filled(text: str, addresses: list[str]) -> str:
    return re.sub("@node([0-9]+)@", lambda found: addresses[int(found.group(1))], text)


def find_place(folder: Path) -> dict[str, Any]:
    """The command of this node, and its variables."""
    place, job = (json.loads((folder / name).read_text()) for name in ("place.json", "job.json"))
    addresses = read_addresses(folder, place["addresses"])
    node = place["node"]
    others = [address for number, address in enumerate(addresses) if number != node]
    interface = interface_of(own_address(others or addresses))
    for port in place["ports"]:
        require_free(port)
    environment = {name: filled(value, addresses) for name, value in job["environment"].items()}
    if interface is not None:
        environment = {**dict.fromkeys(place["interface_variables"], interface), **environment}
    return {"command": [filled(word, addresses) for word in job["command"]], "environment": environment}


def main() -> None:
    folder = Path(__file__).resolve().parent
    try:
        placed = find_place(folder)
    except NoPlaceError as error:
        (folder / "failure").write_text(str(error))
        sys.exit(f"trainfare: {error}")
    fresh = folder / "placed.json.new"
    fresh.write_text(json.dumps(placed))
    fresh.replace(folder / "placed.json")


if __name__ == "__main__":
    main()

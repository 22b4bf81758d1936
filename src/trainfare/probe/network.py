"""What this process sent to other processes over TCP.

The kernel counts bytes for each connection (`TCP_INFO`), so that, unlike the counters of an interface, no other
process is in the figure and loopback counts as a network does. What goes through shared memory, NVLink or InfiniBand is
not seen, nor is a connection that was closed before it was looked at.
"""

from __future__ import annotations

import os
import socket
import struct

_ACKED_AND_RECEIVED = 120
"""Where `tcpi_bytes_acked` and `tcpi_bytes_received` stand in `struct tcp_info` of Linux 4.1 and later."""


def tcp_bytes() -> tuple[int, int] | None:
    """Sent and received since each connection, open now, was made; None where the kernel does not tell."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208 # pathlib would cost as much as the asking
    except OSError:
        return None
    sockets = {name: descriptor for descriptor in descriptors if (name := _name(descriptor)).startswith("socket:")}
    counts = [found for descriptor in sockets.values() if (found := _bytes_of(int(descriptor))) is not None]
    return sum(sent for sent, _ in counts), sum(received for _, received in counts)


def _name(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 # as above
    except OSError:  # closed meanwhile
        return ""


def _bytes_of(descriptor: int) -> tuple[int, int] | None:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:  # closed meanwhile, or no TCP
        return None
    if len(facts) < _ACKED_AND_RECEIVED + 16:
        return None
    acked, received = struct.unpack_from("QQ", facts, _ACKED_AND_RECEIVED)
    return int(acked), int(received)

"""The bytes that this process sent and received over TCP.

The kernel counts bytes for each connection (`TCP_INFO`). Unlike the counters of a network interface, these include no
other process, and they include loopback. Traffic through shared memory, NVLink or InfiniBand is not counted, nor is a
connection that was closed before it was read.
"""

from __future__ import annotations

import os
import socket
import struct

_BYTE_COUNTS_OFFSET = 120
"""The offset of `tcpi_bytes_acked` and `tcpi_bytes_received` in `struct tcp_info` of Linux 4.1 and later."""


def tcp_bytes() -> tuple[int, int] | None:
    """The bytes sent and received over the connections that are open now, since each was made.

    None where the kernel does not report them.
    """
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return None
    sockets = {
        name: descriptor for descriptor in descriptors if (name := _link_target(descriptor)).startswith("socket:")
    }
    counts = [found for descriptor in sockets.values() if (found := _connection_bytes(int(descriptor))) is not None]
    return sum(sent for sent, _ in counts), sum(received for _, received in counts)


def _link_target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # closed in the meantime
        return ""


def _connection_bytes(descriptor: int) -> tuple[int, int] | None:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:  # closed in the meantime, or not TCP
        return None
    if len(info) < _BYTE_COUNTS_OFFSET + 16:
        return None
    acked, received = struct.unpack_from("QQ", info, _BYTE_COUNTS_OFFSET)
    return int(acked), int(received)

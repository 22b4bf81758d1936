"""Measures the rate of the network between node 0 and node 1, as the program of a run on both. One file, no packages.

Node 1 sends as fast as it can; node 0 counts what arrives after a first moment, in which TCP and shapers settle, and
writes the rate to link.json.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

SETTLE_SECONDS, SECONDS = 0.7, 2.0
WAIT_SECONDS = 60.0


def receive(port: int) -> float:
    """The bytes that arrive in a second."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port))
        server.listen()
        server.settimeout(WAIT_SECONDS)
        peer, _ = server.accept()
        began = time.monotonic()
        counted, since = 0, began
        while True:
            part = len(peer.recv(1 << 16))
            now = time.monotonic()
            if now - began < SETTLE_SECONDS:
                since = now
            else:
                counted += part
            if not part or now - since >= SECONDS:
                return counted / max(1e-9, now - since)


def send(address: tuple[str, int]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            peer = socket.create_connection(address, timeout=WAIT_SECONDS)
            break
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
    try:
        while True:
            peer.sendall(bytes(1 << 16))
    except OSError:  # the other node has counted enough
        return


if __name__ == "__main__":
    meeting = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ["RANK"] == "0":
        Path("link.json").write_text(json.dumps({"bytes_per_second": receive(meeting[1])}))
    else:
        send(meeting)

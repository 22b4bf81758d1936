"""The bytes that a process sent and received."""

import socket

import pytest

from trainfare.probe.network import tcp_bytes


@pytest.mark.loopback
def test_bytes_of_a_connection_are_counted_at_both_ends() -> None:
    before = tcp_bytes()
    if before is None:
        pytest.skip("the kernel does not report the bytes of a connection")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far, near.dup():
            near.sendall(b"x" * 10_000)
            received = 0
            while received < 10_000:
                received += len(far.recv(10_000))
            after = tcp_bytes()
    assert after is not None
    assert after[0] - before[0] == pytest.approx(10_000, abs=2)
    assert after[1] - before[1] == 10_000

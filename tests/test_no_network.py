"""No test reaches another machine, and this machine only with the marker `loopback`."""

import socket

import pytest

from tests.conftest import NetworkBlockedError

ELSEWHERE = ("192.0.2.1", 80)  # reserved for documentation: nothing answers there


def test_connections_and_lookups_are_blocked() -> None:
    for address in (("127.0.0.1", 9), ELSEWHERE):
        with pytest.raises(NetworkBlockedError):
            socket.create_connection(address, timeout=1)
        with socket.socket() as client, pytest.raises(NetworkBlockedError):
            client.connect_ex(address)
        with socket.socket(type=socket.SOCK_DGRAM) as client, pytest.raises(NetworkBlockedError):
            client.sendto(b"hello", address)
    with pytest.raises(NetworkBlockedError):
        socket.getaddrinfo("example.org", 443)


@pytest.mark.loopback
def test_the_marker_allows_this_machine_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"hello")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(5) == b"hello"
    with socket.socket() as client, pytest.raises(NetworkBlockedError):
        client.connect(ELSEWHERE)


def test_sockets_between_processes_of_this_machine_are_not_the_network() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"hello")
        assert other.recv(5) == b"hello"

"""Downloads: complete or an error that says why; through proxies; never endless."""

import socket
from collections.abc import Iterator
from datetime import date

import pytest

from tests.catalog.published_server import PublishedCatalog, publishing
from trainfare.catalog import download as downloads
from trainfare.catalog.download import UnreachableError, download
from trainfare.errors import ExternalError

pytestmark = pytest.mark.loopback


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublishedCatalog]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with publishing() as catalog:
        yield catalog


def test_a_file_has_its_contents_and_the_day_that_the_server_states(server: PublishedCatalog) -> None:
    server.headers["/v3/aws/version"] = {"Last-Modified": "Sun, 15 Nov 2026 08:00:00 GMT"}
    found = download(f"{server.url}/aws/version", timeout_seconds=5)
    assert (found.content, found.changed_on) == (b"20261115-7\n", date(2026, 11, 15))
    assert download(f"{server.url}/gcp/version", timeout_seconds=5).changed_on is None


def test_a_missing_file_is_named_with_the_answer(server: PublishedCatalog) -> None:
    with pytest.raises(ExternalError, match=r"/nothing answered 404 Not Found") as caught:
        download(f"{server.url}/nothing", timeout_seconds=5)
    assert not isinstance(caught.value, UnreachableError)


def test_a_silent_server_is_left_after_the_timeout(server: PublishedCatalog) -> None:
    server.stalled.add("/v3/aws/version")
    with pytest.raises(ExternalError, match=r"no answer within 0\.2 s"):
        download(f"{server.url}/aws/version", timeout_seconds=0.2)


def test_a_file_that_ends_early_is_an_error(server: PublishedCatalog) -> None:
    server.headers["/v3/aws/version"] = {"Content-Length": "5000"}
    with pytest.raises(ExternalError, match="ended after 11"):
        download(f"{server.url}/aws/version", timeout_seconds=5)


def test_a_huge_file_is_not_read_to_the_end(server: PublishedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MOST_BYTES", 4)
    with pytest.raises(ExternalError, match="that is no price table"):
        download(f"{server.url}/aws/version", timeout_seconds=5)


def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UnreachableError, match="Connection refused"):
        download(f"http://127.0.0.1:{port}/x", timeout_seconds=5)


def test_the_proxy_of_the_environment_is_used(server: PublishedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v3"))
    found = download("http://prices.invalid/v3/aws/version", timeout_seconds=5)
    assert found.content == b"20261115-7\n"
    assert server.requested == ["http://prices.invalid/v3/aws/version"]


def test_only_the_network_is_an_address() -> None:
    with pytest.raises(ValueError, match="not an address"):
        download("file:///etc/passwd", timeout_seconds=5)

"""Data of a launch on the machine: sent, fetched from a URL, or there; never from an address that is not public."""

import hashlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from trainfare.agent import supply

CONTENT = b"images" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Site(http.server.ThreadingHTTPServer):
    """A server of this machine that counts what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.failures = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/moved/"):
            self._reply(302, {"Location": self.path.removeprefix("/moved/")})
        elif self.path == "/again":
            self._reply(307, {"Location": "/again"})
        elif self.path == "/busy" and self.server.failures:
            self.server.failures -= 1
            self._reply(503, {})
        elif self.path == "/endless":
            self._reply(200, {}, CONTENT)
        elif self.path == "/cut":
            self._reply(200, {"Content-Length": "9999"}, CONTENT)
        elif self.path == "/missing":
            self._reply(404, {})
        elif self.headers.get("If-None-Match") == '"1"':
            self._reply(304, {})
        else:
            self._reply(200, {"ETag": '"1"', "Content-Length": str(len(CONTENT))}, CONTENT)

    def _reply(self, status: int, headers: Mapping[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINFARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    (tmp_path / "launch" / "work").mkdir(parents=True)
    return tmp_path / "launch"


def take(launch: Path, **source: Any) -> Path:
    """Supply a launch with one source of data; returns the place where the program finds it."""
    whole = {"name": "set", "kind": "fetched", "sha256": None, "allow_private": True, "folder": False} | source
    (launch / "supply.json").write_text(json.dumps({"environment": None, "data": [whole]}))
    supply.supply(launch)
    supplied = json.loads((launch / "supplied.json").read_text())
    return Path(supplied["TRAINFARE_DATA"], whole["name"])


@pytest.mark.loopback
def test_a_url_is_fetched_once_if_its_hash_is_stated(launch: Path, site: Site) -> None:
    assert take(launch, source=site.url("/x"), sha256=SHA).read_bytes() == CONTENT
    assert (launch / "work" / "set").read_bytes() == CONTENT
    take(launch, source=site.url("/y"), sha256=SHA)
    assert site.asked == ["/x"]


@pytest.mark.loopback
def test_a_url_without_a_hash_is_asked_whether_it_has_changed(
    launch: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    take(launch, source=site.url("/x?key=private"))
    assert take(launch, source=site.url("/x?key=private")).read_bytes() == CONTENT
    assert len(site.asked) == 2
    printed = capsys.readouterr().out
    assert f"#sha256={SHA}" in printed
    assert "has not changed" in printed
    assert "private" not in printed


@pytest.mark.loopback
def test_content_of_another_hash_is_refused_and_not_kept(launch: Path, site: Site) -> None:
    with pytest.raises(supply.SupplyError, match=f"its SHA-256 is {SHA}"):
        take(launch, source=site.url("/x"), sha256="ab" * 32)
    assert not (launch / "work" / "set").exists()
    assert {path.suffix for path in (launch.parent / "cache" / "data").iterdir()} == {".lock", ".users"}


@pytest.mark.loopback
def test_failures_of_a_server_are_tried_again_and_then_said(launch: Path, site: Site) -> None:
    site.failures = 2
    assert take(launch, source=site.url("/busy")).read_bytes() == CONTENT
    with pytest.raises(supply.SupplyError, match=r"ended after 6000 of 9999 bytes|IncompleteRead"):
        take(launch, source=site.url("/cut"))
    with pytest.raises(supply.SupplyError, match="answers 404"):
        take(launch, source=site.url("/missing"))
    assert site.asked.count("/missing") == 1


@pytest.mark.loopback
def test_data_without_a_size_ends_when_the_disk_is_full(
    launch: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "ROOM_BYTES", 1000)
    monkeypatch.setattr(supply, "disk_free", lambda _path: 999)
    with pytest.raises(supply.SupplyError, match="does not fit on the disk"):
        take(launch, source=site.url("/endless"))
    with pytest.raises(supply.SupplyError, match="has 6000 bytes, and this machine has room for 999"):
        take(launch, source=site.url("/x"))


@pytest.mark.loopback
def test_redirects_are_followed_and_have_an_end(launch: Path, site: Site) -> None:
    assert take(launch, source=site.url(f"/moved/{site.url('/x')}")).read_bytes() == CONTENT
    with pytest.raises(supply.SupplyError, match="only http and https"):
        take(launch, source=site.url("/moved/file:///etc/passwd"))
    with pytest.raises(supply.SupplyError, match="more than 8 times"):
        take(launch, source=site.url("/again"))


FORBIDDEN = (
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "0.0.0", "0", "[::1]", "[::]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "10.0.0.1"),
    *("172.16.5.4", "172.31.255.255", "192.168.0.1", "169.254.169.254", "169.254.170.2", "100.64.0.1", "198.18.0.1"),
    *("192.0.2.1", "224.0.0.1", "255.255.255.255", "[fe80::1]", "[fd00:ec2::254]", "[fc00::1]", "[ff02::1]"),
    *("[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "me@127.0.0.1", "example.org@127.0.0.1", "127.0.0.1."),
)


@pytest.mark.parametrize("host", FORBIDDEN)
def test_no_form_of_a_forbidden_address_is_connected_to(
    launch: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Names and numbers are looked up as they really are; a connection would fail the test."""
    monkeypatch.setattr(socket, "getaddrinfo", REAL_LOOK_UP)
    with pytest.raises(supply.SupplyError, match=r"not a public address|is not known|cannot be fetched") as found:
        take(launch, source=f"http://{host}:1/x", allow_private=False)
    assert "Blocked" not in str(found.value)


REAL_LOOK_UP = socket.getaddrinfo


@pytest.mark.loopback
def test_a_redirect_to_a_private_address_is_refused(launch: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address counts as public here, and the second does not."""
    monkeypatch.setattr(supply, "is_public", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", REAL_LOOK_UP)
    with pytest.raises(supply.SupplyError, match=r"169\.254\.169\.254 is not a public address"):
        take(launch, source=site.url("/moved/http://169.254.169.254/latest/meta-data"), allow_private=False)


def test_a_name_with_one_private_address_is_refused(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(socket.AF_INET, 1, 6, "", (address, 80)) for address in ("93.184.216.34", "10.0.0.5")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_words, **_options: answers)
    with pytest.raises(supply.SupplyError, match=r"10\.0\.0\.5 is not a public address"):
        take(launch, source="http://rebinding.example/x", allow_private=False)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert supply.is_public(address)


def test_data_that_was_sent_is_verified_and_used_again(launch: Path) -> None:
    arriving = launch / "arriving" / "0"
    (arriving / "sub").mkdir(parents=True)
    (arriving / "sub" / "a").write_text("a")
    digest = supply.content_digest(arriving)
    source = {"source": "/home/set", "kind": "sent", "sha256": digest, "folder": True}
    wanted = {"data": [{**source, "name": "set"}]}
    assert supply.missing(wanted) == [0]
    assert (take(launch, **source) / "sub" / "a").read_text() == "a"
    assert supply.missing(wanted) == []
    (take(launch, **source) / "sub" / "added").write_text("by a program")
    assert supply.missing(wanted) == []
    (take(launch, **source) / "sub" / "a").write_text("changed")
    assert supply.missing(wanted) == [0]
    (arriving / "sub").mkdir(parents=True, exist_ok=True)
    (arriving / "sub" / "a").write_text("a")
    assert (take(launch, **source) / "sub" / "a").read_text() == "a"
    assert supply.missing(wanted) == []
    arriving.mkdir(parents=True, exist_ok=True)
    (arriving / "b").write_text("changed")
    with pytest.raises(supply.SupplyError, match="changed while it was sent"):
        take(launch, **{**source, "sha256": "cd" * 32})


def test_data_on_the_machine_must_exist(launch: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("a")
    assert (take(launch, kind="there", source=str(tmp_path / "mine")) / "a").read_text() == "a"
    with pytest.raises(supply.SupplyError, match="there is no /nowhere"):
        take(launch, kind="there", source="/nowhere")


def test_a_file_of_the_program_is_never_replaced_by_data(launch: Path, tmp_path: Path) -> None:
    (launch / "work" / "set").write_text("the program's")
    (tmp_path / "mine").write_text("data")
    assert take(launch, kind="there", source=str(tmp_path / "mine")).read_text() == "data"
    assert (launch / "work" / "set").read_text() == "the program's"

"""Isolation of every test: a home folder and a terminal of its own, and no network. And their order.

A test that needs sockets of this machine asks for them with the marker `loopback`; no test reaches another machine.
Child processes and libpq, the library behind PostgreSQL, open their sockets outside Python and are not affected.
"""

import gc
import ipaddress
import os
import socket
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from tests.pythons import remove_folder

# How long an example takes, and to make one, depends on the load of the machine.
hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests and their modules stay until the end: they are not searched for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    remove_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that have the most heavy tests: workers that take one file after another then end at about
    the same time."""
    heavy = Counter(item.path for item in items if item.get_closest_marker("heavy"))
    items.sort(key=lambda item: -heavy[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test with the marker `clocks` compares the probe's clock with that of the program. A busy machine may stop the
    program between the two; a clock that is wrong is wrong each time. So it may try three times, its programs anew."""
    if not item.get_closest_marker("clocks"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in (1, 2, 3):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if attempt == 3 or not any(report.failed for report in reports):
            break
        item.session._setupstate.teardown_exact(None)
        item._initrequest()  # type: ignore[attr-defined] # of every function, not in pytest's public names
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class NetworkBlockedError(RuntimeError):
    """A test tried to open a connection that it may not open."""


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, so that no test depends on the settings or the window of the person who runs it."""
    home = tmp_path_factory.mktemp("home")
    for variable, folder in {"HOME": "", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config"}.items():
        monkeypatch.setenv(variable, str(home / folder))
    for variable in os.environ:
        if variable.startswith("TRAINFARE_") and not variable.startswith("TRAINFARE_TEST_"):
            monkeypatch.delenv(variable)
    for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block connections and name lookups; with the marker `loopback`, only those that leave this machine."""
    loopback_allowed = request.node.get_closest_marker("loopback") is not None

    def require_allowed(host: object) -> None:
        if not (loopback_allowed and _is_loopback(host)):
            raise NetworkBlockedError(f"a test may not connect to {host}; see tests/conftest.py")

    for name in ("connect", "connect_ex", "sendto"):
        original = getattr(socket.socket, name)

        def guarded(self: socket.socket, *arguments: Any, original: Any = original) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                require_allowed(arguments[-1][0])
            return original(self, *arguments)

        monkeypatch.setattr(socket.socket, name, guarded)
    look_up = socket.getaddrinfo

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        require_allowed(host)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


def _is_loopback(host: object) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False

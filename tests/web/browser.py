"""A server in a process of its own, and Debian's Chromium to look at it with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Playwright

TRAINFARE = Path(sys.executable).parent / "trainfare"
CHROMIUM = Path("/usr/bin/chromium")
DESK, PHONE = (1440, 900), (360, 740)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The address of a server, and a link that signs one browser in."""

    address: str
    link: str
    environment: dict[str, str]

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc


def environment_in(folder: Path) -> dict[str, str]:
    """The environment of a user whose home is this folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINFARE_", "XDG_"))}
    places = {"HOME": folder, "XDG_DATA_HOME": folder / "data", "XDG_CONFIG_HOME": folder / "config"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # `python3` has our libraries
    return kept | {name: str(place) for name, place in places.items()} | {"PATH": path}


def command(*words: str, environment: dict[str, str], directory: Path | None = None) -> str:
    """What `trainfare` prints."""
    done = subprocess.run(
        [TRAINFARE, *words],
        env=environment,
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[RunningServer]:
    """`trainfare serve` for the user whose home is this folder, on a free port."""
    environment = environment_in(folder) | variables
    with (
        (folder / "server.log").open("ab") as log,
        subprocess.Popen(
            [TRAINFARE, "serve", "--port", "0"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            link = server.stdout.readline().removeprefix("Open ").strip()
            address = f"http://{urlsplit(link).netloc}"
            yield RunningServer(address=address, link=link, environment=environment)
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def chromium(playwright: "Playwright") -> "Iterator[Browser]":
    """The browser; as root it can only start without its own sandbox."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
    try:
        yield browser
    finally:
        browser.close()


def open_context(
    browser: "Browser", size: tuple[int, int], *, dark: bool = False, state: str | None = None
) -> "BrowserContext":
    """A window of a size, with touch on a phone; `state` is a file with the cookies of a reader who has signed in."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        has_touch=size[0] < 600,
        is_mobile=size[0] < 600,
        timezone_id="Europe/Berlin",
        locale="en-GB",
        storage_state=state,
        reduced_motion="reduce",
    )
    context.set_default_timeout(20_000)
    return context

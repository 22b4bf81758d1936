"""Installs SkyPilot in a Python environment of its own, and asks it which clouds have credentials.

<folder>/env            the environment: SkyPilot needs other versions of packages than programs do
<folder>/setup.json     what was installed, once it is complete
<folder>/clouds.json    the clouds that have credentials, as SkyPilot last found them
<folder>/setup.log      what the installer printed
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec

from trainfare.clouds.skypilot_api import VERSION, SkyPilotApi, SkyPilotError
from trainfare.clouds.skypilot_launch import CLOUDS
from trainfare.errors import ExternalError

_CHECK_SECONDS = 600.0
"""The first check after the start of the server took 78 s on two busy cores."""
_COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An installation that is complete."""

    version: str
    clouds: tuple[str, ...]
    """Providers of the catalog whose packages are installed."""
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class SkyPilotInstallation:
    """SkyPilot in a folder, installed or not."""

    folder: Path
    api_url: str | None = field(default=None)

    @property
    def environment(self) -> Path:
        return self.folder / "env"

    @property
    def api(self) -> SkyPilotApi:
        return SkyPilotApi(self.environment, self.api_url)

    def installed(self) -> Installed | None:
        """The installation; None if there is none, or if it is not complete."""
        try:
            found = msgspec.json.decode((self.folder / "setup.json").read_bytes(), type=Installed)
        except (OSError, msgspec.MsgspecError):
            return None
        return found if found.version == VERSION and self.api.is_installed() else None

    def install(self, clouds: Sequence[str], on_line: Callable[[str], None]) -> Installed:
        """Install SkyPilot for some clouds, with those that were installed before. If they all were, nothing is
        done. `on_line` is called with what the installer prints."""
        before = self.installed()
        wanted = tuple(sorted({*clouds, *(before.clouds if before else ())}))
        if before is not None and before.clouds == wanted:
            return before
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "setup.json").unlink(missing_ok=True)
        if not (self.environment / "bin" / "python").exists():
            shutil.rmtree(self.environment, ignore_errors=True)  # of a call that was interrupted
        extras = ",".join(CLOUDS[each] for each in wanted)
        with (self.folder / "setup.log").open("w") as log:
            for words in _commands(self.environment, f"skypilot[{extras}]=={VERSION}"):
                self._run(words, log, on_line)
        done = Installed(
            version=VERSION,
            clouds=wanted,
            seconds=time.monotonic() - began,
            bytes=sum(path.lstat().st_size for path in self.environment.rglob("*") if path.is_file()),
        )
        (self.folder / "setup.json").write_bytes(msgspec.json.encode(done))
        return done

    def enabled(self) -> tuple[str, ...]:
        """The clouds that had credentials when SkyPilot was last asked, by their names in the catalog."""
        try:
            found = msgspec.json.decode((self.folder / "clouds.json").read_bytes(), type=tuple[str, ...])
        except (OSError, msgspec.MsgspecError):
            return ()
        return tuple(each for each in found if each in CLOUDS)

    def check(self, clouds: Sequence[str]) -> tuple[str, ...]:
        """Have SkyPilot check the credentials of some clouds; returns those that can be rented from."""
        names = {CLOUDS[each]: each for each in clouds}
        try:
            answer = self.api.call("/check", {"clouds": list(names)}, timeout_seconds=_CHECK_SECONDS)
        except SkyPilotError as error:
            if error.kind != "SystemExit" and "No cloud" not in str(error):
                raise
            answer = {}
        found = parse_enabled(answer, names)
        fresh = self.folder / "clouds.json.new"
        fresh.write_text(json.dumps(found))
        fresh.replace(self.folder / "clouds.json")
        return found

    def _run(self, words: Sequence[str], log: TextIO, on_line: Callable[[str], None]) -> None:
        last = ""
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                for line in process.stdout or ():
                    last = line.rstrip() or last
                    log.write(line)
                    on_line(last)
            except BaseException:  # interrupted by the user: nothing must be left running
                process.kill()
                raise
        if process.returncode:
            raise ExternalError(
                f"SkyPilot could not be installed: {last or f'exit code {process.returncode}'}. Call it again to go on;"
                f" {self.folder / 'setup.log'} has all that was printed."
            )


def parse_enabled(answer: object, names: dict[str, str]) -> tuple[str, ...]:
    """The clouds on which SkyPilot can launch, of the answer `{workspace: {cloud: [capability, …]}}`."""
    workspaces = answer.values() if isinstance(answer, dict) else ()
    found = {
        names[cloud.lower()]
        for clouds in workspaces
        for cloud, capabilities in clouds.items()
        if cloud.lower() in names and _COMPUTE in capabilities
    }
    return tuple(sorted(found))


def _commands(environment: Path, requirement: str) -> Iterator[tuple[str, ...]]:
    """The commands that make the environment and install a package there, with uv if there is one: it takes half a
    minute where pip takes minutes. SkyPilot itself needs pip at its first launch."""
    python, uv = environment / "bin" / "python", shutil.which("uv")
    if not python.exists():
        make = (uv, "venv", "--python", sys.executable) if uv else (sys.executable, "-m", "venv")
        yield (*make, str(environment))
    install = (uv, "pip", "install", "--python", str(python)) if uv else (str(python), "-m", "pip", "install")
    yield (*install, "pip", "setuptools", "wheel", requirement)

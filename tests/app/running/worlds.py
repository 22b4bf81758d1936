"""A store, a provider that does not exist, and a small program: what tests of running need. No framework is loaded."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import RunOptions, agree, start_run
from trainfare.app.running.supervise import FREEZE_AT, KILL_AT
from trainfare.clouds.fake import FakeDoor, Faults
from trainfare.model.run import Run
from trainfare.settings import Settings

ATTEND = """
import sys
from trainfare.app.running.run import attend
from trainfare.settings import Settings
_, store, runs, run_id = sys.argv
attend(run_id, settings=Settings(store=store, runs=runs, lease_seconds=1.0), poll_seconds=0.02)
"""
"""A process that supervises a run until it has ended."""


@dataclass(frozen=True)
class World:
    folder: Path
    settings: Settings
    door: FakeDoor

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, source: str, *arguments: str, **options: object) -> Run:
        """A run of a program with this source and arguments, agreed to and stored."""
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        (project / "train.py").write_text(source)
        wanted = RunOptions(on="fake/small", results=self.home, **options)  # type: ignore[arg-type] # fields of RunOptions
        before = Path.cwd()
        os.chdir(project)
        try:
            run = agree((sys.executable, "train.py", *arguments), wanted, settings=self.settings)
        finally:
            os.chdir(before)
        start_run(run, settings=self.settings)
        return run

    def attend_in_another_process(self, run: Run, *, kill_at: str | None = None) -> int:
        """Supervise in a process that kills itself at a labelled point; returns its exit code."""
        words = (sys.executable, "-c", ATTEND, self.settings.store, self.settings.runs, run.id)
        environment = os.environ | ({KILL_AT: kill_at} if kill_at else {})
        return subprocess.run(words, env=environment, check=False, timeout=600).returncode

    @contextmanager
    def frozen_supervisor(self, run: Run, *, at: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A process that supervises and then stands still at a labelled point, for the time of the block."""
        words = (sys.executable, "-c", ATTEND, self.settings.store, self.settings.runs, run.id)
        with subprocess.Popen(words, env=os.environ | {FREEZE_AT: at}) as process:
            try:
                os.waitpid(process.pid, os.WUNTRACED)
                yield process
            finally:
                process.kill()


def make_world(folder: Path, faults: Faults | None = None) -> World:
    """`TRAINFARE_FAKE_DOOR` must name the folder `provider` in `folder`."""
    assert os.environ[FAKE_FOLDER] == str(folder / "provider")
    door = FakeDoor(folder / "provider")
    if faults is not None:
        door.misbehave(faults)
    settings = Settings(
        store=str(folder / "history.db"),
        runs=str(folder / "runs"),
        machines=str(folder / "machines.toml"),
        prices=str(folder / "prices"),
        lease_seconds=1.0,
    )
    return World(folder=folder, settings=settings, door=door)

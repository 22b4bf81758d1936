"""Tasks: a profile that is taken in the background, in a process of its own, and survives the loss of that process."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainfare.app.serving import take_profile
from trainfare.app.serving.take_profile import work_on
from trainfare.app.serving.tasks import cancel_task, list_tasks, show_task, submit_profile
from trainfare.app.serving.uploads import MAX_BYTES, save_upload
from trainfare.app.serving.worker import settings_environment
from trainfare.clouds.sandbox import has_sandbox
from trainfare.errors import UsageError
from trainfare.model.lease import Lease
from trainfare.model.task import task_lease_name
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

sandboxed = pytest.mark.skipif(not has_sandbox(), reason="uploads are NOT tested: bubblewrap is not installed")

SLOW = "import time\nprint('started', flush=True)\ntime.sleep(60)\n"
ESCAPE = """
import os, socket, sys
def attempt(name, action):
    try:
        print(name, 'SUCCEEDED', action())
    except BaseException as error:
        print(name, 'refused', type(error).__name__)
store, canary, port = sys.argv[1:]
attempt('store', lambda: open(store, 'rb').read(4))
attempt('folder', lambda: os.listdir(os.path.dirname(canary)))
attempt('canary', lambda: open(canary).read())
attempt('loopback', lambda: socket.create_connection(('127.0.0.1', int(port)), 2))
attempt('metadata', lambda: socket.create_connection(('169.254.169.254', 80), 2))
attempt('system', lambda: open('/usr/canary', 'w'))
attempt('etc', lambda: open('/etc/shadow').read())
attempt('python', lambda: open(os.path.join(sys.prefix, 'canary'), 'w'))
print('environment', [n for n in os.environ if 'SECRET' in n],
      [n for n in ('1', 'self') if b'SECRET' in open(f'/proc/{n}/environ', 'rb').read()])
print('processes', len([n for n in os.listdir('/proc') if n.isdigit()]) <= 4)
raise SystemExit(1)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    store, runs, logs = (str(tmp_path / name) for name in ("history.db", "runs", "logs"))
    return replace(read_settings(), store=store, runs=runs, logs=logs)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    folder.mkdir()
    return folder


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass within a minute"
        time.sleep(0.05)


def start_worker(task_id: str, settings: Settings) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        (sys.executable, "-m", "trainfare.app.serving.take_profile", task_id),
        env=os.environ | settings_environment(settings),
    )


def test_a_program_that_fails_is_a_failed_task_with_its_reason(program: Path, settings: Settings) -> None:
    (program / "train.py").write_text("raise SystemExit('no data')")
    task = submit_profile(["python3", "train.py"], user="ada", folder=program, settings=settings)
    assert show_task(task.id, settings=settings).state == "waiting"
    work_on(task.id, settings)
    found = show_task(task.id, settings=settings)
    assert found.state == "failed"
    assert "no data" in found.message
    assert list_tasks(settings=settings) == (found,)
    work_on(task.id, settings)  # a second time changes nothing
    assert show_task(task.id, settings=settings).events[-1] == found.events[-1]


def test_a_task_that_waits_is_cancelled_at_once(program: Path, settings: Settings) -> None:
    task = submit_profile(["python3", "train.py"], user="ada", folder=program, settings=settings)
    assert cancel_task(task.id, settings=settings).state == "cancelled"


def test_a_task_that_runs_ends_when_it_is_cancelled(program: Path, settings: Settings) -> None:
    (program / "train.py").write_text(SLOW)
    task = submit_profile(["python3", "train.py"], user="ada", folder=program, settings=settings)
    worker = start_worker(task.id, settings)
    eventually(lambda: show_task(task.id, settings=settings).state == "running")
    cancel_task(task.id, settings=settings)
    worker.wait(60)
    assert show_task(task.id, settings=settings).state == "cancelled"


def test_a_task_whose_process_was_killed_is_begun_again_and_given_up_in_the_end(
    program: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program / "train.py").write_text(SLOW)
    task = submit_profile(["python3", "train.py"], user="ada", folder=program, settings=settings)
    for started in (1, 2, 3):
        worker = start_worker(task.id, settings)

        def has_started(number: int = started) -> bool:
            events = show_task(task.id, settings=settings).events
            return sum(event.kind == "started" for event in events) == number

        eventually(has_started)
        worker.send_signal(signal.SIGKILL)
        worker.wait(60)
        _let_lease_run_out(task.id, settings)
    work_on(task.id, settings)
    assert show_task(task.id, settings=settings).state == "failed"


def _let_lease_run_out(task_id: str, settings: Settings) -> None:
    with open_history(settings.store) as history:
        lease = history.leases.current(task_lease_name(task_id))
        assert isinstance(lease, Lease)
        history.leases.renew(lease, -take_profile.LEASE_SECONDS, datetime.now(UTC))


@sandboxed
@pytest.mark.loopback
def test_an_uploaded_program_cannot_leave_its_sandbox(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "do-not-tell")
    canary = tmp_path / "other" / "canary"
    canary.parent.mkdir()
    canary.write_text("canary")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = [settings.store, str(canary), str(listener.getsockname()[1])]
        upload = save_upload("probe.py", io.BytesIO(ESCAPE.encode()), words, settings=settings)
        folder = Path(upload.program.directory)
        task = submit_profile(upload.program.command, user="eve", folder=folder, settings=settings)
        work_on(task.id, settings)
    assert task.sandboxed
    said = show_task(task.id, settings=settings).message
    assert said.count(" refused ") == 8, said
    assert "SUCCEEDED" not in said
    assert "environment [] []" in said
    assert "processes True" in said


@sandboxed
@pytest.mark.parametrize("name", ["evil.tar.gz", "model.pkl", "../../.bashrc", "train", "x\x1b.py", ".py"])
def test_an_upload_of_another_kind_is_refused(name: str, settings: Settings) -> None:
    with pytest.raises(UsageError) as refused:
        save_upload(name, io.BytesIO(b"x"), [], settings=settings)
    assert refused.value.field == "upload"


@sandboxed
def test_a_script_whose_name_is_a_path_stays_in_its_folder(settings: Settings) -> None:
    upload = save_upload("../../../etc/train.py", io.BytesIO(b"pass"), [], settings=settings)
    assert Path(upload.program.directory).is_relative_to(Path(settings.runs) / "uploads")
    assert [path.name for path in Path(upload.program.directory).iterdir()] == ["train.py"]


@sandboxed
@pytest.mark.parametrize("member", ["../out.py", "/etc/out.py"])
def test_an_archive_that_leads_out_is_refused_and_nothing_is_left(member: str, settings: Settings) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(member, "pass")
    made.seek(0)
    with pytest.raises(UsageError, match="leads out"):
        save_upload("code.zip", made, [], settings=settings)
    assert list((Path(settings.runs) / "uploads").iterdir()) == []


@sandboxed
def test_an_upload_that_is_too_large_is_refused(settings: Settings) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"\0" * size

    with pytest.raises(UsageError, match="larger than"):
        save_upload("train.py", Endless(), [], settings=settings)  # type: ignore[arg-type] # it reads, which is enough
    assert sum(path.stat().st_size for path in Path(settings.runs).rglob("*") if path.is_file()) < MAX_BYTES

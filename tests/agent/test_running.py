"""The agent with real programs that do not behave."""

import ast
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import Run, agent_pid, ended, entries, guard_pid, program_pid, run
from tests.clouds.contract import WAITING, wait_until
from trainfare.agent import agent
from trainfare.clouds import driver
from trainfare.clouds.local_shell import LocalShell

__all__ = ["run"]

SIGN = "import time, pathlib\nwhile True: pathlib.Path('sign').touch(); time.sleep(0.02)\n"
"""A program that shows that it runs."""


def still_runs(work: Path) -> bool:
    """True if a program goes on creating its sign."""
    (work / "sign").unlink(missing_ok=True)
    time.sleep(0.3)
    return (work / "sign").exists()


def test_the_agent_is_python_3_8_with_the_standard_library_only() -> None:
    tree = ast.parse(Path(agent.__file__).read_text(), feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names


def has_python_3_8() -> bool:
    try:
        return subprocess.run(("python3.8", "-c", ""), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not has_python_3_8(), reason="there is no Python 3.8 here")
def test_the_agent_runs_under_python_3_8(run: Run, tmp_path: Path) -> None:
    (tmp_path / "python3").write_text('#!/bin/sh\necho used > "$0.used"\nexec python3.8 "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    shell = run("open('result', 'w').write('r')", machine={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, setup="true")
    assert ended(shell)["exit_code"] == 0
    assert (tmp_path / "python3.used").exists()
    assert shell.read("agent.log") == b""
    results = driver.results(shell)
    assert results is not None
    assert list(results.files) == ["result"]


def test_if_the_agent_is_killed_the_program_ends_and_that_is_recorded(run: Run) -> None:
    shell = run("open('result', 'w').write('r')\n" + SIGN)
    wait_until((shell.folder / "work/sign").exists)
    os.kill(agent_pid(shell), signal.SIGKILL)
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (-9, "signal")
    assert not still_runs(shell.folder / "work")
    assert entries(shell, "message") == [{"text": "The agent was killed or the machine was restarted."}]
    results = driver.results(shell)
    assert results is not None
    assert "result" in results.files


def test_if_guard_and_agent_are_killed_the_program_ends_and_the_next_start_records_it(run: Run) -> None:
    shell = run(SIGN)
    wait_until((shell.folder / "work/sign").exists)
    agent_process = agent_pid(shell)
    os.kill(guard_pid(shell), signal.SIGKILL)
    os.kill(agent_process, signal.SIGKILL)
    wait_until(lambda: not agent.is_running(agent_process))
    assert not still_runs(shell.folder / "work")
    assert driver.results(shell) is None
    driver.start(shell, secrets={})
    assert ended(shell)["cause"] == "signal"


@pytest.mark.parametrize(
    ("written", "recorded"),
    [
        ([("setup", {"state": "started"})], ("setup", -9)),
        ([("setup", {"state": "started"}), ("setup", {"state": "ended", "exit_code": 0})], ("program", -9)),
        ([("heartbeat", {})], ("program", -9)),
        ([("program", {"state": "started"})], ("program", -9)),
        ([("program", {"state": "started"}), ("program", {"state": "ended", "exit_code": 3})], ("program", 3)),
        ([("setup", {"state": "started"}), ("setup", {"state": "ended", "exit_code": 2})], ("setup", 2)),
    ],
)
def test_wherever_the_machine_was_restarted_the_end_is_recorded_once(
    tmp_path: Path, written: list[tuple[str, dict[str, Any]]], recorded: tuple[str, int]
) -> None:
    shell = LocalShell(folder=tmp_path)
    shell.write("agent.py", Path(agent.__file__).read_bytes())
    shell.write("job.json", b'{"command": ["true"]}')
    shell.write("work/file", b"")
    journal = agent.Journal(tmp_path / "journal.jsonl")
    for kind, values in written:
        journal.add(kind, **values)
    driver.renew(shell, datetime.now(UTC) + timedelta(hours=1))
    driver.start(shell, secrets={})
    wait_until(lambda: driver.results(shell))
    ends = [
        (entry.kind, entry.values["exit_code"])
        for entry in driver.entries(shell, after=0)
        if entry.values.get("exit_code")
    ]
    assert ends == [recorded]


def test_a_child_that_left_its_session_does_not_outlive_a_killed_agent(run: Run) -> None:
    shell = run(f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SIGN!r}], "
                "start_new_session=True); time.sleep(600)")  # fmt: skip
    wait_until((shell.folder / "work/sign").exists)
    os.kill(agent_pid(shell), signal.SIGKILL)
    ended(shell)
    assert not still_runs(shell.folder / "work")


def test_a_guard_that_is_killed_changes_nothing(run: Run) -> None:
    shell = run(WAITING + "print('done')")
    program_pid(shell)
    os.kill(guard_pid(shell), signal.SIGKILL)
    driver.start(shell, secrets={})
    shell.write("work/go", b"")
    assert ended(shell)["exit_code"] == 0
    assert driver.output(shell, offset=0) == b"done\n"


def test_a_program_that_ignores_the_request_is_killed_after_its_grace(run: Run) -> None:
    shell = run("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SIGN, grace_seconds=0.5)
    wait_until((shell.folder / "work/sign").exists)
    driver.ask_to_stop(shell, "user")
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (-9, "stop")


def test_a_daemon_that_the_program_leaves_behind_ends_with_it(run: Run) -> None:
    source = "import os, sys, time\n"
    source += "if os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n"
    source += " import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    source += " os.execv(sys.executable, [sys.executable, '-c', " + repr(SIGN) + "])\n"
    source += "while not os.path.exists('sign'): time.sleep(0.02)\n"
    shell = run(source, grace_seconds=0.5)
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (0, "own")
    assert not still_runs(shell.folder / "work")


def test_a_service_that_the_setup_starts_lasts_as_long_as_the_program(run: Run) -> None:
    setup = f"setsid {sys.executable} -c {shlex.quote(SIGN)} &"
    source = "import os, time\ntime.sleep(0.5)\nif os.path.exists('sign'): os.remove('sign')\n"
    shell = run(source + "while not os.path.exists('sign'): time.sleep(0.02)", setup=setup)
    assert ended(shell)["exit_code"] == 0
    assert not still_runs(shell.folder / "work")


def test_nothing_that_a_failed_setup_started_runs_on(run: Run) -> None:
    service = f"setsid {sys.executable} -c {shlex.quote(SIGN)} & "
    shell = run("", setup=service + "while [ ! -e sign ]; do sleep 0.05; done; exit 1")
    wait_until(lambda: driver.results(shell))
    assert entries(shell, "program") == []
    assert not still_runs(shell.folder / "work")


def test_a_stopped_program_is_asked_before_its_workers(run: Run) -> None:
    """A worker of a data loader that gets the signal first would make the program fail instead of saving."""
    worker = "import time, signal; signal.signal(signal.SIGTERM, lambda *_: open('worker asked', 'w').close())\n"
    worker += "open('worker', 'w').close()\nwhile True: time.sleep(0.02)"
    source = f"import subprocess, sys, os, time, signal\nw = subprocess.Popen([sys.executable, '-c', {worker!r}])\n"
    source += "def save(*_):\n time.sleep(0.3); print(os.path.exists('worker asked')); w.kill(); sys.exit(0)\n"
    source += "signal.signal(signal.SIGTERM, save)\nwhile True: time.sleep(0.02)"
    shell = run(source, grace_seconds=30.0)
    wait_until((shell.folder / "work/worker").exists)
    driver.ask_to_stop(shell, "user")
    assert ended(shell)["exit_code"] == 0
    assert driver.output(shell, offset=0) == b"False\n"


def test_the_setup_command_ends_with_the_lease_too(run: Run) -> None:
    shell = run("print('never')", setup="sleep 600", longest_seconds=1.0)
    wait_until(lambda: driver.results(shell))
    assert entries(shell, "setup")[-1]["cause"] == "longest"
    assert entries(shell, "program") == []


def test_a_machine_that_is_switched_off_lets_the_program_save(run: Run) -> None:
    shell = run("import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(4))\n" + SIGN)
    wait_until((shell.folder / "work/sign").exists)
    os.kill(agent_pid(shell), signal.SIGTERM)
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (4, "signal")


def test_a_program_whose_folder_was_removed_ends(run: Run) -> None:
    shell = run(SIGN)
    pid = program_pid(shell)
    shutil.rmtree(shell.folder)
    wait_until(lambda: not agent.is_running(pid), "the end of the program")


def test_an_agent_that_cannot_work_says_so(run: Run, tmp_path: Path) -> None:
    shell = LocalShell(folder=tmp_path)
    shell.write("agent.py", Path(agent.__file__).read_bytes())
    shell.write("job.json", b'{"command": 5}')
    driver.renew(shell, datetime.now(UTC) + timedelta(hours=1))
    driver.start(shell, secrets={})
    assert ended(shell)["exit_code"] == -9
    assert "The agent failed" in entries(shell, "message")[0]["text"]


def test_gpus_are_read_where_there_are_some(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '55, 2048'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    shell = run(WAITING, machine={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    found = wait_until(lambda: [m for m in entries(shell, "meter") if "gpu_percent" in m])[0]
    assert (found["gpu_percent"], found["gpu_memory_bytes"]) == (55.0, 2 << 30)
    shell.write("work/go", b"")
    assert ended(shell)["exit_code"] == 0


def test_much_output_arrives_whole(run: Run) -> None:
    shell = run("for n in range(200_000): print(f'line {n:8d} of a program that prints very much')")
    assert ended(shell)["exit_code"] == 0
    lines = (shell.folder / "output").read_bytes().splitlines()
    assert len(lines) == 200_000
    assert lines[-1] == b"line   199999 of a program that prints very much"


def test_output_without_a_line_break_arrives_while_the_program_runs(run: Run) -> None:
    shell = run("print('50%|###   ', end='')\n" + WAITING)
    wait_until(lambda: driver.output(shell, offset=0) == b"50%|###   ")
    assert driver.results(shell) is None


def test_output_is_kept_byte_by_byte(run: Run) -> None:
    shell = run("import sys; sys.stdout.buffer.write(bytes(range(256)) * 3 + 'ä\U0001f600'.encode())")
    ended(shell)
    assert driver.output(shell, offset=0) == bytes(range(256)) * 3 + "ä\U0001f600".encode()


def test_the_program_has_the_environment_of_the_machine_and_a_marker(run: Run) -> None:
    shell = run(
        "import os; print('HOME' in os.environ, os.environ['TRAINFARE_LAUNCH'] == os.path.dirname(os.getcwd()))"
    )
    ended(shell)
    assert driver.output(shell, offset=0) == b"True True\n"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="a small file system needs root")
def test_a_full_disk_loses_neither_the_end_nor_the_results(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that nothing stays mounted."""
    script = f"""
import json, subprocess, sys, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from trainfare.clouds import driver
from trainfare.clouds.local_shell import LocalShell

folder, project = Path({str(tmp_path)!r}, "machine"), Path({str(tmp_path)!r}, "project")
folder.mkdir(); project.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
(project / "train.py").write_text('''
import time
try:
    with open("filler", "wb", buffering=0) as file:
        while True: file.write(bytes(4096))
except OSError: pass
time.sleep(1)  # heartbeats cannot be written
print("x" * 100_000)
raise SystemExit(5)
''')
shell = LocalShell(folder=folder)
job = driver.AgentJob(key="k", node=0, command=(sys.executable, "train.py"), heartbeat_seconds=0.1, probe=False,
                 lease_ends_at=datetime.now(UTC) + timedelta(hours=1))
driver.prepare(shell, job=job, code=driver.CodeBundle(folder=project, files=("train.py",)))
driver.start(shell, secrets={{}})
until = time.monotonic() + 60
while driver.results(shell) is None and time.monotonic() < until: time.sleep(0.1)
found = driver.entries(shell, after=0)
print(json.dumps([sorted(driver.results(shell).files), [e.number for e in found], [e.kind for e in found],
                  [e for e in found if e.kind == "program"][-1].values["exit_code"],
                  driver.output(shell, offset=0).decode()[-80:]]))
"""
    done = subprocess.run(
        ("unshare", "--mount", sys.executable, "-c", script), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    files, numbers, kinds, exit_code, output = json.loads(done.stdout)
    assert files == ["filler"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert kinds.count("heartbeat") > 5, "those that could not be written at first are there"
    assert exit_code == 5
    assert output.endswith("x" * 70 + "\n")


TORCH = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n in range(1, 41):
    loss = ((model(torch.ones(8, 4)) - 1) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(f"{loss.item():.6g}")
    if n % 20 == 0:
        torch.save(model.state_dict(), f"epoch {n}.pt")
"""


def test_iterations_losses_and_checkpoints_of_a_training_are_recorded(run: Run) -> None:
    shell = run(TORCH, probe=True)
    assert ended(shell)["exit_code"] == 0
    iterations = entries(shell, "iterations")
    assert sum(entry["count"] for entry in iterations) == 40
    assert [entry["first"] for entry in iterations] == sorted(entry["first"] for entry in iterations)
    losses = [loss for entry in entries(shell, "losses") for loss in entry["values"]]
    assert losses == [float(line) for line in driver.output(shell, offset=0).split()]
    checkpoints = entries(shell, "checkpoint")
    assert [entry["path"] for entry in checkpoints] == ["epoch 20.pt", "epoch 40.pt"]
    assert checkpoints[0]["bytes"] == (shell.folder / "work/epoch 20.pt").stat().st_size
    assert checkpoints[0]["seconds"] > 0

"""The wording of every command, one snapshot of a session each.

`UPDATE_SNAPSHOTS=1 pytest tests/cli/test_wording.py` writes the snapshots anew; read the difference before you commit
it. The clock, the ids and the time zone are fixed, so that a session prints the same on every day; only the times that
a policy needed to decide are masked.
"""

import os
import random
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.catalog.samples import SKYPILOT_AWS, write_skypilot
from tests.makers import NOON, make_plan, make_profile, make_program
from tests.measurements.test_job_traces import THROUGHPUT, TRACE
from tests.model.test_split import make_split
from tests.profiler.past_runs.samples import SAMPLES
from tests.scheduler.makers import random_instance
from trainfare.cli.arguments import spell_error
from trainfare.cli.console import err, out
from trainfare.cli.main import COMMANDS, app, options_of
from trainfare.errors import TrainfareError
from trainfare.measurements.instances import write_instance
from trainfare.model.document import to_json
from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

SNAPSHOTS = Path(__file__).parent / "snapshots"
NOW = NOON + timedelta(days=3)

SESSIONS = {
    "recommend": ["recommend pcpu --epochs 30", "plans list", "plans show n6mwu", "plans show n6mwx"],
    "recommend_deadline": ["recommend pcpu --epochs 3000 --deadline 12h --spot"],
    "recommend_budget": ["recommend pcpu --epochs 3000 --budget 5 --baseline g4dn.xlarge"],
    "recommend_weighted": ["recommend pcpu --epochs 3000 --weight-time 0.5 --only provider=aws"],
    "recommend_split": ["recommend pt4 --epochs 300 --deadline 20min --split"],
    "recommend_infeasible": [
        "recommend pcpu --epochs 30000 --deadline 1min",
        "recommend pcpu --epochs 30000 --deadline 1min --budget 1",
        "recommend pcpu --epochs 30 --deadline 1s --only machine=g4dn.xlarge --spot",
    ],
    "plan_split": ["plans show nsplit"],
    "estimate": ["estimate pt4 --on g4dn.xlarge --epochs 90"],
    "estimate_explained": ["estimate pt4 --on g4dn.xlarge --epochs 90 --spot --explain"],
    "predict": ["predict pt4 --on H100 --batch 128", "predict pt4 --on g4dn.12xlarge --server-mbps 5000"],
    "compare": ["compare pt4", "profiles import elsewhere.json", "compare pt4 pv100 --epochs 5,50"],
    "epochs": ["epochs pt4 --epochs 20", "epochs pcpu", "epochs pt4 --batch 256"],
    "probe_plan": [
        "probe pcpu --plan --epochs 3000 --only provider=aws",
        "probe pcpu --plan --epochs 300000 --only provider=aws --only provider=gcp",
    ],
    "cluster": [
        "cluster --worker p2.xlarge=0.9 --worker g4dn.xlarge --server c5.4xlarge=0.68 --server-mbps 5000 "
        "--mbps-per-worker 300 --budget-per-hour 9",
        "cluster --profile pt4 --worker g4dn.xlarge --worker g5.xlarge --server c5.4xlarge=0.68 --server-mbps 5000 "
        "--max-workers 6 --epochs 50",
        "cluster --worker g4dn.xlarge --server c9.4xlarge --server-mbps 5000 --mbps-per-worker 300 --max-workers 4",
    ],
    "profiles": [
        "profiles list",
        "profiles show pt4",
        "profiles show pt5",
        "profiles import elsewhere.json",
        "profiles import elsewhere.json",
        "profiles rm pcpu",
        "profiles rm pcpu --yes",
    ],
    "import": ["import tensorboard lightning", "import hf hf --on aws/g5.xlarge --batch-size 4 --samples 100"],
    "catalog": [
        "catalog list --provider aws --gpu T4",
        "catalog list --history --gpu K80 --provider aws",
        "catalog list --gpu 'RTX 2080 Ti'",
        "catalog show c7a.4xlarge",
        "catalog list --gpu MI300X",
        "catalog show g4dn.xlarge",
        "catalog show p3.2xlarge",
        "catalog gpus T4",
        "catalog commitments",
    ],
    "catalog_import": [
        "catalog import catalogs/v8/aws/vms.csv --seen-on 2026-11-18 --dry-run",
        "catalog import catalogs/v8/aws/vms.csv --seen-on 2026-11-18",
    ],
    "calibrate": ["calibrate --list", "calibrate", "calibrate --use shipped"],
    "reproduce": ["reproduce sanghvi", "reproduce fc2"],
    "queue": [
        "queue list",
        "queue plan",
        "queue submit pt4 --epochs 300 --deadline 2d --user ada",
        "queue submit pt4 --epochs 3000 --user bo",
        "queue submit pcpu --user bo",
        "queue list",
        "queue plan --nodes 2",
        "queue plan --nodes 1 --machine g4dn.xlarge --spot --quota bo=1",
        "queue cancel s6mwu",
        "queue cancel s6mwu",
    ],
    "schedule": [
        "schedule simulate --instance queue --nodes 2 --policy fifo",
        "schedule simulate --instance queue --nodes 2 --policy greedy --mode real",
        "schedule compare --instance queue --nodes 2 --policy fifo,edf,greedy",
        "schedule bound --instance queue --nodes 2",
    ],
    "schedule_generate": [
        "schedule generate --nodes 3 --jobs 4 --into made --spot",
        "schedule generate --nodes 3 --jobs 4 --into made",
        "schedule import a.trace --throughputs throughput.csv --into imported",
    ],
    "settings": ["settings"],
    "help": [
        "--help",
        "schedule --help",
        "queue --help",
        "profiles --help",
        "plans --help",
        "runs --help",
        "catalog --help",
    ],
    **{
        f"help_{command.replace(' ', '_')}": [f"{command} --help"]
        for command in (
            *(name for name in COMMANDS if name not in ("schedule", "queue", "profiles", "plans", "runs", "catalog")),
            *(f"schedule {name}" for name in ("simulate", "compare", "generate", "import")),
            *(f"queue {name}" for name in ("submit", "list", "plan")),
            *(f"catalog {name}" for name in ("list", "import", "update")),
        )
    },
}
"""Name → the commands of the session, which share one store."""


class FixedMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class FixedDatetime(datetime, metaclass=FixedMeta):
    """The class `datetime`, for which it is always `NOW`."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override] # a plain datetime is enough
        return NOW.astimezone(tz)


@pytest.fixture(autouse=True)
def fixed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fix the clock, the ids, the time zone and the width of the terminal."""
    for target, _ in COMMANDS.values():
        import_module(target.partition(":")[0])
    for name, module in list(sys.modules.items()):
        if name.startswith(("trainfare.app.", "trainfare.cli.")) and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", FixedDatetime)
    monkeypatch.setattr("trainfare.app.ids.secrets.choice", random.Random(1).choice)  # the same ids in every run
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    out.cache_clear()
    err.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()
    out.cache_clear()
    err.cache_clear()


def profiles() -> Iterator[Profile]:
    curve = tuple(
        Epoch(number=n, seconds=5.0, loss=2.0 / n + 0.1, metrics={"accuracy": 1 - 0.6 / n}) for n in range(1, 9)
    )
    program = make_program(command=("python", "train.py", "--batch-size", "64"))
    yield make_profile(id="pcpu", program=program, activation_bytes=50_000_000)
    on_t4 = make_profile(
        id="pt4",
        program=program,
        host=Host(name="rented", vm_type="aws/g4dn.xlarge", gpu="Tesla T4"),
        device="cuda",
        measured_at=NOON + timedelta(hours=1),
        activation_bytes=50_000_000,
        iteration_seconds=(0.5, *([0.2, 0.21, 0.19] * 10)),
        loss=(),
        curve=curve,
    )
    yield on_t4
    yield replace(
        on_t4,
        id="pv100",
        host=Host(name="rented", vm_type="aws/g5.xlarge", gpu="NVIDIA A10G"),
        iteration_seconds=(0.5, *([0.05, 0.06, 0.05] * 10)),
        measured_at=NOON,
    )


@pytest.fixture(autouse=True)
def folder(fixed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working folder with the files that sessions name, and a store with profiles and a split plan."""
    monkeypatch.chdir(tmp_path)
    cpu, t4, v100 = profiles()
    with open_history(read_settings().store) as history:
        for profile in (cpu, t4, make_profile(id="p7k2")):
            history.profiles.add(profile)
        history.plans.add(make_plan(id="nsplit", split=make_split()))
    Path("elsewhere.json").write_text(to_json(v100))
    Path("a.trace").write_text(TRACE)
    Path("throughput.csv").write_text(THROUGHPUT)
    write_instance(Path("queue"), random_instance(7, jobs=6, load=4))
    write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    for name in ("lightning", "hf"):
        shutil.copytree(SAMPLES / name, name)
    for path in Path("hf").rglob("*"):
        os.utime(path, (NOON.timestamp(), NOON.timestamp()))
    return tmp_path


def printed(command: str) -> str:
    """The command and everything that it prints to the terminal."""
    result = CliRunner().invoke(app, shlex.split(command))
    text = result.output
    code = result.exit_code
    if isinstance(result.exception, TrainfareError):
        text += f"trainfare: {spell_error(result.exception, shlex.split(command), options_of)}\n"
        code = result.exception.exit_code
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    ended = f"[exit code {code}]\n" if code else ""
    return f"$ trainfare {command}\n{text}{ended}"


def masked(text: str, folder: Path, home: Path) -> str:
    text = text.replace(str(folder), ".").replace(str(home), "~")
    lines = []
    for written in text.splitlines():
        line = written
        if re.search("decided in|decision|^(?:fifo|edf|greedy) ", line):
            line = re.sub(r"[\d.]+ (?:µs|ms)\b", "TIME", line)
        if re.search("^(?:policy|fifo|edf|greedy) |  default$|set by", line):  # columns as wide as what is masked
            line = re.sub(" {2,}", "  ", line)
        lines.append(f"{line.rstrip()}\n")
    return "".join(lines)


@pytest.mark.parametrize("name", SESSIONS)
def test_wording(name: str, folder: Path, home: Path) -> None:
    text = masked("\n".join(printed(command) for command in SESSIONS[name]), folder, home)
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_snapshot_is_left_over() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(SESSIONS)


def test_the_clock_of_a_session_stands_still() -> None:
    from trainfare.app.catalog.offers import list_offers

    assert list_offers().today == date(2026, 11, 19)

"""The wording of every command, held by one snapshot each.

`UPDATE_SNAPSHOTS=1 pytest tests/cli/test_wording.py` writes them anew; read the difference before you commit it.
Ids, dates and ages differ from run to run and are masked.
"""

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.makers import NOON, make_profile, make_program
from trainfare.cli.arguments import spell_error
from trainfare.cli.main import app
from trainfare.errors import TrainfareError
from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

SNAPSHOTS = Path(__file__).parent / "snapshots"

COMMANDS = {
    "recommend": "recommend pcpu --epochs 30",
    "recommend_deadline": "recommend pcpu --epochs 3000 --deadline 12h --spot",
    "recommend_budget": "recommend pcpu --epochs 3000 --budget 5 --baseline g4dn.xlarge",
    "recommend_weighted": "recommend pcpu --epochs 3000 --weight-time 0.5 --only provider=aws",
    "recommend_split": "recommend pt4 --epochs 300 --deadline 20min --split",
    "recommend_infeasible": "recommend pcpu --epochs 30000 --deadline 1min",
    "recommend_wrong_option": "recommend pcpu --only color=red",
    "estimate": "estimate pt4 --on g4dn.xlarge --epochs 90",
    "estimate_explained": "estimate pt4 --on g4dn.xlarge --epochs 90 --spot --explain",
    "predict": "predict pt4 --on H100 --batch 128",
    "compare": "compare pt4",
    "epochs": "epochs pt4 --epochs 20",
    "probe_plan": "probe pcpu --plan --epochs 3000 --only provider=aws",
    "cluster": "cluster --worker p2.xlarge --server c5.4xlarge --server-mbps 5000 --mbps-per-worker 300 --budget-per-hour 9",
    "profiles_list": "profiles list",
    "profiles_show": "profiles show pt4",
    "profiles_missing": "profiles show nope",
    "catalog_list": "catalog list --provider aws --gpu T4",
    "catalog_show": "catalog show g4dn.xlarge",
    "catalog_gpu": "catalog gpus T4",
    "calibrate_list": "calibrate --list",
    "reproduce": "reproduce sanghvi",
    "schedule_submit": "schedule submit pt4 --epochs 300 --deadline 2d",
    "schedule_plan": "schedule plan --nodes 2",
    "help": "--help",
    "help_recommend": "recommend --help",
    "help_profile": "profile --help",
    "help_schedule": "schedule --help",
}
MASKS = (
    (r"\b[a-z][a-z0-9]{4}\b(?= (?:stored|submitted))|(?<=plan )[a-z0-9]{5}\b|(?<=show )[a-z0-9]{5}\b|\bs[a-z0-9]{4}\b(?=  )", "ID"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d)?( UTC)?", "DATE"),
    (r"\d+ (?:day|week|month|year|hour|minute)s?(?: old| ago)", "AGE"),
    (r"today|just now", "AGE"),
    (r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d\d:\d\d", "MOMENT"),
    (r"[ ]+$", ""),
)


def profiles() -> tuple[Profile, ...]:
    curve = tuple(Epoch(number=n, seconds=5.0, loss=2.0 / n + 0.1, metrics={"accuracy": 1 - 0.6 / n}) for n in range(1, 9))
    command = ("python", "train.py", "--batch-size", "64")
    on_cpu = make_profile(id="pcpu", program=make_program(command=command), activation_bytes=50_000_000)
    on_t4 = make_profile(
        id="pt4",
        program=make_program(command=command),
        host=Host(name="rented", vm_type="aws/g4dn.xlarge", gpu="Tesla T4"),
        device="cuda",
        measured_at=NOON + timedelta(hours=1),
        activation_bytes=50_000_000,
        iteration_seconds=(0.5, *([0.2, 0.21, 0.19] * 10)),
        loss=(),
        curve=curve,
    )
    return on_cpu, on_t4


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    with open_history(read_settings().store) as history:
        for profile in profiles():
            history.profiles.add(profile)


@pytest.mark.parametrize("name", COMMANDS)
def test_wording(name: str) -> None:
    words = COMMANDS[name].split()
    if name == "schedule_plan":
        CliRunner().invoke(app, COMMANDS["schedule_submit"].split())
    result = CliRunner().invoke(app, words)
    text = result.output
    if isinstance(result.exception, TrainfareError):
        text += f"trainfare: {spell_error(result.exception)}\n"
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    text = f"$ trainfare {COMMANDS[name]}\n{text}"
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_snapshot_is_left_over() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(COMMANDS)

"""Files for other tools: each can be read back or parsed by its own language, and holds no secret."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.app.programs.task_file import KNOWN, read_task_file
from trainfare.model.program import Program
from trainfare.model.run import RunLimits
from trainfare.model.supplies import DataSource
from trainfare.model.training_export import ExportFormat, Installation, TrainingExport
from trainfare.views.exports import export_text
from trainfare.views.exports.skypilot import task_of

DATA = (
    DataSource(name="digits", kind="sent", source="/home/a b/digits", sha256="ab" * 32),
    DataSource(name="in/labels", kind="fetched", source="https://example.org/x?a=1&b='", sha256="cd" * 32),
    DataSource(name="big", kind="there", source="~/my data"),
)
NASTY = "a'b\"c $HOME `id` $(id)\\ \n#!; rm"


def make_export(**changes: Any) -> TrainingExport:
    whole = TrainingExport(
        id="r1",
        program=Program(command=("python", "train.py", "--note", NASTY), directory="/home/me/it's"),
        candidate=make_candidate(nodes=2),
        limits=RunLimits(longest_seconds=7200, deadline=datetime(2026, 1, 1, tzinfo=UTC)),
        setup="pip install x\nmake 'y'",
        variables={"EPOCHS": "3", "NOTE": NASTY},
        secrets=("HF_TOKEN",),
        data=DATA,
        installation=Installation(
            named_by="uv.lock", arguments=("torch>=2; python_version > '3'",), locked=True, source_roots=("src",)
        ),
    )
    return replace(whole, **changes)


def check_bash(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


BARE: dict[str, Any] = {
    "setup": None,
    "variables": {},
    "secrets": (),
    "data": (),
    "installation": None,
    "limits": RunLimits(),
}


@pytest.mark.parametrize(
    "changes", [{}, BARE, {"installation": Installation(named_by="x", arguments=(), locked=False)}]
)
def test_scripts_are_valid_bash(changes: dict[str, Any]) -> None:
    export = make_export(**changes)
    check_bash(export_text(export, "script"))
    check_bash(export_text(export, "slurm"))
    task = task_of(export)
    check_bash(task["run"])
    check_bash(task.get("setup", ""))


@pytest.mark.parametrize("to", get_args(ExportFormat))
def test_secrets_are_named_and_their_values_unknown(to: ExportFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    text = export_text(make_export(), to)
    assert "HF_TOKEN" in text
    assert "hf_canary" not in text


def test_a_task_of_skypilot_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    export = make_export(data=())
    path = tmp_path / "task.yaml"
    path.write_text(export_text(export, "skypilot"))
    content = yaml.safe_load(path.read_text())
    assert content == task_of(export)
    assert set(content) <= KNOWN - {"config"}
    task = read_task_file(path)
    assert (task.nodes, task.secrets, task.workdir) == (2, ("HF_TOKEN",), Path("/home/me/it's"))
    assert task.variables["NOTE"] == NASTY
    assert task.command[:2] == ("bash", "-c")
    assert "timeout --kill-after=20s 7200s python train.py" in task.command[2]


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("aws", {"infra": "aws/us-east-1", "instance_type": "m1", "use_spot": True}),
        ("runpod", {"infra": "runpod", "accelerators": "T4:1", "use_spot": True}),
        ("digitalocean", {"infra": "do", "accelerators": "T4:1", "use_spot": True}),
        ("ssh", {"infra": "ssh/m1", "accelerators": "T4:1", "use_spot": True}),
        ("ovhcloud", {"accelerators": "T4:1", "use_spot": True}),
    ],
)
def test_resources_are_those_of_the_offer(provider: str, expected: dict[str, Any]) -> None:
    gpu_type = make_vm_type(provider=provider, name="m1")
    offer = make_offer(vm_type=gpu_type, region="us-east-1", market="spot")
    found = dict(task_of(make_export(candidate=make_candidate(offer=offer)))["resources"])
    stop = found.pop("autostop", None)
    assert found == expected
    assert stop == (None if provider in ("ssh", "ovhcloud") else {"idle_minutes": 5, "down": True})


def test_a_batch_script_marks_what_only_the_site_knows() -> None:
    text = export_text(make_export(limits=RunLimits()), "slurm")
    assert "#SBATCH --partition=REPLACE_WITH_YOUR_PARTITION" in text
    assert "#SBATCH --nodes=2" in text
    assert "#SBATCH --gres=gpu:1" in text
    assert "\nexec srun python train.py" in text
    estimate = make_estimate()
    limited = export_text(make_export(limits=RunLimits(), candidate=estimate.candidate, estimate=estimate), "slurm")
    assert f"#SBATCH --time={-(-round(estimate.seconds.high * 1.1) // 60)}" in limited


def test_a_budget_is_a_time_limit() -> None:
    export = make_export(limits=RunLimits(budget_usd=1.0, longest_seconds=1e9))
    assert export.longest_seconds == pytest.approx(3600 / export.candidate.usd_per_hour)
    assert make_export(limits=RunLimits()).longest_seconds is None

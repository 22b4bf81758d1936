"""Task files of SkyPilot as programs."""

from pathlib import Path

import pytest

from trainfare.app.programs.sources import read_program
from trainfare.app.programs.task_file import TaskFile, command_of, read_task_file
from trainfare.errors import UsageError
from trainfare.settings import Settings

TASK = """
name: digits
workdir: code
num_nodes: 2
resources:
  infra: ssh/big
  accelerators: H100:8
  use_spot: true
envs:
  EPOCHS: 3
  WANDB_API_KEY:
secrets:
  HF_TOKEN: null
file_mounts:
  ./digits: https://example.org/digits
  /checkpoints:
    source: s3://bucket
setup: |
  pip install -r requirements.txt
run: |
  python train.py --epochs $EPOCHS
service: {replicas: 1}
config:
  aws: {vpc_name: x}
  trainfare:
    budget: 20
    deadline: 2h
    max_duration: 8h
    install: none
    data: [cifar=./cifar]
recource: {}
"""


def read(folder: Path, text: str) -> TaskFile:
    (folder / "task.yaml").write_text(text)
    return read_task_file(folder / "task.yaml")


def test_the_fields_of_a_task_become_those_of_a_run(tmp_path: Path) -> None:
    task = read(tmp_path, TASK)
    assert task.command == ("bash", "-c", "python train.py --epochs $EPOCHS")
    assert task.setup == "bash -c 'pip install -r requirements.txt\n'"
    assert (task.workdir, task.nodes) == (Path("code"), 2)
    assert task.variables == {"EPOCHS": "3", "SKYPILOT_NUM_NODES": "2"}
    assert task.secrets == ("WANDB_API_KEY", "HF_TOKEN")
    assert task.data == ("digits=https://example.org/digits", "cifar=./cifar")
    assert task.terms == {
        "on": "ssh/big",
        "budget_usd": 20.0,
        "deadline_seconds": 7200.0,
        "longest_seconds": 28800.0,
        "install": "none",
    }
    assert task.notes == (
        "these fields of the task have no effect here: service, resources.accelerators, resources.use_spot, "
        "file_mounts./checkpoints, config.aws.",
        "these fields are not known to SkyPilot or Trainfare: recource.",
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python train.py --lr 0.1\n", ("python", "train.py", "--lr", "0.1")),
        ("python 'my train.py'", ("python", "my train.py")),
        ("cd src", ("bash", "-c", "cd src")),
        ("A=1 python x.py", ("bash", "-c", "A=1 python x.py")),
        ("python a.py && python b.py", ("bash", "-c", "python a.py && python b.py")),
        ("python a.py $X", ("bash", "-c", "python a.py $X")),
        ("a\nb", ("bash", "-c", "a\nb")),
    ],
)
def test_one_plain_command_needs_no_shell(script: str, words: tuple[str, ...]) -> None:
    assert command_of(script) == words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "0 tasks"),
        ("run: x\nsecrets: {TOKEN: abc", "not a YAML file: .* in line 2"),
        ("run: [", "not a YAML file"),
        ("run: a\n---\nrun: b", "2 tasks"),
        ("- run", "not a task"),
        ("setup: x", "no field run"),
        ("run: 3", "run must be a text"),
        ("run: x\nnum_nodes: 0.5", "num_nodes"),
        ("run: x\nenvs: [A]", "envs"),
        ("run: x\nenvs: {a-b: 1}", "not the name of a variable"),
        ("run: x\nworkdir: {url: https://github.com/a/b}", "clone it"),
        ("run: x\nsecrets: {TOKEN: abc}", "by reference. Set TOKEN"),
        ("run: x\nconfig: {trainfare: {budgt: 3}}", "no field of config.trainfare budgt. Did you mean budget"),
        ("run: x\nconfig: {trainfare: {budget: -3}}", "number of dollars"),
        ("run: x\nconfig: {trainfare: {deadline: soon}}", "soon"),
        ("run: x\nconfig: {trainfare: {install: all}}", "auto or none"),
        ("run: x\nconfig: {trainfare: {data: a=b}}", "a list"),
        ("run: !!python/object/apply:os.system [ls]", "not a YAML file"),
        ("[" * 3000, "not a YAML file"),
    ],
)
def test_a_task_that_cannot_be_run_says_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as found:
        read(tmp_path, text)
    assert "abc" not in str(found.value)


def test_a_secret_in_the_file_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "from the environment")
    task = read(tmp_path, "run: x\nsecrets: {TOKEN: abc}")
    assert task.secrets == ("TOKEN",)
    assert "abc" not in repr(task)
    assert task.notes == ("the secret TOKEN is taken from the environment, not from the task file.",)


def test_a_task_file_is_a_program_in_its_workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "task.yaml").write_text(TASK)
    found = read_program(["task.yaml"], Settings())
    assert found.program.directory == str(tmp_path / "code")
    assert found.program.name == "train.py"
    with pytest.raises(UsageError, match="cannot be added"):
        read_program(["task.yaml", "--lr"], Settings())
    with pytest.raises(UsageError, match="cannot be read"):
        read_program(["no.yaml"], Settings())

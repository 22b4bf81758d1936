"""`trainfare calibrate`: learning from kept profiles, and going back."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.estimator.prediction.test_predictor import on_gpu, operations
from tests.makers import make_profile, make_program, shipped_coefficients
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.cli.main import app
from trainfare.errors import NotFoundError, Remedy, StoreError, UsageError
from trainfare.estimator.gpu.physics import step_seconds
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

TABLES = Path(__file__).parents[2].parent / "shared" / "measurements"


def keep(*profiles: Profile) -> None:
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["calibrate", *arguments], catch_exceptions=True)


def run_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def seen_on(gpu: str, ratio: float, number: int) -> Profile:
    """A program that takes `ratio` times what the model gives."""
    modelled = step_seconds(operations(), [load_gpus()[gpu]], shipped_coefficients().physics)[0].seconds
    return on_gpu(
        gpu,
        ratio * modelled,
        id=f"p{number}",
        program=make_program(command=("python", f"program{number}.py")),
    )


def predicted(on: str) -> float:
    return trainfare.predict(["pnew"], on=on).prediction.iteration_seconds.value


NEW = make_profile(id="pnew", program=make_program(command=("python", "new.py")), operations=operations())


def test_without_profiles_on_gpus_nothing_changes() -> None:
    found = run_json()
    assert found["name"] is None
    assert found["changes"] == []


def test_profiles_that_agree_correct_their_gpu_and_no_other() -> None:
    keep(*(seen_on("T4", 1.5, number) for number in range(6)), NEW)
    before = {gpu: predicted(gpu) for gpu in ("T4", "V100")}
    found = run_json()
    assert found["history"]["taken"] is True
    assert found["history"]["error_after"] < found["history"]["error_before"]
    assert predicted("T4") == pytest.approx(1.5 * before["T4"], rel=0.1)
    assert predicted("V100") == before["V100"]


def test_trying_keeps_nothing() -> None:
    keep(*(seen_on("T4", 1.5, number) for number in range(6)))
    assert run_json("--try")["changes"]
    assert [one["name"] for one in run_json("--list")] == ["shipped"]


def test_absurd_profiles_are_set_aside_and_change_nothing() -> None:
    keep(*(seen_on("T4", 1.0, number) for number in range(5)), seen_on("T4", 40.0, 66), NEW)
    before = predicted("T4")
    found = run_json()
    assert [one["profile"] for one in found["history"]["set_aside"]] == ["p66"]
    assert predicted("T4") == pytest.approx(before, rel=0.02)


def test_the_old_ones_are_kept_and_can_be_gone_back_to() -> None:
    keep(*(seen_on("T4", 1.5, number) for number in range(6)), NEW)
    before = predicted("T4")
    name = run_json()["name"]
    assert [(one["name"], one["in_use"]) for one in run_json("--list")] == [(name, True), ("shipped", False)]
    assert run("--use", "shipped").exit_code == 0
    assert predicted("T4") == before
    assert run("--use", name).exit_code == 0
    assert predicted("T4") > before


def test_a_damaged_calibration_says_how_to_go_back() -> None:
    folder = Path(read_settings().calibrations)
    folder.mkdir(parents=True)
    (folder / "20261116-000000.json").write_text('{"kind": "calibration", "version": 1, "made_at": 3}')
    (folder / "current").write_text("20261116-000000")
    keep(NEW)
    with pytest.raises(StoreError, match="cannot be used") as raised:
        predicted("T4")
    assert raised.value.remedies == (Remedy({"use": "shipped"}, command="calibrate"),)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("--use", "nope"), NotFoundError, "no calibration nope"),
        (("--data", "/nowhere"), UsageError, "not a folder"),
        (("--list", "--use", "shipped"), UsageError, "exclude one another"),
    ],
)
def test_what_is_asked_wrongly_is_said(arguments: tuple[str, ...], error: type[Exception], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert words in str(result.exception)


def test_a_folder_without_iterations_says_what_it_needs(tmp_path: Path) -> None:
    result = run("--data", str(tmp_path))
    assert isinstance(result.exception, UsageError)
    assert "vision_models_rtx3090" in str(result.exception)


def table(folder: Path, operations: bytes) -> Path:
    (folder / "vision_models_rtx3090").mkdir()
    (folder / "vision_models_rtx3090" / "operations.jsonl.gz").write_bytes(operations)
    (folder / "vision_models_rtx3090" / "train_amp_nchw.csv").write_text(
        "model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size,param_count\nnet,1,50,8,32,1\n"
    )
    return folder


ONE = {
    "model": "net", "batch_size": 8, "params": 1000, "dtype": "float16",
    "flops_and_bytes_by_class": {"mm": [[1e9, 1e6]] * 9, "elem": [[0, 1e6]] * 9, "opt": [[0, 1e4]]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        (b"not compressed", "cannot be read"),
        (gzip.compress(b"x" * 100_000)[:60], "cannot be read"),
        (gzip.compress(b'{"model": 3'), "cannot be read"),
        (gzip.compress(json.dumps(ONE).encode()), "at least two families"),
    ],
    ids=["plain text", "cut short", "half a row", "one model"],
)
def test_tables_that_cannot_be_used_are_said(tmp_path: Path, operations: bytes, words: str) -> None:
    result = run("--data", str(table(tmp_path, operations)))
    assert isinstance(result.exception, UsageError), result.exception
    assert words in str(result.exception)


@pytest.mark.skipif(not TABLES.is_dir(), reason="the public tables of measurements are not beside this folder")
def test_the_shipped_coefficients_are_those_that_the_tables_give(tmp_path: Path) -> None:
    """Of the tables with operations, so that it is quick: the others keep what they were."""
    for table in ("vision_models_rtx3090", "torchvision_models_six_gpus"):
        (tmp_path / table).symlink_to(TABLES / table)
    found = run_json("--data", str(tmp_path), "--try")
    assert not [change for change in found["changes"] if "kernel coefficient" in change]
    (part,) = found["left_out"]
    assert part["error"] < 15

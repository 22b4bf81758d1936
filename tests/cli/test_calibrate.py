"""`trainfare calibrate`: corrections from stored profiles, and going back to an earlier calibration."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import trainfare
from tests.cli import commands
from tests.cli.commands import store
from tests.estimator.prediction.test_predictor import on_gpu, operations
from tests.makers import make_profile, make_program, shipped_coefficients
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.errors import NotFoundError, Remedy, StoreError, UsageError
from trainfare.estimator.gpu.physics import step_seconds
from trainfare.model.profile import Profile
from trainfare.settings import read_settings

TABLES = Path(__file__).parents[2].parent / "shared" / "measurements"


def calibrate_json(*arguments: object) -> Any:
    return commands.read_json("calibrate", *arguments)


def measured_on(gpu: str, ratio: float, number: int) -> Profile:
    """A profile of a program whose iteration takes `ratio` times the time of the model."""
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
    found = calibrate_json()
    assert found["name"] is None
    assert found["changes"] == []


def test_consistent_profiles_correct_their_gpu_and_no_other() -> None:
    store(*(measured_on("T4", 1.5, number) for number in range(6)), NEW)
    before = {gpu: predicted(gpu) for gpu in ("T4", "V100")}
    found = calibrate_json()
    assert found["history"]["taken"] is True
    assert found["history"]["error_after"] < found["history"]["error_before"]
    assert predicted("T4") == pytest.approx(1.5 * before["T4"], rel=0.1)
    assert predicted("V100") == before["V100"]


def test_try_stores_nothing() -> None:
    store(*(measured_on("T4", 1.5, number) for number in range(6)))
    assert calibrate_json("--try")["changes"]
    assert [one["name"] for one in calibrate_json("--list")] == ["shipped"]


def test_implausible_profiles_are_left_out_and_change_nothing() -> None:
    store(*(measured_on("T4", 1.0, number) for number in range(5)), measured_on("T4", 40.0, 66), NEW)
    before = predicted("T4")
    found = calibrate_json()
    assert [one["profile"] for one in found["history"]["set_aside"]] == ["p66"]
    assert predicted("T4") == pytest.approx(before, rel=0.02)


def test_an_earlier_calibration_can_be_used_again() -> None:
    store(*(measured_on("T4", 1.5, number) for number in range(6)), NEW)
    before = predicted("T4")
    name = calibrate_json()["name"]
    assert [(one["name"], one["in_use"]) for one in calibrate_json("--list")] == [(name, True), ("shipped", False)]
    commands.succeed("calibrate", "--use", "shipped")
    assert predicted("T4") == before
    commands.succeed("calibrate", "--use", name)
    assert predicted("T4") > before


def test_the_error_of_a_damaged_calibration_names_the_way_back() -> None:
    folder = Path(read_settings().calibrations)
    folder.mkdir(parents=True)
    (folder / "20261116-000000.json").write_text('{"kind": "calibration", "version": 1, "made_at": 3}')
    (folder / "current").write_text("20261116-000000")
    store(NEW)
    with pytest.raises(StoreError, match="cannot be used") as raised:
        predicted("T4")
    assert raised.value.remedies == (Remedy({"use": "shipped"}, command="calibrate"),)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--use", "nope"), NotFoundError, "no calibration nope"),
        (("--data", "/nowhere"), UsageError, "/nowhere"),
        (("--list", "--use", "shipped"), UsageError, "exclude each other"),
    ],
)
def test_a_wrong_argument_is_explained(arguments: tuple[str, ...], error: type[Exception], message: str) -> None:
    assert isinstance(commands.error_of("calibrate", *arguments), error)
    assert message in commands.complaint("calibrate", *arguments)


def test_a_folder_without_tables_is_an_error_that_names_them(tmp_path: Path) -> None:
    error = commands.error_of("calibrate", "--data", tmp_path)
    assert isinstance(error, UsageError)
    assert "vision_models_rtx3090" in error.message


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
    ("operations", "message"),
    [
        (b"not compressed", "cannot be read"),
        (gzip.compress(b"x" * 100_000)[:60], "cannot be read"),
        (gzip.compress(b'{"model": 3'), "cannot be read"),
        (gzip.compress(json.dumps(ONE).encode()), "at least two families"),
    ],
    ids=["plain text", "cut short", "half a row", "one model"],
)
def test_tables_that_cannot_be_used_are_an_error(tmp_path: Path, operations: bytes, message: str) -> None:
    error = commands.error_of("calibrate", "--data", table(tmp_path, operations))
    assert isinstance(error, UsageError)
    assert message in error.message


@pytest.mark.skipif(not TABLES.is_dir(), reason="the public tables of measurements are not next to this folder")
def test_the_shipped_coefficients_are_those_that_the_tables_give(tmp_path: Path) -> None:
    """Fits only the tables with operations, so that it is quick; the other coefficients stay as they are."""
    for table in ("vision_models_rtx3090", "torchvision_models_six_gpus"):
        (tmp_path / table).symlink_to(TABLES / table)
    found = calibrate_json("--data", str(tmp_path), "--try")
    assert not [change for change in found["changes"] if "kernel coefficient" in change]
    (part,) = found["left_out"]
    assert part["error"] < 15

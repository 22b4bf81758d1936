"""The epoch tasks on small synthetic tables, and folders with missing tables."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import epochs_from_curve, epochs_other_batch
from benchmarks.accuracy.judged import Judged
from benchmarks.epochs.data import public_runs, reference_points

HEADER = "progress,iteration,metric,grad_sqr,grad_var"


def write_curves(folder: Path, program: str, sizes: tuple[int, ...], *, metric: str | None = None) -> None:
    """Forty epochs of an accuracy that rises to 0.9, the same at every size, with 1,000 iterations at the first."""
    place = folder / "data_parallel_t4" / program
    place.mkdir(parents=True)
    for size in sizes:
        lines = [
            f"{1000 * k},{1000 * k * sizes[0] // size},{metric or 0.9 - 0.5 * math.exp(-k / 8)},1.0,2.0"
            for k in range(1, 41)
        ]
        (place / f"validation-{size}.csv").write_text("\n".join([HEADER, *lines]) + "\n")


def write_points(folder: Path, *lines: str) -> None:
    place = folder / "epochs_to_target"
    place.mkdir(parents=True)
    (place / "reference_points.csv").write_text("\n".join(["round,bench,bs,n,mean_epochs,std", *lines]) + "\n")


def judged(task: object, fit: Path, test: Path | None = None) -> dict[str, Judged]:
    return {found.key: found for found in task.judge(fit, test)}  # type: ignore[attr-defined] # every task has a `judge`


def test_unknown_program_is_predicted_by_its_curve(tmp_path: Path) -> None:
    write_curves(tmp_path / "fit", "cifar10", (128, 256))
    write_curves(tmp_path / "test", "mystery", (32, 64))
    found = judged(epochs_from_curve, tmp_path / "fit", tmp_path / "test")
    half = found["epochs_from_curve/data_parallel_t4/50"]
    assert len(half.truth) == 2
    assert "by curve alone: mystery" in half.note
    assert set(half.baselines) == {"Optimus", "pow3", "vapour", "constant fraction"}


def test_only_program_of_a_folder_uses_the_default_constants(tmp_path: Path) -> None:
    write_curves(tmp_path, "yolov3", (8,))
    assert len(judged(epochs_from_curve, tmp_path)["epochs_from_curve/data_parallel_t4/10"].truth) == 1


def test_diverged_run_is_left_out(tmp_path: Path) -> None:
    write_curves(tmp_path, "cifar10", (128,))
    write_curves(tmp_path, "ncf", (256,), metric="nan")
    assert [run.program for run in public_runs(tmp_path / "data_parallel_t4")] == ["cifar10"]


def test_answers_more_than_four_times_away_are_ranges(tmp_path: Path) -> None:
    write_points(tmp_path, *(f"r1,law,{size},10,{20 * (1 + size / 1000)},0.1" for size in (64, 128, 256, 1024, 2048)))
    write_curves(tmp_path, "cifar10", (128, 256))
    found = judged(epochs_other_batch, tmp_path)
    near, far = (found[f"epochs_other_batch/epochs_to_target/{name}/two_known"] for name in ("4x", "8x"))
    assert np.isfinite(near.ours).all()
    assert np.isnan(far.ours).all()
    assert far.low is not None
    assert far.high is not None
    assert (far.low < far.high).all()


def test_gradient_noise_is_used_where_the_table_has_it_and_compared_without_it(tmp_path: Path) -> None:
    write_curves(tmp_path, "cifar10", (128, 256, 512))
    write_points(tmp_path, "r1,law,64,10,20,0.1", "r1,law,128,10,22,0.1")
    found = judged(epochs_other_batch, tmp_path)
    assert "epochs_other_batch/data_parallel_t4/2x/two_known/epochs_only" in found
    assert "epochs_other_batch/epochs_to_target/2x/one_known/epochs_only" not in found


def test_points_counted_in_samples_stay_in_samples(tmp_path: Path) -> None:
    write_points(tmp_path, "r1,unet3d,64,90,3270,600", "r2,unet3d,64,90,418000,78000", "r2,unet3d,80,80,388000,70000")
    points = reference_points(tmp_path / "epochs_to_target" / "reference_points.csv")
    assert points["unet3d"].samples == 1_000_000
    assert [(point.batch_size, point.epochs, point.runs) for point in points["unet3d"].known] == [
        (64, 0.418, 90),
        (80, 0.388, 80),
    ]


@pytest.mark.parametrize("task", [epochs_from_curve, epochs_other_batch])
def test_missing_table_is_named(task: object, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="data_parallel_t4"):
        judged(task, tmp_path)

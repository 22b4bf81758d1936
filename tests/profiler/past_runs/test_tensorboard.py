"""Event files of real writers."""

import os
import re
import shutil
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.event_file import masked_crc
from trainfare.profiler.past_runs.run_log import RunOverrides
from trainfare.profiler.past_runs.tensorboard import read

TORCH = next((SAMPLES / "torch").iterdir())


def imported(path: Path, **overrides: Any) -> Profile:
    return profile_from_log(read(path), RunOverrides(**overrides), id="p1")[0]


def writer_to(folder: Path) -> Any:
    """A writer; imported here because it loads torch."""
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped] # the library has no types

    return SummaryWriter(str(folder))


def written(folder: Path, points: list[tuple[int, float, float]], tag: str = "loss") -> Path:
    """A folder to which tensorboardX wrote these steps, values and timestamps."""
    with writer_to(folder) as writer:
        for step, value, timestamp in points:
            writer.add_scalar(tag, value, step, walltime=timestamp)
    return folder


def test_loss_at_every_step_gives_the_time_of_each_iteration() -> None:
    """The program slept 20 ms per iteration and 100 ms per validation."""
    profile = imported(SAMPLES / "torch")
    assert len(profile.iteration_seconds) == 27  # of 29 pairs, two contain a validation
    assert median(profile.iteration_seconds) == pytest.approx(0.0205, abs=0.001)
    assert profile.validation_seconds == pytest.approx((0.1, 0.1), abs=0.01)
    assert profile.loss[:3] == pytest.approx((2.0, 1.0, 2 / 3))
    assert (len(profile.loss), profile.run_iterations) == (30, 30)
    assert profile.host.name == "laptop"
    assert profile.measured_at.year == 2026
    assert profile.run_seconds == pytest.approx(0.93, abs=0.1)


def test_length_of_an_epoch_gives_a_curve() -> None:
    curve = imported(SAMPLES / "torch", iterations_per_epoch=10).curve
    assert [epoch.metrics for epoch in curve] == [{"Accuracy/val": pytest.approx(v)} for v in (0.5, 0.6, 0.7)]
    assert curve[1].seconds == pytest.approx(0.3, abs=0.03)


def test_lightning_logs_epochs_and_every_tenth_step() -> None:
    profile = imported(SAMPLES / "lightning")
    assert profile.framework == "lightning"
    assert profile.iterations_per_epoch == 64
    assert profile.run_iterations == 256
    assert median(profile.iteration_seconds) == pytest.approx(0.0065, abs=0.0015)
    assert [i for i, value in enumerate(profile.loss) if value is not None][:3] == [9, 19, 29]
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert all(epoch.metrics["val_loss"] < 1 for epoch in profile.curve)


def test_keras_by_epoch_has_a_curve_with_validation() -> None:
    profile = imported(SAMPLES / "keras")
    assert profile.framework == "keras"
    assert profile.iterations_per_epoch == 12
    assert profile.run_iterations == 48
    assert len(profile.iteration_seconds) == 3  # of each epoch but the first, with its validation
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert profile.curve[0].metrics.keys() == {"mae", "learning_rate", "val_loss", "val_mae"}
    assert profile.curve[0].seconds is None
    assert profile.curve[1].seconds is not None


def test_keras_by_batch_also_has_times() -> None:
    profile = imported(SAMPLES / "keras_batches")
    assert len(profile.iteration_seconds) == 44
    assert len(profile.loss) == 48
    assert len(profile.curve) == 4


def test_newest_of_several_runs_is_read_and_the_others_are_noted() -> None:
    log = read(SAMPLES)
    assert log.source == SAMPLES / "keras_batches"
    assert "4 runs were found" in log.notes[0]
    assert str(SAMPLES / "torch") in log.notes[0]


def test_folders_of_a_chart_with_several_lines_belong_to_the_run_above(tmp_path: Path) -> None:
    written(tmp_path, [(step, 1.0, 100.0 + step) for step in range(3)], tag="lr")
    written(tmp_path / "loss_train", [(step, 0.5, 100.0 + step) for step in range(3)])
    log = read(tmp_path)
    assert log.by_step.keys() == {"lr", "loss_train/loss"}
    assert log.notes == ()


def test_run_resumed_in_a_second_file_uses_the_later_steps(tmp_path: Path) -> None:
    written(tmp_path, [(step, 1.0, 100.0 + step) for step in range(6)])
    (first,) = tmp_path.iterdir()
    first.rename(tmp_path / "events.out.tfevents.1000000000.laptop")
    written(tmp_path, [(step, 0.5, 900.0 + step) for step in range(3, 8)])
    profile = imported(tmp_path)
    assert profile.loss == (1.0,) * 3 + (0.5,) * 5
    assert profile.iteration_seconds == (1.0,) * 6
    assert profile.run_seconds is None


def test_nan_and_infinite_losses_are_none(tmp_path: Path) -> None:
    written(tmp_path, [(0, 1.0, 1.0), (1, float("nan"), 2.0), (2, float("inf"), 3.0), (3, 0.5, 4.0)])
    assert imported(tmp_path).loss == (1.0, None, None, 0.5)


def test_histograms_and_texts_of_any_length_are_skipped(tmp_path: Path) -> None:
    import numpy as np

    with writer_to(tmp_path) as writer:
        for step in range(3):
            writer.add_histogram("weights", np.arange(100.0), step)
            writer.add_text("note", "loss 3 " * (300_000 if step == 1 else 1), step)
            writer.add_scalar("loss", 0.5, step, walltime=100.0 + step)
    assert read(tmp_path).by_step.keys() == {"loss"}


@pytest.mark.parametrize("lost", [1, 5, 20, 60])
def test_complete_part_of_a_truncated_file_is_used_with_a_note(tmp_path: Path, lost: int) -> None:
    cut = tmp_path / TORCH.name
    cut.write_bytes(TORCH.read_bytes()[:-lost])
    log = read(cut)
    assert 28 <= len(log.by_step["Loss/train"]) <= 30
    assert "is damaged or incomplete from byte" in log.notes[0]
    assert re.search(r"read \d+ scalars before it", log.notes[0])


def test_flipped_bit_in_a_scalar_is_detected(tmp_path: Path) -> None:
    raw = bytearray(TORCH.read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / TORCH.name).write_bytes(raw)
    log = read(tmp_path)
    assert 5 < len(log.by_step["Loss/train"]) < 25
    assert "damaged" in log.notes[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 1500))
def test_any_bytes_are_read_or_refused(tmp_path: Path, garbage: bytes, keep: int) -> None:
    file = tmp_path / "events.out.tfevents.1000000000.laptop"
    file.write_bytes(TORCH.read_bytes()[:keep] + garbage)
    try:
        read(file)
    except UsageError as refusal:
        assert "no usable scalar of TensorBoard" in str(refusal)  # noqa: PT017 # reading the damaged file is allowed too


def test_empty_folder_is_refused_with_the_expected_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contain a file events\.out\.tfevents\.\*"):
        read(tmp_path)


def test_empty_file_and_other_file_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"epoch,loss\n1,2\n"):
        file = tmp_path / "events.out.tfevents.1000000000.laptop"
        file.write_bytes(content)
        with pytest.raises(UsageError, match="no usable scalar of TensorBoard"):
            read(file)


def test_missing_path_and_link_loop_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere cannot be read: No such file or directory\."):
        read(tmp_path / "nowhere")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="cannot be read: Too many levels of symbolic links"):
        read(loop)


def test_missing_permission_is_a_usage_error(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "torch", tmp_path / "run")
    (tmp_path / "run").chmod(0)
    nobody = 65534
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(nobody)  # root may read everything
    try:
        with pytest.raises(UsageError, match="Permission denied"):
            read(tmp_path / "run")
    finally:
        if was_root:
            os.seteuid(0)
        (tmp_path / "run").chmod(0o700)


def test_checksum_is_that_of_the_format() -> None:
    """CRC-32C of "123456789" is 0xE3069283 (RFC 3720); masked as TFRecord does it."""
    crc = 0xE3069283
    assert masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

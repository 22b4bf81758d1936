"""Files of Weights & Biases."""

import shutil
import struct
import zlib
from pathlib import Path
from statistics import median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profiler.past_runs.samples import SAMPLES
from trainfare.errors import UsageError
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.run_log import RunOverrides
from trainfare.profiler.past_runs.wandb import read

FILE = next((SAMPLES / "wandb").glob("*/*.wandb"))


def test_offline_run() -> None:
    """The program slept 10 ms per iteration and 50 ms per validation; the fifth loss of every epoch was NaN."""
    profile, notes = profile_from_log(read(SAMPLES / "wandb"), RunOverrides(), id="p1")
    assert (profile.micro_batch_size, profile.epochs, profile.iterations_per_epoch) == (32, 3, 10)
    assert median(profile.iteration_seconds) == pytest.approx(0.0108, abs=0.001)
    assert profile.validation_seconds == pytest.approx((0.05, 0.05), abs=0.01)
    assert len(profile.loss) == profile.run_iterations == 30
    assert [i for i, loss in enumerate(profile.loss) if loss is None] == [4, 14, 24]
    assert profile.learning_rate == (0.1,) * 30
    assert [epoch.metrics for epoch in profile.curve] == [{"val/accuracy": pytest.approx(v)} for v in (0.5, 0.6, 0.7)]
    assert profile.ending == "finished"
    assert profile.program.command == ("python", "train.py")
    assert profile.host.name == "laptop"
    assert "each log() with a loss is taken to be one iteration" in notes[0]


def test_newest_of_several_runs_is_read_and_a_link_is_not_counted(tmp_path: Path) -> None:
    for name in ("offline-run-20250101_000000-aaaaaaaa", FILE.parent.name):
        shutil.copytree(FILE.parent, tmp_path / name)
    (tmp_path / "latest-run").symlink_to(tmp_path / FILE.parent.name)
    log = read(tmp_path)
    assert log.source.parent.name == FILE.parent.name
    assert "2 runs were found" in log.notes[0]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_complete_part_of_a_truncated_file_is_used_with_a_note(tmp_path: Path, share: float) -> None:
    cut = tmp_path / FILE.name
    cut.write_bytes(FILE.read_bytes()[: int(share * FILE.stat().st_size)])
    log = read(cut)
    assert "is damaged or incomplete; read" in log.notes[0]
    assert log.ending == "enough"


def test_flipped_bit_is_detected(tmp_path: Path) -> None:
    raw = bytearray(FILE.read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / FILE.name).write_bytes(raw)
    assert "is damaged or incomplete" in read(tmp_path).notes[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 12_000))
def test_any_bytes_are_read_or_refused(tmp_path: Path, garbage: bytes, keep: int) -> None:
    file = tmp_path / "run-x.wandb"
    file.write_bytes(FILE.read_bytes()[:keep] + garbage)
    try:
        read(file)
    except UsageError as refusal:
        assert "no readable row of history" in str(refusal) or "not a run of W&B" in str(refusal)  # noqa: PT017 # reading the damaged file is allowed too


def message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def log_of(*records: bytes) -> bytes:
    """The file with these records, in chunks that end with a block of 32 KiB."""
    file = b":W&B\xe1\xbe\x00"
    for record in records:
        is_first = True
        while is_first or record:
            left = 32768 - len(file) % 32768
            if left < 7:
                file += bytes(left)
                continue
            chunk, record = record[: left - 7], record[left - 7 :]  # noqa: PLW2901 # the rest of the record is taken next
            kind = (1 if not record else 2) if is_first else (4 if not record else 3)
            file += struct.pack("<IHB", zlib.crc32(bytes([kind]) + chunk), len(chunk), kind) + chunk
            is_first = False
    return file


def row(**values: float) -> bytes:
    """A row of history with typed values: integers as zigzag, others as doubles."""
    items = b""
    for name, value in values.items():
        typed = _varint(5 << 3) + _varint(value << 1) if isinstance(value, int) else b"\x31" + struct.pack("<d", value)
        items += message(1, message(1, name.encode()) + typed)
    return message(2, items)


def test_typed_values_and_records_of_several_blocks(tmp_path: Path) -> None:
    """Values of the schema of wandb 0.31, which still writes JSON."""
    config = message(
        5, message(1, message(1, b"batch_size") + message(16, b"64")) + message(1, message(16, b"9" * 90_000))
    )
    rows = [row(_step=n, _timestamp=1.8e9 + n * 0.5, global_step=10 * n, loss=1 / (n + 1)) for n in range(2000)]
    file = tmp_path / "run-x.wandb"
    file.write_bytes(log_of(config, *rows))
    log = read(file)
    assert log.notes == ()
    assert log.settings["batch_size"] == 64
    profile, _ = profile_from_log(log, RunOverrides(), id="p1")
    assert set(profile.iteration_seconds) == {0.05}
    assert profile.loss[::10][:2] == (1.0, 0.5)


def test_empty_folder_is_refused_with_the_expected_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contain a file run-\*\.wandb"):
        read(tmp_path)


def test_other_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.wandb").write_text("hello")
    with pytest.raises(UsageError, match="does not begin with :W&B"):
        read(tmp_path / "run.wandb")

"""The task on a synthetic table: programs that follow one ring, each with its own gradient."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus import data_parallel
from trainfare.estimator.parallel.ring import GpuPlacement, RingFit

PLACEMENTS = ("1", "2", "4", "11", "22", "44", "1111", "2222", "4444")
BATCHES = (32, 64, 128)


def write_program(folder: Path, name: str, gradient_seconds: float) -> None:
    ring = RingFit(
        on_one_gpu=((32.0, 0.05), (64.0, 0.1), (128.0, 0.2)),
        gamma=1.5,
        crowding=0.01,
        inside_seconds=gradient_seconds / 4,
        between_seconds=gradient_seconds,
        crossing_seconds=gradient_seconds,
        straggling=0.02,
    )
    lines = ["placement,local_bsz,step_time,sync_time"]
    for placement in PLACEMENTS:
        where = GpuPlacement(nodes=len(placement), gpus=sum(map(int, placement)))
        lines += [f"{placement},{batch},{ring.seconds(where, batch):.6f},0" for batch in BATCHES]
    path = folder / "data_parallel_t4" / name / "placements.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def fit(tmp_path: Path) -> Path:
    for name, gradient_seconds in {"a": 0.02, "b": 0.05, "c": 0.1}.items():
        write_program(tmp_path / "fit", name, gradient_seconds)
    return tmp_path / "fit"


def error(judged: Judged) -> float:
    return float(100 * np.mean(np.abs(judged.ours / judged.truth - 1)))


def test_every_program_is_predicted_once_and_accurately(fit: Path) -> None:
    by_key = {judged.key: judged for judged in data_parallel.judge(fit, None)}
    more = by_key["more_gpus/data_parallel_t4"]
    assert len(more.truth) == 3 * len(BATCHES) * 3, "44, 2222 and 4444 have more than four GPUs"
    assert error(more) < 5
    assert set(more.baselines) == {"linear scaling", "linear from the largest", "Sanghvi", "end-to-end regression"}
    assert len(by_key["more_gpus/data_parallel_t4/from_one"].truth) == 3 * len(BATCHES) * (len(PLACEMENTS) - 1)
    assert len(by_key["more_gpus/data_parallel_t4/one_node"].truth) == 3 * len(BATCHES) * 6


def test_test_folder_is_predicted_and_the_fit_folder_fitted(fit: Path, tmp_path: Path) -> None:
    write_program(tmp_path / "test", "d", 0.07)
    (more, *_) = data_parallel.judge(fit, tmp_path / "test")
    assert len(more.truth) == len(BATCHES) * 3
    assert error(more) < 5


def test_folder_without_the_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(data_parallel.judge(tmp_path, None))

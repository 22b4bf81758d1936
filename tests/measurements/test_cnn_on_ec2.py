import csv
import gzip
from pathlib import Path

import pytest

from trainfare.measurements.cnn_on_ec2 import Setting, family_of, gpu_of, read_latencies, read_profiles, read_repeats

REAL = Path(__file__).parents[2].parent / "shared" / "measurements"


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    path = folder / "cnn_on_ec2" / name
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def run(
    *, seconds: float = 0.1, conv: float = 0.15, idle: float = 0.05, matmul: float = 0.0, elsewhere: float = 0.02
) -> dict[str, object]:
    return {
        "Device_Conv2D": conv * 1e6,
        "Device_MatMul": matmul * 1e6,
        "Device_IDLE": idle * 1e6,
        "Host_Dataset": 4000.0,
        "Host_IDLE": 9e6,
        "exp_name": "exp01",
        "instance_name": "p2.xlarge",
        "dataset": "64dataset",
        "model": "VGG11",
        "optimizer": "SGD",
        "batchsize": 32,
        "batch_latency": seconds,
        "p3.2xlarge": elsewhere,
    }


def test_operator_times_are_those_of_one_of_two_steps(tmp_path: Path) -> None:
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", [run(conv=0.15, idle=0.05)])
    (profile,) = read_profiles(tmp_path)
    assert profile.device_seconds == pytest.approx({"Conv2D": 0.075})
    assert profile.host_seconds == pytest.approx({"Dataset": 0.002})
    assert (profile.family, profile.gpu, profile.image_side, profile.batch_size) == ("VGG", "K80", 64, 32)


def test_truncated_profile_counts_the_steps_it_covers(tmp_path: Path) -> None:
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", [run(conv=0.12, idle=0.03)])
    (profile,) = read_profiles(tmp_path)
    assert profile.device_seconds == pytest.approx({"Conv2D": 0.08})


def test_gaps_of_the_profiler_are_no_third_step(tmp_path: Path) -> None:
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", [run(conv=0.1, idle=0.9)])
    (profile,) = read_profiles(tmp_path)
    assert profile.device_seconds == pytest.approx({"Conv2D": 0.05})


def test_profile_is_the_median_of_its_repeats(tmp_path: Path) -> None:
    runs = [run(seconds=seconds, conv=2 * seconds, idle=0.0) for seconds in (0.1, 0.11, 0.9)]
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", runs)
    repeats = read_repeats(tmp_path)[Setting("VGG11", 64, 32.0, "p2.xlarge")]
    assert [p.seconds for p in repeats] == [0.1, 0.11, 0.9]
    assert [p.seconds for p in read_profiles(tmp_path)] == [0.11]


def test_operator_that_never_ran_is_absent(tmp_path: Path) -> None:
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", [run(matmul=0.0)])
    assert "MatMul" not in read_profiles(tmp_path)[0].device_seconds


def test_latencies_come_from_their_table_or_from_the_operator_tables(tmp_path: Path) -> None:
    there = Setting("VGG11", 64, 32.0, "p3.2xlarge")
    write(tmp_path, "operations_on_p2.xlarge.csv.gz", [run(elsewhere=0.02)])
    assert read_latencies(tmp_path) == {there: 0.02, there._replace(vm_type="p2.xlarge"): 0.1}
    row = {"instance_name": "p3.2xlarge", "dataset": "64dataset", "model": "VGG11", "batchsize": 32}
    write(tmp_path, "latency.csv.gz", [{**row, "batch_latency": 0.03}, {**row, "batch_latency": ""}])
    assert read_latencies(tmp_path) == {there: 0.03}


def test_missing_table_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="operations_on_"):
        read_profiles(tmp_path)


@pytest.mark.parametrize(
    ("program", "family"), [("VGG16", "VGG"), ("InceptionResNetV2", "Inception"), ("LeNet5", "LeNet5")]
)
def test_similar_programs_are_one_family(program: str, family: str) -> None:
    assert family_of(program) == family


def test_machine_type_with_an_unknown_gpu_keeps_its_own_name() -> None:
    assert (gpu_of("g4dn.2xlarge"), gpu_of("x9.huge")) == ("T4", "x9.huge")


@pytest.mark.skipif(not (REAL / "cnn_on_ec2").is_dir(), reason="the public measurements are not next to the checkout")
def test_device_time_hardly_exceeds_the_step_except_on_a_k80() -> None:
    profiles = read_profiles(REAL)
    assert len(profiles) >= 800
    for profile in profiles:
        busy = sum(profile.device_seconds.values()) / profile.seconds
        assert 0.1 < busy < (1.45 if profile.gpu == "K80" else 1.08)

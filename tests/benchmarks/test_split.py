"""A folder split in two: complete programs, no lost or duplicated rows, and reproducible."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.accuracy.split import TABLES, held_out, layer, rows_of, split

BY_MODEL = ("cnn_on_ec2", "vision_models_rtx3090", "seven_models_k80_p100_v100")
MODELS = ("alpha", "beta, wide", "gamma", "delta")
Rows = Sequence[Mapping[str, object]]


def write_table(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small table of each kind."""
    folder = tmp_path / "data"
    write_table(folder / "cnn_on_ec2/latency.csv.gz", [{"model": m, "batchsize": b} for m in MODELS for b in (16, 32)])
    write_table(folder / "cnn_on_ec2/operations_on_p3.2xlarge.csv.gz", [{"model": m, "us": 1} for m in MODELS])
    write_table(folder / "vision_models_rtx3090/train_amp_nchw.csv", [{"model": m, "step": 1.5} for m in MODELS])
    with gzip.open(folder / "vision_models_rtx3090/operations.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"model": m, "flops": [[1, 2.5]]}) + "\n" for m in MODELS)
    systems = ("RTX 3090", "LambdaCloud A10", "Dell H100 80GB SXM5", "SMC H100 80GB SXM5", "V100 16GB")
    write_table(folder / "rented_gpus/throughput.csv", [{"system": s, "throughput": 9} for s in systems])
    write_table(folder / "epochs_to_target/reference_points.csv", [{"bench": "only", "bs": 64}])
    shapes = [{"batchsize": b, "dim_input": 7, "gpu": 0} for b in range(1, 200)]
    for gpu in ("V100", "k80"):
        write_table(
            folder / f"single_layers_six_gpus/dense_{gpu}.csv.gz", [{**s, "timeUsed_median": gpu} for s in shapes]
        )
    write_table(folder / "seven_models_k80_p100_v100/throughput.csv", [{"model": m, "gpus": 1} for m in MODELS])
    (folder / "seven_models_k80_p100_v100/job_traces").mkdir()
    (folder / "seven_models_k80_p100_v100/job_traces/small.trace").write_text("a job\n")
    for program in MODELS:
        write_table(folder / f"data_parallel_t4/{program}/placements.csv", [{"placement": 1}])
    write_table(folder / "prices/daily.csv", [{"usd": 1}])
    return folder


def lines_in(folder: Path) -> dict[str, Counter[str]]:
    """Every line of every table, by its file, including files in linked folders."""
    tables = (path for deep in ("*/*", "*/*/*") for path in folder.glob(deep) if path.name.endswith(TABLES))
    return {str(path.relative_to(folder)): Counter(map(json.dumps, rows_of(path))) for path in tables}


def test_every_row_is_in_exactly_one_part(data: Path, tmp_path: Path) -> None:
    split(data, tmp_path / "out", seed=1, share=0.3)
    fit, test, original = lines_in(tmp_path / "out/fit"), lines_in(tmp_path / "out/test"), lines_in(data)
    for file, rows in original.items():
        if not file.startswith("prices"):
            assert fit.get(file, Counter()) + test.get(file, Counter()) == rows, file


def test_program_is_in_one_part_in_all_files_of_its_table(data: Path, tmp_path: Path) -> None:
    chosen = split(data, tmp_path / "out", seed=1, share=0.3)
    for part in ("fit", "test"):
        for path in sorted((tmp_path / "out" / part).glob("*/*")):
            if path.parent.name in BY_MODEL and path.is_file():
                of_test = chosen[path.parent.name]
                assert {row["model"] in of_test for row in rows_of(path)} == {part == "test"}, path


def test_systems_with_the_same_gpu_stay_together(data: Path, tmp_path: Path) -> None:
    for seed in range(8):
        out = tmp_path / str(seed)
        split(data, out, seed=seed, share=0.5)
        sides = [
            part
            for part in ("fit", "test")
            for row in rows_of(out / part / "rented_gpus/throughput.csv")
            if "H100" in row["system"]
        ]
        assert len(sides) == 2
        assert len(set(sides)) == 1


def test_layer_is_in_one_part_on_every_gpu(data: Path, tmp_path: Path) -> None:
    split(data, tmp_path / "out", seed=1, share=0.3)
    folders = [tmp_path / "out" / part / "single_layers_six_gpus" for part in ("fit", "test")]
    of_fit, of_test = ({layer(row) for path in folder.iterdir() for row in rows_of(path)} for folder in folders)
    assert not of_fit & of_test
    assert 0.2 < len(of_test) / 199 < 0.4


def test_same_seed_writes_the_same_bytes_and_another_splits_differently(data: Path, tmp_path: Path) -> None:
    names = {}
    for name, seed in (("one", 1), ("again", 1), ("two", 2), ("three", 3)):
        names[name] = split(data, tmp_path / name, seed=seed, share=0.3)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").glob("*/*/*") if path.is_file())
    assert files
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "again" / f).read_bytes() for f in files)
    assert len({json.dumps({k: sorted(v) for k, v in of.items()}) for of in names.values()}) > 1


def test_tables_without_programs_are_linked_into_both_parts(data: Path, tmp_path: Path) -> None:
    split(data, tmp_path / "out", seed=1, share=0.3)
    for part in ("fit", "test"):
        assert (tmp_path / "out" / part / "prices/daily.csv").read_text() == (data / "prices/daily.csv").read_text()
        trace = tmp_path / "out" / part / "seven_models_k80_p100_v100/job_traces/small.trace"
        assert trace.read_text() == "a job\n"


def test_table_of_one_program_is_fitted_and_not_tested(data: Path, tmp_path: Path) -> None:
    assert split(data, tmp_path / "out", seed=1, share=0.3)["epochs_to_target"] == set()
    assert (tmp_path / "out/fit/epochs_to_target/reference_points.csv").is_file()
    assert not (tmp_path / "out/test/epochs_to_target").exists()


@pytest.mark.parametrize(("count", "share", "chosen"), [(10, 0.3, 3), (4, 0.3, 1), (2, 0.9, 1), (3, 0.01, 1)])
def test_at_least_one_program_is_tested_and_never_all(count: int, share: float, chosen: int) -> None:
    assert len(held_out([f"program {i}" for i in range(count)], seed=0, share=share)) == chosen

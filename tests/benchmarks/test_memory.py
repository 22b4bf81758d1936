"""The memory benchmark: rows of a table become profiles, and coefficients are found again."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.memory import PRIORS, fit, read_runs, shown_gib, tensors_gib

AT_PRIOR = {name: value for name, (value, _) in PRIORS.items()}
ROW = {
    "row_id": "made:0", "file": "made", "layers": "32", "hidden": "4096", "heads": "32", "ffn": "14336", "glu": "1",
    "vocab": "32000", "tied_emb": "0", "seq_len": "4096", "params_b": "7.2415", "arch_type": "dense", "n_gpus": "1",
    "framework": "HF Trainer", "precision": "bfloat16 pure", "method": "full", "micro_batch": "4", "grad_accum": "1",
    "act_ckpt": "full", "sharding": "none", "zero_stage": "0", "dp": "1", "tp": "1", "pp": "1", "optimizer": "AdamW",
    "flags": "none", "status": "ok", "peak_mem_gib": "67.46", "mem_kind": "torch max_memory_allocated",
    "gpu_mem_gb": "80", "notes": "",
}  # fmt: skip


def read(tmp_path: Path, *rows: dict[str, str]) -> list:  # type: ignore[type-arg] # the rows are a noun of the benchmark's own
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerows(rows)
    return read_runs(path)


def test_a_step_of_adam_in_bfloat16_needs_ten_bytes_a_parameter(tmp_path: Path) -> None:
    """The published peak of a 7 B model on one GPU, and half of it on each of two."""
    (run,) = read(tmp_path, ROW)
    assert tensors_gib(run, AT_PRIOR) == pytest.approx(67.46, rel=0.001)


def test_rows_without_a_configuration_or_with_parts_on_the_host_are_left_out(tmp_path: Path) -> None:
    rows = [ROW | {"layers": ""}, ROW | {"flags": "CPU offload"}, ROW | {"peak_mem_gib": ""}]
    assert read(tmp_path, *rows) == []
    (failed,) = read(tmp_path, ROW | {"peak_mem_gib": "", "status": "oom"})
    assert failed.peak_gib is None


def test_four_bit_adapters_need_less_than_adapters_and_those_less_than_full_training(tmp_path: Path) -> None:
    runs = read(tmp_path, ROW, ROW | {"method": "lora"}, ROW | {"method": "qlora"})
    full, lora, four_bit = (tensors_gib(run, AT_PRIOR) for run in runs)
    assert four_bit < lora < full
    assert lora > 2 * 7.2415e9 / 2**30


def test_fit_moves_towards_what_was_measured(tmp_path: Path) -> None:
    """The driver shows 6% more than the prior says."""
    (run,) = read(tmp_path, ROW | {"mem_kind": "nvidia-smi"})
    measured = replace(run, peak_gib=1.06 * shown_gib(run, AT_PRIOR))
    found = fit([measured] * 3)
    assert found["driver"] > AT_PRIOR["driver"]
    assert shown_gib(run, AT_PRIOR) < shown_gib(run, found) <= (measured.peak_gib or 0.0)
    assert shown_gib(run, found) == pytest.approx(measured.peak_gib, rel=0.03)

"""The step time of published trainings of language models on one GPU: `llm_training`, from traced configurations.

No row of the table is in any fit: the model is that of vision programs, extrapolated to transformers. Rows are used
whose configuration our trace reproduces: one GPU, a stated sequence length, the framework's own kernels (no compiled
or replaced ones), full training or adapters on weights of 16 or 32 bits. `adapters` and `full` are judged apart.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.accuracy.judged import Judged
from benchmarks.traced.language_models import Dtype, LanguageModel, trace
from trainfare.catalog.calibrations import shipped_calibration
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.document import from_json
from trainfare.estimator.gpu.physics import step_seconds

KEY = "language_models/llm_training"
GPUS = {"A100-80GB": "A100-80GB", "A100-40GB": "A100", "V100-32GB": "V100-32GB"}
PLAIN_FLAGS = ("", "none", "eager", "packed", "LoRA", "Full-parameter")
"""Flags of rows that use the framework's own kernels."""
DTYPES: Mapping[str, Dtype] = {
    "TF32": "float32",
    "FP32": "float32",
    "fp16 amp": "float16",
    "bfloat16 pure": "bfloat16",
    "bf16-true": "bfloat16",
    "bf16 pure": "bfloat16",
    "bf16": "bfloat16",
}
SHARE_OF_PEAK = 0.4
"""The naive baseline: 6 · parameters · tokens at this share of the peak."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    rows = list(read_rows(test or fit))
    calibration = from_json(shipped_calibration())
    for part, method in (("full", ("full", "pretrain")), ("adapters", ("lora",))):
        yield _judged(f"{KEY}/{part}", [row for row in rows if row["method"] in method], calibration)


def read_rows(folder: Path) -> Iterator[Mapping[str, str]]:
    """The rows of the table that our trace can reproduce."""
    with (folder / "llm_training" / "runs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            usable = row["n_gpus"] in ("1", "1.0") and row["status"] == "ok" and row["step_s"] and row["seq_len"]
            known = row["gpu"] in GPUS and row["precision"] in DTYPES and row["flags"] in PLAIN_FLAGS
            if usable and known and row["method"] in ("full", "pretrain", "lora"):
                yield row


def configuration(row: Mapping[str, str]) -> LanguageModel:
    """The traced model of a row."""
    rank = None
    if row["method"] == "lora":
        rank = int(float(row["lora_rank"] or 16))
    return LanguageModel(
        encoder=row["arch_type"] == "encoder",
        gated=row["glu"] == "1",
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        heads=int(row["heads"]),
        kv_heads=int(row["kv_heads"]),
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        tied=row["tied_emb"] == "1",
        sequence=int(row["seq_len"]),
        micro_batch=int(row["micro_batch"]),
        accumulation=int(float(row["grad_accum"] or 1)),
        dtype=DTYPES[row["precision"]],
        tf32=row["precision"] == "TF32",
        adapter_rank=rank,
        recomputed=row["act_ckpt"].startswith("full"),
    )


_trace = cache(trace)


def _judged(key: str, rows: Sequence[Mapping[str, str]], calibration: Calibration) -> Judged:
    gpus = load_gpus()
    truth, ours, factors, naive = [], [], [], []
    for row in rows:
        gpu = gpus[GPUS[row["gpu"]]]
        (step,) = step_seconds(_trace(configuration(row)), [gpu], calibration.physics)
        truth.append(float(row["step_s"]))
        ours.append(step.seconds)
        factors.append(calibration.extrapolated_factor(step, gpu.name))
        naive.append(_share_of_peak_seconds(row))
    low, high = np.array(ours) / factors, np.array(ours) * factors
    return Judged.of(key, truth, ours, low, high, baselines={"40% of peak": naive}, note="no row is in a fit")


def _share_of_peak_seconds(row: Mapping[str, str]) -> float:
    tokens = float(row["seq_len"]) * float(row["micro_batch"]) * float(row["grad_accum"] or 1)
    passes = 4 if row["act_ckpt"].startswith("full") else 3
    passes -= row["method"] == "lora"
    flops = 2 * passes * 1e9 * float(row["params_b"]) * tokens
    return flops / (SHARE_OF_PEAK * 1e12 * float(row["peak16_tflops"]))

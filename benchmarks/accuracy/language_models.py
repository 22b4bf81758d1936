"""The step time of published trainings of language models on one GPU, from traced configurations.

No row is in any fit: the model is that of vision programs, extrapolated to transformers. Of `llm_training`, rows are
used whose configuration our trace reproduces: one GPU, a stated sequence length, the framework's own kernels (no
compiled or replaced ones), full training or adapters on weights of 16 or 32 bits. Of `rented_gpus`, BERT base on SQuAD.

A trace reproduces the program that was measured. BERT of NVIDIA's DeepLearningExamples, which both tables have, runs
attention operator by operator and has logits for masked tokens only. Two kinds of rows are of a program that we do not
trace, and are judged on lines of their own:

binned     phase 2 of BERT's pretraining has sequences of up to 512 tokens, sorted into bins of 64 by their length; with
           512 tokens each, a V100 would exceed its peak of float32. The lengths are not published.
deepspeed  Qwen's script that trains all weights runs DeepSpeed with ZeRO (stage 2 or 3, by its version) even on one
           GPU; a pass takes the same time with 256 tokens as with 2048
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.accuracy.judged import Judged
from benchmarks.traced.language_models import Dtype, Head, LanguageModel, trace
from trainfare.catalog.calibrations import shipped_calibration
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.calibration.document import from_json
from trainfare.estimator.gpu.physics import on_other_hosts, step_seconds
from trainfare.measurements.rented_gpus import rented_gpus
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

KEY = "language_models/llm_training"
OTHER_KEY = "untraced_programs/llm_training"
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
NVIDIA_BERT = "NVIDIA DLE PyTorch BERT"
PARTS = {
    "full": (KEY, "no row is in a fit"),
    "adapters": (KEY, "no row is in a fit"),
    "binned": (OTHER_KEY, "BERT, phase 2: traced with 512 tokens a sequence, measured with 512 at most"),
    "deepspeed": (OTHER_KEY, "Qwen 1.8B, all weights: traced without DeepSpeed's ZeRO, measured with it"),
}
"""The lines of the table: their keys and notes."""
BERT_NOTE = "no row is in the fit of operations; the limit of bandwidth was chosen with the rows in TF32 in view"
BERT_BASE_WEIGHTS = 85e6
"""Without embeddings."""
SQUAD_TOKENS = 384
SHARE_OF_PEAK = 0.4
"""The naive baseline: 6 · parameters · tokens at this share of the peak."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    folder, calibration = test or fit, from_json(shipped_calibration())
    for part, (key, note) in PARTS.items():
        yield _judged(f"{key}/{part}", _published_rows(folder, part), calibration, note)
    yield _judged("language_models/rented_gpus/bert", _bert_rows(folder), calibration, BERT_NOTE)


def part_of(row: Mapping[str, str]) -> str:
    """The line of the table on which a row is judged."""
    if row["method"] == "lora":
        return "adapters"
    if row["framework"] == NVIDIA_BERT and row["seq_len"] == "512":
        return "binned"
    return "deepspeed" if "DeepSpeed" in row["framework"] else "full"


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
    own_attention = row["framework"] == NVIDIA_BERT
    head: Head = "all tokens"
    if own_attention:
        head = "masked tokens" if row["method"] == "pretrain" else "answer"
    return LanguageModel(
        fused_attention=not own_attention,
        head=head,
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


@dataclass(frozen=True, slots=True)
class Row:
    """A traced program on a GPU, with its measured seconds of a step and those of the baseline."""

    config: LanguageModel
    gpu: Gpu
    seconds: float
    naive_seconds: float


_trace = cache(trace)


def bert_base(measured: MeasuredIteration) -> LanguageModel:
    """BERT base on SQuAD, as `rented_gpus` has it: Apex keeps all weights in half precision for `fp16`."""
    return LanguageModel(
        encoder=True,
        gated=False,
        layers=12,
        hidden=768,
        heads=12,
        kv_heads=12,
        ffn=3072,
        vocab=30522,
        tied=True,
        sequence=SQUAD_TOKENS,
        micro_batch=int(measured.batch_size),
        dtype="float16" if measured.dtype == "float16" else "float32",
        tf32=measured.dtype == "tf32",
        fused_attention=False,
        head="answer",
    )


def _bert_rows(folder: Path) -> Iterator[Row]:
    gpus = load_gpus()
    for measured in rented_gpus(folder):
        if measured.program == "bert_base_squad" and measured.gpu in gpus:
            gpu, config = gpus[measured.gpu], bert_base(measured)
            flops = 6 * BERT_BASE_WEIGHTS * config.sequence * config.micro_batch
            naive = flops / (SHARE_OF_PEAK * gpu.peak_flops_per_second(measured.dtype))
            yield Row(config, gpu, measured.seconds, naive)


def _published_rows(folder: Path, part: str) -> Iterator[Row]:
    gpus = load_gpus()
    for row in read_rows(folder):
        if part_of(row) == part:
            yield Row(configuration(row), gpus[GPUS[row["gpu"]]], float(row["step_s"]), _share_of_peak_seconds(row))


def _judged(key: str, rows: Iterable[Row], calibration: Calibration, note: str) -> Judged:
    rows, physics = list(rows), on_other_hosts(calibration.physics)
    steps = [step_seconds(_trace(row.config), [row.gpu], physics)[0] for row in rows]
    ours = np.array([step.seconds for step in steps])
    factors = [calibration.extrapolated_factor(step, row.gpu.name) for step, row in zip(steps, rows, strict=True)]
    naive = {"40% of peak": [row.naive_seconds for row in rows]}
    truth = [row.seconds for row in rows]
    return Judged.of(key, truth, ours.tolist(), ours / factors, ours * factors, baselines=naive, note=note)


def _share_of_peak_seconds(row: Mapping[str, str]) -> float:
    tokens = float(row["seq_len"]) * float(row["micro_batch"]) * float(row["grad_accum"] or 1)
    passes = 4 if row["act_ckpt"].startswith("full") else 3
    passes -= row["method"] == "lora"
    flops = 2 * passes * 1e9 * float(row["params_b"]) * tokens
    return flops / (SHARE_OF_PEAK * 1e12 * float(row["peak16_tflops"]))

"""Judges the memory formulas of `estimator/memory.py` on published trainings of language models.

    python -m benchmarks.memory --data DIR [--rows]        DIR/llm_training/runs.csv

A row knows a configuration, not a program: its weights, gradients, optimizer state and activations are computed from
the architecture, by the coefficients below, and handed as a profile to `memory_need`, which every estimate uses. The
coefficients are fitted with tight priors to the other files, each file weighing the same, and judged on the file that
was left out. Rows that failed for memory must be "does not fit". `--rows` prints the worst rows.
"""

import argparse
import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from trainfare.estimator.memory import memory_need
from trainfare.model.machine import Host
from trainfare.model.profile import MemoryMoment, Operation, Profile
from trainfare.model.program import Program

Array = NDArray[np.float64]

PRIORS: Final = {
    "width": (17.0, 0.15),
    "feedforward": (2.4, 0.15),
    "adapters": (0.83, 0.1),
    "compiled": (0.80, 0.1),
    "logits": (12.0, 0.15),
    "chunked": (0.15, 0.3),
    "fused_loss": (0.67, 0.1),
    "float32_loss": (1.4, 0.1),
    "backward": (1.5, 0.15),
    "late": (2.0, 0.1),
    "four_bit": (0.55, 0.1),
    "megatron_gradients": (2.2, 0.1),
    "megatron_state": (18.0, 0.2),
    "deepspeed_weights": (4.0, 0.1),
    "deepspeed_state": (16.0, 0.1),
    "reserved": (1.1, 0.05),
    "driver": (1.1, 0.03),
    "driver_gib": (2.0, 0.15),
    "scores": (8.0, 0.2),
}
"""Value and the width of the prior in logarithms.

width, feedforward   bytes that a layer keeps for each token, per hidden unit and per unit of each feed-forward matrix
adapters, compiled   factors on them where only adapters are trained, and where kernels are fused
logits, chunked      bytes for each logit, and the share of them where the loss is computed in chunks
fused_loss, float32_loss   factors on them with a fused loss, and where they are converted to float32 first
backward             what the layer needs that is recomputed, over what it would keep
late                 inputs of checkpointed layers that FSDP holds in the backward pass, over those of the forward pass
four_bit             bytes of a weight in 4 bits, with its scales
megatron, deepspeed  bytes of a parameter: on every GPU, and as state that the stage of ZeRO divides
reserved, driver     what the allocator reserves and what the driver shows, over what tensors need
scores               bytes of an attention score, where attention is not fused
"""

LONGEST_SAMPLE: Final = 1200
"""Tokens of the longest sample of the rows that name a range (1034 to 1304) instead of a length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One training: its configuration, and its peak memory on one GPU or that it failed for memory."""

    id: str
    file: str
    parameters: float
    layers: int
    hidden: int
    feedforward: float
    """Units of all feed-forward matrices of a layer."""
    vocabulary: int
    tokens: int
    """Of one forward pass on one GPU."""
    adapters: bool
    four_bit: bool
    checkpointed: float
    """Share of the layers that keep their input alone."""
    zero_stage: int
    data_parallel: int
    tensor_parallel: int
    pipeline: int
    stack: str
    float32: bool
    optimizer_bytes: float
    """Of one trained parameter, where the stack does not decide it."""
    foreach: bool
    compiled: bool
    chunked: bool
    mixture: bool
    fsdp: bool
    """FSDP under the Trainer of Hugging Face."""
    accumulates: bool
    """Gradients of earlier passes are there in the forward pass."""
    fused_loss: bool
    loss_in_float32: bool
    scores: float
    """Attention scores of a layer for each token, where attention is not fused."""
    embeddings: int
    """Tables of the vocabulary: 1 if input and output share theirs, else 2."""
    trains_embeddings: bool
    kind: str
    """What was measured: `allocated`, `reserved` or `driver`."""
    gpu_gib: float | None
    peak_gib: float | None
    """None where it failed for memory."""


def read_runs(path: Path) -> list[PublishedRun]:
    with path.open(newline="") as file:
        return [run for row in csv.DictReader(file) if (run := _run(row)) is not None]


def _run(row: Mapping[str, str]) -> PublishedRun | None:
    """The run of a row; None without memory or a complete configuration, and where parts are kept off the GPU."""
    failed = row["status"] != "ok"
    length = row["seq_len"] or (str(LONGEST_SAMPLE) if "max sample" in row["notes"] else "")
    needed = (row["layers"], row["hidden"], row["ffn"], row["vocab"], length, row["micro_batch"], row["params_b"])
    flags, framework, method = row["flags"].lower(), row["framework"], row["method"]
    if not (failed or row["peak_mem_gib"]) or not all(needed) or "offload" in flags or "unpacked" in flags:
        return None
    gpus = int(row["n_gpus"])
    dp = int(row["dp"] or gpus)
    stack = "deepspeed" if "DeepSpeed" in framework and "Megatron" not in framework else "plain"
    stack = "megatron" if "Megatron" in framework or framework == "InternEvo" else stack
    stage = int(row["zero_stage"] or 0)
    adapters = method not in ("full", "pretrain")
    peak = None if failed else float(row["peak_mem_gib"])
    return PublishedRun(
        id=row["row_id"],
        file=row["file"],
        parameters=float(row["params_b"]) * 1e9,
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        feedforward=float(row["ffn"]) * (3 if row["glu"] == "1" else 2),
        vocabulary=int(row["vocab"]),
        tokens=int(length) * int(row["micro_batch"]),
        adapters=adapters,
        four_bit=method.startswith("q"),
        checkpointed=_checkpointed(row["act_ckpt"]),
        zero_stage=stage,
        data_parallel=dp,
        tensor_parallel=int(row["tp"] or 1),
        pipeline=int(row["pp"] or 1),
        stack=stack,
        float32=not adapters and stage == 3 and ("amp" in row["precision"] or "FSDP2" in row["sharding"]),
        optimizer_bytes=2.0 if "8bit" in row["optimizer"] or "8-bit" in row["optimizer"] else 0.0,
        foreach="fused" not in row["optimizer"] and "opt_in_bwd" not in flags,
        compiled=bool(re.search("(?<!no)compile|nvfuser", flags)),
        chunked="chunked" in flags or "liger" in flags,
        fsdp="FSDP" in row["sharding"] and framework.startswith("HF"),
        accumulates=stack == "megatron" or int(row["grad_accum"] or 1) > 1,
        fused_loss="foak" in flags or "fast-kernels" in flags,
        loss_in_float32="baseline" in flags,
        scores=float(row["heads"] or 0) * int(length) if "Megatron" in framework else 0.0,
        embeddings=1 if row["tied_emb"] == "1" else 2,
        trains_embeddings="(emb)" in flags,
        mixture=row["arch_type"] != "dense",
        kind="allocated" if row["mem_kind"] == "GB as printed" else _kind(row["mem_kind"]),
        gpu_gib=float(row["gpu_mem_gb"]) if row["gpu_mem_gb"] else None,
        peak_gib=peak,
    )


def _checkpointed(text: str) -> float:
    if text.startswith("full"):
        return 1.0
    return 0.5 if text.startswith("selective") else 0.0


def _kind(text: str) -> str:
    if "reserved" in text:
        return "reserved"
    return "allocated" if re.search("allocated|active|torchtitan", text) else "driver"


def profile_of(run: PublishedRun, c: Mapping[str, float]) -> Profile:
    """The profile that a program with this configuration would have."""
    embedding = run.vocabulary * run.hidden
    share = run.tensor_parallel * run.pipeline
    held = max(0.0, run.parameters - embedding) / share + embedding / run.tensor_parallel
    if run.adapters:
        tables = run.embeddings * embedding
        trained, weights = 0.004 * held + (tables if run.trains_embeddings else 0), 2.0 * held
        if run.four_bit:
            weights = c["four_bit"] * max(0.0, held - tables) + 2.0 * tables
        weights += 2 * trained
        gradients, state = 4 * trained, 8 * trained
    else:
        trained = held
        weights, gradients, state = _full_bytes(run, held, c)
    layer = c["width"] * run.hidden + c["feedforward"] * run.feedforward + c["scores"] * run.scores
    layer *= (c["adapters"] if run.adapters else 1.0) * (c["compiled"] if run.compiled else 1.0)
    layer = run.tokens * layer / run.tensor_parallel
    whole_layers = (1 - run.checkpointed) * run.layers * layer
    kept = whole_layers + run.checkpointed * run.layers * 2.0 * run.hidden * run.tokens
    logits = c["logits"] * run.tokens * run.vocabulary / run.tensor_parallel * (c["chunked"] if run.chunked else 1.0)
    logits *= c["fused_loss"] if run.fused_loss else c["float32_loss"] if run.loss_in_float32 else 1.0
    late = kept * (c["late"] if run.fsdp and run.checkpointed else 1.0)
    recomputed = c["backward"] * layer if run.checkpointed else 0.0
    early = int(gradients) if run.accumulates else 0
    size = 4.0 if run.float32 else 2.0
    units = np.array([size * run.embeddings * embedding, weights / max(1, run.layers)])
    moved = (1 + 1 / max(1, run.data_parallel)) * units
    return Profile(
        id=run.id,
        program=Program(command=("train",), directory="/"),
        host=Host(name="published"),
        measured_at=datetime(2024, 1, 1, tzinfo=UTC),
        origin="csv",
        framework="pytorch",
        micro_batch_size=1,
        world_size=max(1, run.data_parallel),
        parameters=max(1, int(trained)),
        frozen_parameters=int(run.parameters - trained) if run.adapters else 0,
        weight_bytes=int(weights),
        gradient_bytes=int(gradients),
        optimizer_bytes=int(state),
        optimizer_foreach=run.foreach and run.stack == "plain" and state >= 1.5 * gradients,
        zero_stage=run.zero_stage,
        activation_bytes=int(kept),
        memory_moments=(
            MemoryMoment(fixed_bytes=early, growing_bytes=int(kept + logits)),
            MemoryMoment(fixed_bytes=early, growing_bytes=int(late + recomputed)),
            MemoryMoment(fixed_bytes=int(gradients), growing_bytes=int(c["backward"] * layer)),
        ),
        operations=tuple(
            Operation(kind="communication", dtype="bfloat16", flops=0.0, bytes=size) for size in moved.tolist()
        ),
    )


def _full_bytes(run: PublishedRun, held: float, c: Mapping[str, float]) -> tuple[float, float, float]:
    """Bytes of weights, gradients and optimizer state where all parameters are trained."""
    if run.stack == "megatron":
        return 2.0 * held, c["megatron_gradients"] * held, c["megatron_state"] * held
    if run.stack == "deepspeed":
        return c["deepspeed_weights"] / 2 * held, c["deepspeed_weights"] / 2 * held, c["deepspeed_state"] * held
    size = 4.0 if run.float32 else 2.0
    return size * held, size * held, (run.optimizer_bytes or 2 * size) * held


def tensors_gib(run: PublishedRun, c: Mapping[str, float]) -> float:
    need = memory_need(profile_of(run, c), gpus=max(1, run.data_parallel))
    if need is None:
        raise ValueError(f"{run.id} has no activations")
    return need.tensors_gib


def shown_gib(run: PublishedRun, c: Mapping[str, float]) -> float:
    """The peak, as the source measured it."""
    tensors = tensors_gib(run, c)
    if run.kind == "driver":
        return c["driver"] * tensors + c["driver_gib"]
    return c["reserved"] * tensors if run.kind == "reserved" else tensors


def fit(runs: Sequence[PublishedRun]) -> dict[str, float]:
    """The coefficients with the least errors in logarithms, each file weighing the same, pulled to their priors."""
    names = list(PRIORS)
    start = np.log([PRIORS[name][0] for name in names])
    widths = np.array([PRIORS[name][1] for name in names])
    files: dict[str, int] = defaultdict(int)
    for run in runs:
        files[run.file] += 1
    weights = np.array([math.sqrt(20 / files[run.file]) for run in runs])
    truth = np.log([run.peak_gib or 1.0 for run in runs])

    def residuals(logs: Array) -> Array:
        c = dict(zip(names, np.exp(logs).tolist(), strict=True))
        errors = (np.log([shown_gib(run, c) for run in runs]) - truth) / 0.15
        return np.concatenate([weights * errors, (logs - start) / widths])

    found = least_squares(residuals, start, loss="soft_l1", diff_step=1e-3, max_nfev=8, ftol=1e-3)
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", action="store_true", help="print the worst rows")
    options = parser.parse_args()
    runs = read_runs(options.data / "llm_training" / "runs.csv")
    ok = [run for run in runs if run.peak_gib is not None and not run.mixture]
    predicted: dict[str, float] = {}
    fits: dict[str, dict[str, float]] = {}
    for file in sorted({run.file for run in runs}):
        fits[file] = fit([run for run in ok if run.file != file])
        predicted |= {run.id: shown_gib(run, fits[file]) for run in runs if run.file == file}
    for lines in (_errors(ok, predicted), _failures(runs, fits), _coefficients(fit(ok))):
        print("\n".join(lines), end="\n\n")
    if options.rows:
        worst = sorted(ok, key=lambda run: -abs(math.log(predicted[run.id] / (run.peak_gib or 1))))
        for run in worst[:60]:
            print(f"{run.id:40} measured {run.peak_gib:6.1f}  predicted {predicted[run.id]:6.1f}  {run.kind}")


def _errors(runs: Iterable[PublishedRun], predicted: Mapping[str, float]) -> Iterable[str]:
    """Mean absolute errors in percent, with the file left out."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        error = 100 * (predicted[run.id] / (run.peak_gib or 1.0) - 1)
        groups["adapters" if run.adapters else "full", run.file].append(error)
    yield "| what is trained | file left out | rows | mean error | bias |"
    yield "| --- | --- | --- | --- | --- |"
    for (method, file), errors in sorted(groups.items()):
        yield f"| {method} | {file} | {len(errors)} | {fmean(map(abs, errors)):.1f}% | {median(errors):+.1f}% |"
    for method in ("full", "adapters"):
        own = [errors for (what, _), errors in groups.items() if what == method]
        rows = [error for errors in own for error in errors]
        by_file = fmean(fmean(map(abs, errors)) for errors in own)
        by_row = fmean(map(abs, rows))
        yield f"| **{method}** | all, each file the same | {len(rows)} | {by_file:.1f}% (by row {by_row:.1f}%) | |"


def _failures(runs: Iterable[PublishedRun], fits: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Verdicts as of an estimate: the needed memory against that of the GPU."""
    verdicts: dict[str, list[bool]] = {"failed": [], "ran": []}
    for run in runs:
        if run.gpu_gib is not None and not run.mixture:
            need = memory_need(profile_of(run, fits[run.file]), gpus=max(1, run.data_parallel))
            if need is not None:
                verdicts["ran" if run.peak_gib else "failed"].append(need.needed_gib.value > run.gpu_gib)
    for what, found in verdicts.items():
        yield f"{what}: {len(found)} rows, {100 * fmean(found):.1f}% are said not to fit"


def _coefficients(c: Mapping[str, float]) -> Iterable[str]:
    yield "fitted to all files: " + ", ".join(f"{name} {value:.3g}" for name, value in c.items())


if __name__ == "__main__":
    main()

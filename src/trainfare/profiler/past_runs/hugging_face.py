"""`trainer_state.json`, which the Trainer of Hugging Face Transformers writes into every checkpoint.

It has losses, steps and epochs, the time of the whole run and of each evaluation, and no time of a step.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import changed_at, existing, files_under, nothing_there, others_note, reading
from trainfare.profiler.past_runs.run_log import Logged
from trainfare.profiler.past_runs.metric_names import positive_whole
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, whole_step

_NAME = "trainer_state.json"
_LARGEST = 256 << 20
"""Bytes; a million logged steps take a tenth of it."""
_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "train_loss")
_NOT_METRICS = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")


def read(path: str | Path) -> Logged:
    source = existing(path)
    note = None
    if source.is_dir():
        source, note = _newest(source)
    state = _state(source)
    steps = positive_whole(state.get("global_step"))
    logged = [row for row in state["log_history"] if isinstance(row, dict)]
    summary: Mapping[str, Any] = next((row for row in reversed(logged) if "train_runtime" in row), {})
    epochs, most = positive_whole(state.get("num_train_epochs")), positive_whole(state.get("max_steps"))
    run_seconds = _number(summary.get("train_runtime"))
    return Logged(
        origin="hf",
        source=_run_of(source),
        by_step=_scalars(logged),
        axis="iterations",
        ended_at=changed_at(source),
        ending="finished" if summary and steps is not None and steps == most else "enough",
        framework="transformers",
        batch_size=positive_whole(state.get("train_batch_size")),
        epochs=epochs,
        iterations_per_epoch=_iterations_per_epoch(epochs, most, steps, _number(state.get("epoch"))),
        run_seconds=run_seconds if run_seconds > 0 else None,
        run_iterations=steps,
        validation_seconds=tuple(
            seconds for row in logged if (seconds := _number(row.get("eval_runtime"))) >= 0 and math.isfinite(seconds)
        ),
        notes=(note,) if note else (),
    )


def _newest(folder: Path) -> tuple[Path, str | None]:
    """The one of the run itself, else of its last checkpoint: each later one holds all of the earlier."""
    if (own := folder / _NAME).is_file():
        return own, None
    found = files_under(folder, lambda name: name == _NAME)
    if not found:
        raise nothing_there(folder, _NAME, "Name the output_dir of the Trainer, or one checkpoint-N in it.")
    runs: dict[Path, list[Path]] = {}
    for file in found:
        runs.setdefault(_run_of(file), []).append(file)
    last = {run: max(files, key=_checkpoint) for run, files in runs.items()}
    newest = max(last, key=lambda run: changed_at(last[run]))
    return last[newest], others_note(str(newest), sorted(str(run) for run in runs if run != newest))


def _run_of(file: Path) -> Path:
    folder = file.resolve().parent
    return folder.parent if folder.name.startswith("checkpoint-") else folder


def _checkpoint(file: Path) -> float:
    number = re.search(r"checkpoint-(\d+)$", file.parent.name)
    return int(number[1]) if number else math.inf


def _state(source: Path) -> dict[str, Any]:
    with reading(source):
        if source.stat().st_size > _LARGEST:
            raise UsageError(f"{source} is larger than {_LARGEST >> 20} MiB, which no {_NAME} is.")
        raw = source.read_bytes()
    try:
        state = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} is not JSON ({error}). If it was cut while being written, take an older checkpoint."
        ) from error
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise UsageError(f"{source} is not a {_NAME}: it has no log_history.")
    return state


def _scalars(logged: Iterable[Mapping[str, Any]]) -> Scalars:
    found = Scalars()
    for row in logged:
        step = whole_step(row.get("step"))
        if step is None or step < 0 or "train_runtime" in row:
            continue
        for name, value in row.items():
            is_metric = name not in ("step", *_SUMMARY) and not name.endswith(_NOT_METRICS)
            if is_metric and isinstance(value, int | float | str) and not isinstance(value, bool):
                found.add(name, step, _number(value))
    return found


def _iterations_per_epoch(epochs: int | None, most: int | None, steps: int | None, epoch: float) -> int | None:
    """`max_steps` is epochs × iterations, unless the user set it; then the last step / its epoch says more."""
    if steps and epoch > 0:
        ratio = steps / epoch
        if epochs and most and most % epochs == 0 and abs(most / epochs - ratio) <= 0.02 * ratio:
            return most // epochs
        return max(1, round(ratio))
    return None


def _number(value: object) -> float:
    """NaN for what is none; the Trainer writes NaN losses as such."""
    try:
        return float(value) if isinstance(value, int | float | str) else UNKNOWN
    except (ValueError, OverflowError):
        return UNKNOWN

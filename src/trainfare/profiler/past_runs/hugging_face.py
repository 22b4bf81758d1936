"""Reads `trainer_state.json`, which the Trainer of Hugging Face Transformers writes into every checkpoint.

It contains losses, steps, epochs and the times of the whole run and of each evaluation, but no time of a step.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.files import (
    existing_path,
    files_under,
    modified_at,
    no_run_found,
    other_runs_note,
    translate_read_errors,
)
from trainfare.profiler.past_runs.metric_names import positive_int
from trainfare.profiler.past_runs.run_log import RunLog
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, parse_step

_NAME = "trainer_state.json"
_MAX_BYTES = 256 << 20
"""A million logged steps take a tenth of it."""
_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "train_loss")
_SPEED_SUFFIXES = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")


def read(path: str | Path) -> RunLog:
    source = existing_path(path)
    note = None
    if source.is_dir():
        source, note = _newest(source)
    state = _state(source)
    steps = positive_int(state.get("global_step"))
    rows = [row for row in state["log_history"] if isinstance(row, dict)]
    summary: Mapping[str, Any] = next((row for row in reversed(rows) if "train_runtime" in row), {})
    epochs, max_steps = positive_int(state.get("num_train_epochs")), positive_int(state.get("max_steps"))
    run_seconds = _number(summary.get("train_runtime"))
    return RunLog(
        origin="hf",
        source=_run_folder(source),
        by_step=_scalars(rows),
        axis="iterations",
        ended_at=modified_at(source),
        ending="finished" if summary and steps is not None and steps == max_steps else "enough",
        framework="transformers",
        batch_size=positive_int(state.get("train_batch_size")),
        epochs=epochs,
        iterations_per_epoch=_iterations_per_epoch(epochs, max_steps, steps, _number(state.get("epoch"))),
        run_seconds=run_seconds if run_seconds > 0 else None,
        run_iterations=steps,
        validation_seconds=tuple(
            seconds for row in rows if (seconds := _number(row.get("eval_runtime"))) >= 0 and math.isfinite(seconds)
        ),
        notes=(note,) if note else (),
    )


def _newest(folder: Path) -> tuple[Path, str | None]:
    """The state file of the run itself, else of its last checkpoint, which contains that of all earlier ones."""
    if (own := folder / _NAME).is_file():
        return own, None
    found = files_under(folder, lambda name: name == _NAME)
    if not found:
        raise no_run_found(folder, _NAME, "Give the output_dir of the Trainer, or one checkpoint-N in it.")
    runs: dict[Path, list[Path]] = {}
    for file in found:
        runs.setdefault(_run_folder(file), []).append(file)
    last = {run: max(files, key=_checkpoint_step) for run, files in runs.items()}
    newest = max(last, key=lambda run: modified_at(last[run]))
    return last[newest], other_runs_note(str(newest), sorted(str(run) for run in runs if run != newest))


def _run_folder(file: Path) -> Path:
    folder = file.resolve().parent
    return folder.parent if folder.name.startswith("checkpoint-") else folder


def _checkpoint_step(file: Path) -> float:
    number = re.search(r"checkpoint-(\d+)$", file.parent.name)
    return int(number[1]) if number else math.inf


def _state(source: Path) -> dict[str, Any]:
    with translate_read_errors(source):
        if source.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{source} is larger than {_MAX_BYTES >> 20} MiB, so it is not a {_NAME}.", field="path")
        raw = source.read_bytes()
    try:
        state = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} is not JSON ({error}). If it is incomplete, use an older checkpoint.", field="path"
        ) from error
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise UsageError(f"{source} is not a {_NAME}: it has no log_history.", field="path")
    return state


def _scalars(rows: Iterable[Mapping[str, Any]]) -> Scalars:
    found = Scalars()
    for row in rows:
        step = parse_step(row.get("step"))
        if step is None or step < 0 or "train_runtime" in row:
            continue
        for name, value in row.items():
            is_metric = name not in ("step", *_SUMMARY) and not name.endswith(_SPEED_SUFFIXES)
            if is_metric and isinstance(value, int | float | str) and not isinstance(value, bool):
                found.add(name, step, _number(value))
    return found


def _iterations_per_epoch(epochs: int | None, max_steps: int | None, steps: int | None, epoch: float) -> int | None:
    """Iterations per epoch: `max_steps` / epochs if that agrees with the last step / its epoch, else the latter."""
    if steps and epoch > 0:
        ratio = steps / epoch
        if epochs and max_steps and max_steps % epochs == 0 and abs(max_steps / epochs - ratio) <= 0.02 * ratio:
            return max_steps // epochs
        return max(1, round(ratio))
    return None


def _number(value: object) -> float:
    """The value as a float; NaN if it is not a number. The Trainer writes NaN losses as such."""
    try:
        return float(value) if isinstance(value, int | float | str) else UNKNOWN
    except (ValueError, OverflowError):
        return UNKNOWN

"""Reads Weights & Biases: the `run-*.wandb` file that every run writes to its folder, offline or not.

It is a LevelDB log (blocks of 32 KiB, records in one or more chunks, each with its CRC-32) of protocol buffers. The
fields of `Record` used are history (2), config (5), run (17), exit (18) and environment (26).
"""

import json
import math
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.profiler.past_runs.files import (
    datetime_or_modified,
    existing_path,
    files_under,
    modified_at,
    no_run_found,
    other_runs_note,
    translate_read_errors,
)
from trainfare.profiler.past_runs.metric_names import normalize_name, training_loss
from trainfare.profiler.past_runs.protobuf import Value, double, fields, raw_bytes, signed, text, unsigned, zigzag
from trainfare.profiler.past_runs.run_log import Axis, RunLog
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, parse_step
from trainfare.units import plural

if TYPE_CHECKING:
    from trainfare.model.profile import Ending

_BLOCK_BYTES = 32768
_MAGIC = b":W&B"
_MAX_RECORD_BYTES = 16 << 20
"""Longer records are skipped. A row of numbers is far shorter."""
_FULL_CHUNK, _FIRST_CHUNK, _LAST_CHUNK = 1, 2, 4
_STEP_NAMES = ("train_global_step", "trainer_global_step", "global_step", "step", "iteration", "iter")
"""Names under which programs log their step; the step of W&B itself counts calls of log()."""


def read(path: str | Path) -> RunLog:
    source, note = existing_path(path), None
    if source.is_dir():
        source, note = _newest(source)
    run = _WandbRun()
    notes = [note] if note else []
    try:
        for record in _records(source):
            run.add_record(record)
    except (ValueError, struct.error):
        notes.append(f"{source.name} is damaged or incomplete; read {plural(run.rows, 'row')} before the damage.")
    if not run.rows:
        raise UsageError(
            f"{source} has no readable row of history. The run may have ended before the first wandb.log().",
            field="path",
        )
    return run.to_run_log(source, notes)


def _newest(folder: Path) -> tuple[Path, str | None]:
    found = files_under(folder, lambda name: name.endswith(".wandb"))
    if not found:
        raise no_run_found(
            folder, "a file run-*.wandb", "Give the folder wandb/, or one offline-run-* or run-* folder in it."
        )
    found = list({file.resolve(): file for file in found}.values())  # `latest-run` is a link to one of them
    newest = max(found, key=lambda file: (file.parent.name.rpartition("run-")[2], modified_at(file)))
    return newest, other_runs_note(str(newest.parent), sorted(str(file.parent) for file in found if file != newest))


def _records(source: Path) -> Iterator[bytes]:
    """The records; ValueError at the first damaged chunk."""
    with translate_read_errors(source), source.open("rb") as file:
        if not file.read(7).startswith(_MAGIC):
            raise UsageError(f"{source} is not a run of W&B: it does not begin with :W&B.", field="path")
        parts: list[bytes] = []
        length = 0
        while True:
            left = _BLOCK_BYTES - file.tell() % _BLOCK_BYTES
            if left < 7:
                file.seek(left, 1)
            head = file.read(7)
            if not head:
                return
            checksum, size, kind = struct.unpack("<IHB", head)
            if not kind and not size:
                file.seek(_BLOCK_BYTES - file.tell() % _BLOCK_BYTES, 1)  # the rest of this block is padding
                continue
            chunk = file.read(size)
            if len(chunk) < size or zlib.crc32(chunk, zlib.crc32(bytes([kind]))) != checksum:
                raise ValueError("the checksum of a chunk is wrong")
            if kind in (_FULL_CHUNK, _FIRST_CHUNK):
                parts, length = [], 0
            length += size
            if length <= _MAX_RECORD_BYTES:
                parts.append(chunk)
            if kind in (_FULL_CHUNK, _LAST_CHUNK) and length <= _MAX_RECORD_BYTES:
                yield b"".join(parts)


class _WandbRun:
    """The contents of one run, collected record by record."""

    def __init__(self) -> None:
        self.rows = 0
        self._last_call = 0
        self._by_call, self._by_step = Scalars(), Scalars()
        self._step_name: str | None = None
        self._config: dict[str, object] = {}
        self._environment: dict[str, Any] = {"args": []}
        self._started = self._ended = UNKNOWN
        self._exit_code: int | None = None

    def add_record(self, record: bytes) -> None:
        for number, value in fields(record):
            match number:
                case 2:
                    self._add_row(dict(_history(raw_bytes(value))))
                case 5:
                    self._config.update(_config(raw_bytes(value)))
                case 17:
                    self._add_run(raw_bytes(value))
                case 18:
                    self._exit_code = next((signed(code) for field, code in fields(raw_bytes(value)) if field == 1), 0)
                case 26:
                    self._add_environment(raw_bytes(value))

    def _add_row(self, row: dict[str, float]) -> None:
        timestamp = row.pop("_timestamp", UNKNOWN)
        call = parse_step(row.pop("_step", UNKNOWN))
        call = self.rows if call is None else call
        row.pop("_runtime", None)
        if not math.isnan(timestamp):
            self._ended = timestamp
        self.rows += 1
        self._last_call = call
        if self._step_name is None:
            self._step_name = next(
                (name for known in _STEP_NAMES for name in row if normalize_name(name) == known), None
            )
        step = parse_step(row.pop(self._step_name, UNKNOWN)) if self._step_name else None
        for name, value in row.items():
            self._by_call.add(name, call, value, timestamp)
            if step is not None:
                self._by_step.add(name, step, value, timestamp)

    def _add_run(self, message: bytes) -> None:
        for number, value in fields(message):
            if number == 4:
                self._config.update(_config(raw_bytes(value)))
            elif number == 17:
                self._started = _timestamp(raw_bytes(value))
            elif number == 13:
                self._environment.setdefault("host", text(value))

    def _add_environment(self, message: bytes) -> None:
        environment = self._environment
        for number, value in fields(message):
            match number:
                case 5:
                    environment["args"].append(text(value))
                case 6 | 12 | 14 | 18:
                    environment[{6: "program", 12: "host", 14: "executable", 18: "gpu"}[number]] = text(value)
                case 17 | 19:
                    environment[{17: "cores", 19: "gpus"}[number]] = unsigned(value)

    def to_run_log(self, source: Path, notes: list[str]) -> RunLog:
        ending: Ending = "enough" if self._exit_code is None else "failed" if self._exit_code else "finished"
        counts_calls = not self._by_step and self._last_call == self.rows - 1
        by_step = self._by_step or (_count_steps_by_loss(self._by_call) if counts_calls else self._by_call)
        axis: Axis | None = "iterations" if self._by_step else None
        has_end = not math.isnan(self._ended)
        return RunLog(
            origin="wandb",
            source=source,
            by_step=by_step,
            axis=axis,
            counts_calls=counts_calls,
            started=None if math.isnan(self._started) else self._started,
            ended=self._ended if has_end else None,
            ended_at=datetime_or_modified(self._ended if has_end else None, source),
            ending=ending,
            command=self._command(),
            host=self._host(),
            settings=self._config,
            notes=tuple(notes),
        )

    def _command(self) -> tuple[str, ...]:
        program = self._environment.get("program")
        return ("python", program, *self._environment["args"]) if program else ()

    def _host(self) -> Host | None:
        environment = self._environment
        if not str(environment.get("host", "")).strip():
            return None
        return Host(
            name=environment["host"],
            cores=environment.get("cores") or None,
            gpu=environment.get("gpu") or None,
            gpus=environment.get("gpus", 0),
        )


def _history(message: bytes) -> Iterator[tuple[str, float]]:
    """The numbers of one row; text, images and tables are skipped."""
    for number, item in fields(message):
        if number == 1:
            name, value = _item(raw_bytes(item))
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield name, float(value)


def _item(message: bytes) -> tuple[str, object]:
    """A name, simple or nested, and its value, which is JSON or, since 2026, typed."""
    names: list[str] = []
    value: object = None
    for number, raw in fields(message):
        match number:
            case 1 | 2:
                names.append(text(raw))
            case 5:
                value = zigzag(raw)
            case 6:
                value = double(raw)
            case 16:
                value = _from_json(raw)
    return ".".join(name for name in names if name), value


def _config(message: bytes) -> dict[str, object]:
    return dict(_item(raw_bytes(item)) for number, item in fields(message) if number == 1)


def _from_json(raw: Value) -> object:
    try:
        value: object = json.loads(raw_bytes(raw))
    except (ValueError, RecursionError):
        return None
    return UNKNOWN if value in ("NaN", "Infinity", "-Infinity") else value


def _timestamp(message: bytes) -> float:
    parts = {number: signed(value) for number, value in fields(message) if number in (1, 2)}
    return parts.get(1, 0) + parts.get(2, 0) / 1e9


def _count_steps_by_loss(by_call: Scalars) -> Scalars:
    """The scalars with steps that count logged losses: a call that logged only a validation is not an iteration."""
    loss = by_call.get(training_loss(by_call) or "")
    if loss is None:
        return by_call
    found = Scalars()
    for name, series in by_call.items():
        for call, value, timestamp in zip(series.steps, series.values, series.timestamps, strict=True):
            found.add(name, max(0, bisect_right(loss.steps, call) - 1), value, timestamp)
    return found

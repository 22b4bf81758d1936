"""Weights & Biases: the `run-*.wandb` file that every run leaves in its folder, offline or not.

It is a LevelDB log (blocks of 32 KiB, records in one or more chunks, each with its CRC-32) of protocol buffers. Of
`Record` we need history (2), config (5), run (17), exit (18) and environment (26).
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
    changed_at,
    date_of,
    existing,
    files_under,
    nothing_there,
    others_note,
    reading,
)
from trainfare.profiler.past_runs.run_log import Axis, Logged
from trainfare.profiler.past_runs.metric_names import plain, training_loss
from trainfare.profiler.past_runs.series import UNKNOWN, Scalars, whole_step
from trainfare.profiler.past_runs.protobuf import Value, block, double, fields, signed, text, whole, zigzag

if TYPE_CHECKING:
    from trainfare.model.profile import Ending

_BLOCK = 32768
_HEAD = b":W&B"
_LONGEST = 16 << 20
"""Bytes of a record; a longer one is passed over. A row of numbers is far shorter."""
_WHOLE, _FIRST, _LAST = 1, 2, 4
_STEPS = ("train_global_step", "trainer_global_step", "global_step", "step", "iteration", "iter")
"""Names by which programs log their own count; W&B's own counts calls of log()."""


def read(path: str | Path) -> Logged:
    source, note = existing(path), None
    if source.is_dir():
        source, note = _newest(source)
    run = _Run()
    notes = [note] if note else []
    try:
        for record in _records(source):
            run.take(record)
    except (ValueError, struct.error):
        notes.append(f"{source.name} is cut or damaged; the {run.rows} rows before that were used.")
    if not run.rows:
        raise UsageError(
            f"{source} has no row of history that can be read, so nothing is known of its training. "
            "It may have ended before the first wandb.log()."
        )
    return run.logged(source, notes)


def _newest(folder: Path) -> tuple[Path, str | None]:
    found = files_under(folder, lambda name: name.endswith(".wandb"))
    if not found:
        raise nothing_there(
            folder, "a file run-*.wandb", "Name the folder wandb/, or one offline-run-* or run-* folder in it."
        )
    found = list({file.resolve(): file for file in found}.values())  # `latest-run` is a link to one of them
    newest = max(found, key=lambda file: (file.parent.name.rpartition("run-")[2], changed_at(file)))
    return newest, others_note(str(newest.parent), sorted(str(file.parent) for file in found if file != newest))


def _records(source: Path) -> Iterator[bytes]:
    """Whole records; ValueError where the file stops being one."""
    with reading(source), source.open("rb") as file:
        if not file.read(7).startswith(_HEAD):
            raise UsageError(f"{source} is not a run of W&B: it does not begin with :W&B.")
        parts: list[bytes] = []
        length = 0
        while True:
            left = _BLOCK - file.tell() % _BLOCK
            if left < 7:
                file.seek(left, 1)
            head = file.read(7)
            if not head:
                return
            checksum, size, kind = struct.unpack("<IHB", head)
            if not kind and not size:
                file.seek(_BLOCK - file.tell() % _BLOCK, 1)  # the rest of this block was left empty
                continue
            chunk = file.read(size)
            if len(chunk) < size or zlib.crc32(chunk, zlib.crc32(bytes([kind]))) != checksum:
                raise ValueError("a chunk is not what was written")
            if kind in (_WHOLE, _FIRST):
                parts, length = [], 0
            length += size
            if length <= _LONGEST:
                parts.append(chunk)
            if kind in (_WHOLE, _LAST) and length <= _LONGEST:
                yield b"".join(parts)


class _Run:
    """What has been read of one run, record by record."""

    def __init__(self) -> None:
        self.rows = 0
        self._last_call = 0
        self._by_call, self._by_step = Scalars(), Scalars()
        self._step_name: str | None = None
        self._config: dict[str, object] = {}
        self._environment: dict[str, Any] = {"args": []}
        self._started = self._ended = UNKNOWN
        self._exit: int | None = None

    def take(self, record: bytes) -> None:
        for number, value in fields(record):
            match number:
                case 2:
                    self._take_row(dict(_history(block(value))))
                case 5:
                    self._config.update(_config(block(value)))
                case 17:
                    self._take_run(block(value))
                case 18:
                    self._exit = next((signed(code) for field, code in fields(block(value)) if field == 1), 0)
                case 26:
                    self._take_environment(block(value))

    def _take_row(self, row: dict[str, float]) -> None:
        moment = row.pop("_timestamp", UNKNOWN)
        call = whole_step(row.pop("_step", UNKNOWN))
        call = self.rows if call is None else call
        row.pop("_runtime", None)
        if not math.isnan(moment):
            self._ended = moment
        self.rows += 1
        self._last_call = call
        if self._step_name is None:
            self._step_name = next((name for known in _STEPS for name in row if plain(name) == known), None)
        step = whole_step(row.pop(self._step_name, UNKNOWN)) if self._step_name else None
        for name, value in row.items():
            self._by_call.add(name, call, value, moment)
            if step is not None:
                self._by_step.add(name, step, value, moment)

    def _take_run(self, message: bytes) -> None:
        for number, value in fields(message):
            if number == 4:
                self._config.update(_config(block(value)))
            elif number == 17:
                self._started = _moment(block(value))
            elif number == 13:
                self._environment.setdefault("host", text(value))

    def _take_environment(self, message: bytes) -> None:
        about = self._environment
        for number, value in fields(message):
            match number:
                case 5:
                    about["args"].append(text(value))
                case 6 | 12 | 14 | 18:
                    about[{6: "program", 12: "host", 14: "executable", 18: "gpu"}[number]] = text(value)
                case 17 | 19:
                    about[{17: "cores", 19: "gpus"}[number]] = whole(value)

    def logged(self, source: Path, notes: list[str]) -> Logged:
        ending: Ending = "enough" if self._exit is None else "failed" if self._exit else "finished"
        counts_calls = not self._by_step and self._last_call == self.rows - 1
        by_step = self._by_step or (_by_losses(self._by_call) if counts_calls else self._by_call)
        axis: Axis | None = "iterations" if self._by_step else None
        known = not math.isnan(self._ended)
        return Logged(
            origin="wandb",
            source=source,
            by_step=by_step,
            axis=axis,
            counts_calls=counts_calls,
            started=None if math.isnan(self._started) else self._started,
            ended=self._ended if known else None,
            ended_at=date_of(self._ended if known else None, source),
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
        about = self._environment
        if not str(about.get("host", "")).strip():
            return None
        return Host(
            name=about["host"],
            cores=about.get("cores") or None,
            gpu=about.get("gpu") or None,
            gpus=about.get("gpus", 0),
        )


def _history(message: bytes) -> Iterator[tuple[str, float]]:
    """The numbers of one row; text, pictures and tables are passed over."""
    for number, item in fields(message):
        if number == 1:
            name, value = _item(block(item))
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield name, float(value)


def _item(message: bytes) -> tuple[str, object]:
    """A name, simple or nested, and its value: as JSON, or since 2026 also typed."""
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
    return dict(_item(block(item)) for number, item in fields(message) if number == 1)


def _from_json(raw: Value) -> object:
    try:
        value: object = json.loads(block(raw))
    except (ValueError, RecursionError):
        return None
    return UNKNOWN if value in ("NaN", "Infinity", "-Infinity") else value


def _moment(message: bytes) -> float:
    parts = {number: signed(value) for number, value in fields(message) if number in (1, 2)}
    return parts.get(1, 0) + parts.get(2, 0) / 1e9


def _by_losses(by_call: Scalars) -> Scalars:
    """Steps that count losses: a call that logged only a validation is no iteration."""
    loss = by_call.get(training_loss(by_call) or "")
    if loss is None:
        return by_call
    found = Scalars()
    for name, series in by_call.items():
        for call, value, moment in zip(series.steps, series.values, series.moments, strict=True):
            found.add(name, max(0, bisect_right(loss.steps, call) - 1), value, moment)
    return found

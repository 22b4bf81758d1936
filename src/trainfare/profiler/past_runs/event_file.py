"""Reads TensorBoard's event files: protocol buffers in TFRecord frames, one record at a time.

The fields used are wall_time (1), step (2) and summary (5) of `Event`; tag (1), simple_value (2) and tensor (8) of
`Summary.Value`; dtype (1), tensor_content (4), float_val (5) and double_val (6) of `TensorProto`. Images, histograms
and graphs are skipped.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainfare.profiler.past_runs.files import translate_read_errors
from trainfare.profiler.past_runs.protobuf import Value, double, fields, raw_bytes, signed, single, text, unsigned

_MAX_RECORD_BYTES = 1 << 20
"""Longer records contain images, audio or graphs and no scalars."""
_FLOAT, _DOUBLE = 1, 2
"""TensorFlow's DataType."""


class Scalar(NamedTuple):
    timestamp: float
    step: int
    tag: str
    value: float


class DamagedFileError(Exception):
    """The file is damaged or incomplete from this byte on."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def read_scalars(path: Path) -> Iterator[Scalar | float]:
    """Every scalar, and the timestamp of every event without one. Raises DamagedFileError at the first bad record."""
    with translate_read_errors(path), path.open("rb") as file:
        size = path.stat().st_size
        while (position := file.tell()) < size:
            try:
                yield from _read_record(file, size)
            except (ValueError, struct.error) as error:
                raise DamagedFileError(position) from error


def _read_record(file: BinaryIO, size: int) -> Iterator[Scalar | float]:
    head = file.read(12)
    (length, checksum) = struct.unpack("<QI", head)
    if checksum != masked_crc(head[:8]) or file.tell() + length + 4 > size:
        raise ValueError("the length of a record is wrong")
    if length > _MAX_RECORD_BYTES:
        file.seek(length + 4, 1)
        return
    record = file.read(length)
    (checksum,) = struct.unpack("<I", file.read(4))
    timestamp, found = _event(record)
    if found:
        # Only records that are used are checked: in Python a checksum takes longer than all other work.
        if checksum != masked_crc(record):
            raise ValueError("the checksum of a record is wrong")
        yield from found
    elif timestamp is not None:
        yield timestamp


def _event(record: bytes) -> tuple[float | None, list[Scalar]]:
    timestamp, step, summary = None, 0, b""
    for number, value in fields(record):
        if number == 1:
            timestamp = double(value)
        elif number == 2:
            step = signed(value)
        elif number == 5:
            summary = raw_bytes(value)
    if timestamp is None or not math.isfinite(timestamp):
        return None, []
    found = []
    for number, value in fields(summary):
        if number == 1:
            tag, scalar = _summary_value(raw_bytes(value))
            if tag and scalar is not None:
                found.append(Scalar(timestamp, step, tag, scalar))
    return timestamp, found


def _summary_value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, value in fields(message):
        if number == 1:
            tag = text(value)
        elif number == 2:
            scalar = single(value)
        elif number == 8:
            scalar = _tensor(raw_bytes(value))
    return tag, scalar


def _tensor(message: bytes) -> float | None:
    """The number in a tensor; None if it has several elements or another type."""
    dtype, numbers = 0, b""
    for number, value in fields(message):
        if number == 1:
            dtype = unsigned(value)
        elif number in (4, 5, 6):
            numbers += _raw(value)
    if dtype == _FLOAT and len(numbers) == 4:
        return single(numbers)
    return double(numbers) if dtype == _DOUBLE and len(numbers) == 8 else None


def _raw(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b""


def masked_crc(data: bytes) -> int:
    """The masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901 # the Castagnoli polynomial
        table.append(byte)
    return tuple(table)


_TABLE = _crc_table()

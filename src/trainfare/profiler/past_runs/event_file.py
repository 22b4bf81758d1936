"""TensorBoard's event files: TFRecord framing around protocol buffers, read one record at a time.

Of `Event` we need wall_time (1), step (2) and summary (5); of `Summary.Value` tag (1), simple_value (2) and tensor (8);
of `TensorProto` dtype (1), tensor_content (4), float_val (5) and double_val (6). Images, histograms and graphs are
passed over.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainfare.profiler.past_runs.files import reading
from trainfare.profiler.past_runs.protobuf import Value, block, double, fields, signed, single, text, whole

_LONGEST = 1 << 20
"""Bytes of a record that can hold scalars; longer ones hold pictures, sounds or graphs."""
_FLOAT, _DOUBLE = 1, 2
"""TensorFlow's DataType."""


class Scalar(NamedTuple):
    moment: float
    step: int
    tag: str
    value: float


class Damaged(Exception):
    """The file is not whole from this byte on."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def scalars(path: Path) -> Iterator[Scalar | float]:
    """Every scalar; the moment alone of an event without any. `Damaged` where the file stops being one."""
    with reading(path), path.open("rb") as file:
        size = path.stat().st_size
        while (position := file.tell()) < size:
            try:
                yield from _scalars_of_record(file, size)
            except (ValueError, struct.error) as error:
                raise Damaged(position) from error


def _scalars_of_record(file: BinaryIO, size: int) -> Iterator[Scalar | float]:
    head = file.read(12)
    (length, checksum) = struct.unpack("<QI", head)
    if checksum != masked_crc(head[:8]) or file.tell() + length + 4 > size:
        raise ValueError("the length of a record is wrong")
    if length > _LONGEST:
        file.seek(length + 4, 1)
        return
    record = file.read(length)
    (checksum,) = struct.unpack("<I", file.read(4))
    moment, found = _event(record)
    if found:
        # Only what is used is checked: in Python a checksum takes longer than the rest.
        if checksum != masked_crc(record):
            raise ValueError("a record is not what was written")
        yield from found
    elif moment is not None:
        yield moment


def _event(record: bytes) -> tuple[float | None, list[Scalar]]:
    moment, step, summary = None, 0, b""
    for number, value in fields(record):
        if number == 1:
            moment = double(value)
        elif number == 2:
            step = signed(value)
        elif number == 5:
            summary = block(value)
    if moment is None or not math.isfinite(moment):
        return None, []
    found = []
    for number, value in fields(summary):
        if number == 1:
            tag, scalar = _summary_value(block(value))
            if tag and scalar is not None:
                found.append(Scalar(moment, step, tag, scalar))
    return moment, found


def _summary_value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, value in fields(message):
        if number == 1:
            tag = text(value)
        elif number == 2:
            scalar = single(value)
        elif number == 8:
            scalar = _tensor(block(value))
    return tag, scalar


def _tensor(message: bytes) -> float | None:
    """Its one number; None where it has several or is of another type."""
    dtype, numbers = 0, b""
    for number, value in fields(message):
        if number == 1:
            dtype = whole(value)
        elif number in (4, 5, 6):
            numbers += _raw(value)
    if dtype == _FLOAT and len(numbers) == 4:
        return single(numbers)
    return double(numbers) if dtype == _DOUBLE and len(numbers) == 8 else None


def _raw(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b""


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted, as TFRecord files carry it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901 the polynomial of Castagnoli
        table.append(byte)
    return tuple(table)


_TABLE = _crc_table()

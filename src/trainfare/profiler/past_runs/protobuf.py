"""Decodes protocol buffers without their schema: the few fields that are needed are known by number.

The wire format is frozen (https://protobuf.dev/programming-guides/encoding/), and the number of a field never changes.
"""

import struct
from collections.abc import Iterator

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")

Value = int | bytes
"""A varint as an unsigned number; any other field as its bytes."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field, in order; ValueError if the bytes are not a message."""
    position, end = 0, len(message)
    while position < end:
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                value, position = _varint(message, position)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = _varint(message, position)
            case 5:
                size = 4
            case kind:
                raise ValueError(f"unknown wire type {kind}")
        if position + size > end:
            raise ValueError("a field is longer than its message")
        yield key >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("a varint has no end")


def signed(value: Value) -> int:
    """The value of an int32 or int64 field: two's complement in 64 bits."""
    number = unsigned(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def zigzag(value: Value) -> int:
    """The value of a sint32 or sint64 field."""
    number = unsigned(value)
    return (number >> 1) ^ -(number & 1)


def unsigned(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("a number was expected")
    return value


def raw_bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("text or a message was expected")
    return value


def text(value: Value) -> str:
    return raw_bytes(value).decode(errors="replace")


def double(value: Value) -> float:
    return float(_unpack(_DOUBLE, value))


def single(value: Value) -> float:
    return float(_unpack(_FLOAT, value))


def _unpack(kind: struct.Struct, value: Value) -> float:
    raw = raw_bytes(value)
    if len(raw) != kind.size:
        raise ValueError("a number has the wrong length")
    number: float = kind.unpack(raw)[0]
    return number

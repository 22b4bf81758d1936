"""Messages that the protobuf library wrote are decoded."""

import math
import struct

import pytest
from google.protobuf import timestamp_pb2, wrappers_pb2  # type: ignore[import-untyped] # its types are a package of their own
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.profiler.past_runs.protobuf import double, fields, raw_bytes, signed, single, text, unsigned, zigzag


@settings(deadline=None)
@given(st.integers(-(2**62), 2**62), st.integers(0, 999_999_999))
def test_signed_integers(seconds: int, nanos: int) -> None:
    message = timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
    found = {number: signed(value) for number, value in fields(message)}
    assert (found.get(1, 0), found.get(2, 0)) == (seconds, nanos)


@settings(deadline=None)
@given(st.floats(allow_nan=False), st.text(min_size=1))
def test_numbers_and_text(number: float, words: str) -> None:
    for _, value in fields(wrappers_pb2.DoubleValue(value=number).SerializeToString()):
        assert double(value) == number
    ((field, value),) = fields(wrappers_pb2.StringValue(value=words).SerializeToString())
    assert (field, text(value)) == (1, words)


def test_single_precision_and_zigzag() -> None:
    ((_, value),) = fields(wrappers_pb2.FloatValue(value=0.5).SerializeToString())
    assert single(value) == 0.5
    assert [zigzag(raw) for raw in (0, 1, 2, 3)] == [0, -1, 1, -2]
    assert math.isinf(single(struct.pack("<f", math.inf)))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_a_value_error(message: bytes) -> None:
    try:
        for _, value in fields(message):
            assert isinstance(value, int | bytes)
    except ValueError:
        pass


def test_field_of_another_type_is_a_value_error() -> None:
    for read, value in ((unsigned, b""), (raw_bytes, 3), (double, b"1234"), (single, b"12345678")):
        with pytest.raises(ValueError, match=r"expected|wrong length"):
            read(value)

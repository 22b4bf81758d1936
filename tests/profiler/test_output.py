"""The output of the program: a bounded log, and a pump that never blocks the program."""

import os

from hypothesis import given
from hypothesis import strategies as st

from trainfare.profiler.output import Log, Pump


def test_short_output_is_stored_completely() -> None:
    log = Log(max_bytes=10)
    log.add(b"0123456789")
    log.add(b"abc")
    assert log.text() == "0123456789abc"


def test_beginning_and_end_of_a_long_output_are_stored() -> None:
    log = Log(max_bytes=4)
    for _ in range(1000):
        log.add(b"middle")
    log.add(b"last")
    assert log.text() == "midd\n… 5996 bytes omitted …\nlast"


@given(st.lists(st.binary(max_size=30), max_size=50))
def test_log_is_bounded_and_contains_the_actual_beginning_and_end(chunks: list[bytes]) -> None:
    log = Log(max_bytes=8)
    for chunk in chunks:
        log.add(chunk)
    everything = b"".join(chunks)
    assert len(log._head) + len(log._tail) <= 3 * 8 + 30
    assert bytes(log._head) == everything[:8]
    assert everything.endswith(bytes(log._tail))


def test_failing_callback_does_not_stop_the_reading() -> None:
    def show(_chunk: bytes) -> None:
        raise BrokenPipeError

    reader, writer = os.pipe()
    log = Log()
    pump = Pump(reader, log, show)
    pump.start()
    os.write(writer, b"one")
    os.write(writer, b"two")
    os.close(writer)
    pump.join(5)
    os.close(reader)
    assert log.text() == "onetwo"

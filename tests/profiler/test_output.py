import os

from hypothesis import given
from hypothesis import strategies as st

from trainfare.profiler.output import Log, Pump


def test_short_output_is_kept_whole() -> None:
    log = Log(kept_bytes=10)
    log.add(b"0123456789")
    log.add(b"abc")
    assert log.text() == "0123456789abc"


def test_of_a_long_output_the_ends_are_kept() -> None:
    log = Log(kept_bytes=4)
    for _ in range(1000):
        log.add(b"middle")
    log.add(b"last")
    assert log.text() == "midd\n… 5996 bytes left out …\nlast"


@given(st.lists(st.binary(max_size=30), max_size=50))
def test_log_stays_small_and_honest(chunks: list[bytes]) -> None:
    log = Log(kept_bytes=8)
    for chunk in chunks:
        log.add(chunk)
    everything = b"".join(chunks)
    assert len(log._head) + len(log._tail) <= 3 * 8 + 30
    assert bytes(log._head) == everything[:8]
    assert everything.endswith(bytes(log._tail))


def test_screen_that_breaks_does_not_stop_the_reading() -> None:
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

"""How fast files go to a machine and come back, from the user's earlier runs, and what that means for another program.

    rate = Σ bytes / Σ seconds        of the transfers of a machine in one direction

A transfer below `LEAST_BYTES` says how long a connection takes, not how fast it is, and does not count. The time of a
run that sent or fetched other bytes is converted to those of this program:

    t' = (t − its transfer) + bytes of this program / rate of this machine
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainfare.estimator.cost.start_times import StartTime, Transfer

LEAST_BYTES = 1_000_000


def bytes_per_second(transfers: Iterable[Transfer], machine: str) -> float | None:
    """The rate of a machine; None if too little is known."""
    known = [each for each in transfers if each.machine == machine and each.bytes >= LEAST_BYTES and each.seconds > 0]
    return sum(each.bytes for each in known) / sum(each.seconds for each in known) if known else None


def program_bytes(times: Iterable[StartTime], program: str) -> int | None:
    """The most that a run of a program has transferred: data that is on a machine already is not sent again, and on
    another machine it is not there yet. None if it has not run."""
    return max((each.transfer.bytes for each in times if each.program == program and each.transfer), default=None)


def times_for_program(
    times: Sequence[StartTime], transfers: Sequence[Transfer], machine: str, program: str
) -> tuple[StartTime, ...]:
    """The times of earlier runs as they would be with the bytes of this program and the rate of this machine. Those of
    this program on this machine stay as they were; so do all if its bytes or the rate are unknown."""
    size, rate = program_bytes(times, program), bytes_per_second(transfers, machine)
    if size is None or rate is None:
        return tuple(times)
    return tuple(
        each
        if each.transfer is None or (each.machine, each.program) == (machine, program)
        else replace(each, seconds=max(0.0, each.seconds - each.transfer.seconds) + size / rate)
        for each in times
    )

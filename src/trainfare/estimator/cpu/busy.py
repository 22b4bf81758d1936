"""What an iteration would have taken on a machine without other work.

A profile records for which share q of the time the program's main thread was ready to run and had no CPU. One thread
would have taken t·(1 − q). Several threads wait for each other, so all of them must have a CPU at once: two of them
take t·(1 − q)². On five programs that were profiled on two cores while others kept them busy (q from 0.09 to 0.31) this
was 0.9 to 1.6 times their time on the idle machine, and t itself 1.5 to 1.9 times.

A slice with a quota below one core waits for its quota in the same way: t·(1 − q) is its time on one core.

Programs on a CPU without this figure are judged by their busy cores: a program that neither waits for its loader nor
uses a whole core was kept waiting.
"""

from trainfare.model.interval import Interval
from trainfare.model.profile import Profile

BUSY_SHARE = 0.1
"""A machine is called busy if the program waited for a CPU for at least this share of the time."""
MIN_BUSY_CORES = 0.8
"""A program on the CPU that runs freely keeps at least so many cores busy."""
MAX_QUEUE_SHARE = 0.9


def queue_share(profile: Profile) -> float:
    """q: 0 if the machine did nothing else, or if that is unknown."""
    if profile.cpu_queue_share is not None:
        share = profile.cpu_queue_share
    elif profile.device == "cpu" and profile.cpu_use is not None:
        total = sum(profile.steady_iteration_seconds)
        blocked = 0.0 if profile.loader_workers == 0 or not total else sum(profile.data_wait_seconds[1:]) / total
        wanted = max(0.0, 1.0 - blocked)
        share = 1 - profile.cpu_use / wanted if profile.cpu_use < MIN_BUSY_CORES * wanted else 0.0
    else:
        share = 0.0
    return min(MAX_QUEUE_SHARE, share) if share >= BUSY_SHARE else 0.0


def on_idle_machine(seconds: Interval, share: float, *, threads: int = 1) -> Interval:
    """A time that was measured while the program waited for a CPU for this share of it.

    The high end stays as it was measured, and the low end is that of one thread more.
    """
    if not share:
        return seconds
    free, together = 1 - share, min(2, threads)
    return Interval(value=seconds.value * free**together, low=seconds.low * free ** (together + 1), high=seconds.high)


def idle_factor(profile: Profile) -> float:
    """The share of a time measured on a CPU that would remain if that machine did nothing else; 1 for programs on a
    GPU."""
    if profile.device != "cpu":
        return 1.0
    threads = profile.threads or profile.host.cores or 1
    return on_idle_machine(Interval.exactly(1.0), queue_share(profile), threads=threads).value

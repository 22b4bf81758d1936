"""What it takes to go on with a training on another machine.

    move = checkpoint + S/u + S/d + read,   $ = price₁·(checkpoint + S/u) + price₂·(S/d + read) + egress₁·S

with S bytes of weights and optimiser state, u and d the rates up from the first machine and down to the second. The
checkpoint counts only where the program does not write one after that epoch anyway. Boot and setup of the second
machine, its initialisation and its first iteration are in the estimate of its leg.

Between two slices of one machine the file is copied on its disk. Between two machines it goes through a bucket or a
third host, at the rate at which data comes to a rented machine. What leaves a region pays the provider's price of
egress; between two regions of one provider that is more than is charged.

Limits: the second machine could be started before the first has ended, which would hide its boot and setup; here it is
not. A bucket's own price (cents a month) is not counted. What the program keeps beside weights and optimiser state (a
replay buffer, a tokenised data set) is not in S.
"""

from dataclasses import dataclass

from trainfare.estimator.cost.bill import DATA_GIB_PER_SECOND
from trainfare.estimator.cost.checkpoints import DISK_BYTES_PER_SECOND, DISK_FACTOR, Checkpoints, checkpoint_bytes
from trainfare.model.bill import Terms
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.model.split import Migration, MigrationPart
from trainfare.units import BYTES_PER_GIB, SECONDS_PER_HOUR, format_duration

TRANSFER_FACTOR = 3.0
"""Within which the rate is assumed, as for data."""
LEAST_TRANSFER_SECONDS = 1.0
"""To open a connection, look around and close it, however little is sent: an assumption."""
READ_BYTES_PER_SECOND, READ_FACTOR = 400e6, 4.0
"""A file that has just arrived is still in memory: `torch.load` of 52 MB took 0.03 to 0.17 s on one CPU and on half of
one (`python -m benchmarks.moving`)."""
LEAST_READ_SECONDS = 0.1
"""To find the file and put its tensors in place, however small."""
UNKNOWN_BYTES = Interval(value=1e9, low=1e7, high=1e10)
"""Where nobody knows how large the model is: about a GB, as `checkpoints.py` assumes."""
SIZE_FACTOR = 1.1
"""A checkpoint has names, buffers and a step beside weights and optimiser state."""

NOTHING = Interval.exactly(0.0)
ALREADY_THERE = MigrationPart(
    seconds=NOTHING, basis="nothing", how="both are slices of one machine: it was copied on its disk"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes a second that the user knows of; None: what is usual."""

    upload: float | None = None
    download: float | None = None


USUAL = Rates()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of a move: a machine and how its provider charges."""

    candidate: Candidate
    terms: Terms

    @property
    def usd_per_second(self) -> float:
        return self.candidate.usd_per_hour / SECONDS_PER_HOUR

    @property
    def place(self) -> tuple[str, str]:
        return self.candidate.offer.vm_type.provider, self.candidate.offer.region


def migration_between(
    first: Side, second: Side, *, profile: Profile, checkpoints: Checkpoints, rates: Rates = USUAL
) -> Migration:
    """From the first machine to the second, with the checkpoint of that program."""
    known = checkpoint_bytes(profile)
    size = UNKNOWN_BYTES if known is None else Interval.within_factor(known, SIZE_FACTOR)
    same_disk = first.place[0] == second.place[0] == "local"
    checkpoint = _written(profile, checkpoints)
    upload = _copied(size) if same_disk else _sent(size, rates.upload)
    download = ALREADY_THERE if same_disk else _sent(size, rates.download)
    restore = _at_rate(size, READ_BYTES_PER_SECOND, factor=READ_FACTOR, least=LEAST_READ_SECONDS)
    return Migration(
        checkpoint=checkpoint,
        upload=upload,
        download=download,
        restore=restore,
        bytes=None if known is None else size,
        machine_usd=(checkpoint.seconds + upload.seconds) * first.usd_per_second
        + (download.seconds + restore.seconds) * second.usd_per_second,
        transfer_usd=_egress(size, first, second),
    )


def _written(profile: Profile, checkpoints: Checkpoints) -> MigrationPart:
    seconds = checkpoints.seconds
    if checkpoints.per_epoch:
        return MigrationPart(
            seconds=NOTHING,
            basis="nothing",
            how=f"the program writes one by itself, {format_duration(seconds.value)} each, in the time of the first leg",
        )
    known = profile.gradient_bytes or profile.parameters
    told = "weights and optimiser state at the rate of a plain disk" if known else "nobody knows how large the model is"
    return MigrationPart(
        seconds=seconds, basis="assumed", how=f"{format_duration(seconds.value)}: none was seen, {told}"
    )


def _copied(size: Interval) -> MigrationPart:
    return _at_rate(size, DISK_BYTES_PER_SECOND, factor=DISK_FACTOR, least=LEAST_READ_SECONDS)


def _sent(size: Interval, stated: float | None) -> MigrationPart:
    if stated is not None:
        return MigrationPart(
            seconds=size * (1 / stated), basis="stated", how=f"{_gib(size)} / {_rate(stated)}, as you say"
        )
    return _at_rate(size, DATA_GIB_PER_SECOND * BYTES_PER_GIB, factor=TRANSFER_FACTOR, least=LEAST_TRANSFER_SECONDS)


def _at_rate(size: Interval, bytes_per_second: float, *, factor: float, least: float) -> MigrationPart:
    """S / rate, at least so many seconds, within the factor."""
    return MigrationPart(
        seconds=Interval(
            value=max(least, size.value / bytes_per_second),
            low=max(least, size.low / bytes_per_second) / factor,
            high=max(least, size.high / bytes_per_second) * factor,
        ),
        basis="assumed",
        how=f"{_gib(size)} / {_rate(bytes_per_second)}, at least {least:g} s, assumed within a factor of {factor:g}",
    )


def _egress(size: Interval, first: Side, second: Side) -> Interval:
    """As on a bill: as if all that is free in a month were left, at the high end as if nothing were."""
    if first.place == second.place or first.candidate.offer.market == "own":
        return NOTHING
    price, free = first.terms.egress_usd_per_gib, first.terms.free_egress_gib
    value = max(0.0, size.value / BYTES_PER_GIB - free) * price
    high = size.high / BYTES_PER_GIB * price
    return Interval(value=value, low=0.0, high=max(value, high))


def _gib(size: Interval) -> str:
    gib = size.value / BYTES_PER_GIB
    return f"{gib:.3g} GiB" if gib >= 0.1 else f"{gib * 1024:.3g} MiB"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / BYTES_PER_GIB * 1024:.3g} MiB/s"

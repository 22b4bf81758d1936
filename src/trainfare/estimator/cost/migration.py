"""The time and cost of continuing a training on another machine.

    migration = checkpoint + S/u + S/d + read
    $ = price₁·(checkpoint + S/u) + price₂·(S/d + read) + egress₁·S

with S bytes of weights and optimiser state, u and d the rates up from the first machine and down to the second. The
checkpoint counts only where the program does not write one after that epoch anyway. Boot and setup of the second
machine, its initialisation and its first iteration are in the estimate of the second segment.

Between two slices of one machine the file is copied on its disk. Between two machines it goes through a bucket or a
third host, at the rate at which data comes to a rented machine. Data that leaves a region pays the provider's price of
egress; between two regions of one provider that overestimates the charge.

Limits: the second machine could be started before the first has ended, which would hide its boot and setup; this is not
modelled. The price of a bucket (cents a month) is not included. State of the program other than weights and optimiser
state (a replay buffer, a tokenised data set) is not in S.
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
"""Uncertainty of the assumed transfer rate, as for data."""
MIN_TRANSFER_SECONDS = 1.0
"""Time to open and close a connection, however little is sent: an assumption."""
READ_BYTES_PER_SECOND, READ_FACTOR = 400e6, 4.0
"""A file that has just arrived is still in memory: `torch.load` of 52 MB took 0.03 to 0.17 s on one CPU and on half of
one (`python -m benchmarks.migration`)."""
MIN_READ_SECONDS = 0.1
"""Time to open the file and place its tensors, however small it is."""
UNKNOWN_BYTES = Interval(value=1e9, low=1e7, high=1e10)
"""Size of a model of unknown size: about a GB, as in `checkpoints.py`."""
SIZE_FACTOR = 1.1
"""A checkpoint also has names, buffers and a step counter."""

ZERO = Interval.exactly(0.0)
ALREADY_THERE = MigrationPart(
    seconds=ZERO, basis="nothing", how="both are slices of one machine: the file was copied on its disk"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRates:
    """Bytes per second that the user states; None where the default applies."""

    upload: float | None = None
    download: float | None = None


DEFAULT_RATES = TransferRates()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationEnd:
    """One of the two machines of a migration, and its provider's terms."""

    candidate: Candidate
    terms: Terms

    @property
    def usd_per_second(self) -> float:
        return self.candidate.usd_per_hour / SECONDS_PER_HOUR

    @property
    def place(self) -> tuple[str, str]:
        return self.candidate.offer.vm_type.provider, self.candidate.offer.region


def migration_between(
    first: MigrationEnd,
    second: MigrationEnd,
    *,
    profile: Profile,
    checkpoints: Checkpoints,
    rates: TransferRates = DEFAULT_RATES,
) -> Migration:
    """The migration from the first machine to the second, with the checkpoint of this program."""
    known = checkpoint_bytes(profile)
    size = UNKNOWN_BYTES if known is None else Interval.within_factor(known, SIZE_FACTOR)
    same_disk = first.place[0] == second.place[0] == "local"
    checkpoint = _written(profile, checkpoints)
    upload = _copied(size) if same_disk else _sent(size, rates.upload)
    download = ALREADY_THERE if same_disk else _sent(size, rates.download)
    restore = _at_rate(size, READ_BYTES_PER_SECOND, factor=READ_FACTOR, minimum=MIN_READ_SECONDS)
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
        how = (
            f"the program writes its own checkpoints, {format_duration(seconds.value)} each, "
            "in the time of the first segment"
        )
        return MigrationPart(seconds=ZERO, basis="nothing", how=how)
    known = profile.gradient_bytes or profile.parameters
    size = "weights and optimiser state at the rate of a plain disk" if known else "the size of the model is not known"
    return MigrationPart(
        seconds=seconds, basis="assumed", how=f"{format_duration(seconds.value)}: none was seen, {size}"
    )


def _copied(size: Interval) -> MigrationPart:
    return _at_rate(size, DISK_BYTES_PER_SECOND, factor=DISK_FACTOR, minimum=MIN_READ_SECONDS)


def _sent(size: Interval, stated: float | None) -> MigrationPart:
    if stated is not None:
        how = f"{_describe_size(size)} / {_describe_rate(stated)}, as you stated"
        return MigrationPart(seconds=size * (1 / stated), basis="stated", how=how)
    return _at_rate(size, DATA_GIB_PER_SECOND * BYTES_PER_GIB, factor=TRANSFER_FACTOR, minimum=MIN_TRANSFER_SECONDS)


def _at_rate(size: Interval, bytes_per_second: float, *, factor: float, minimum: float) -> MigrationPart:
    """S / rate, at least `minimum` seconds, within the factor."""
    return MigrationPart(
        seconds=Interval(
            value=max(minimum, size.value / bytes_per_second),
            low=max(minimum, size.low / bytes_per_second) / factor,
            high=max(minimum, size.high / bytes_per_second) * factor,
        ),
        basis="assumed",
        how=f"{_describe_size(size)} / {_describe_rate(bytes_per_second)}, at least {format_duration(minimum)}, "
        f"assumed within a factor of {factor:g}",
    )


def _egress(size: Interval, first: MigrationEnd, second: MigrationEnd) -> Interval:
    """The price of egress: with the free amount of a month unused, and at the high end with none of it left."""
    if first.place == second.place or first.candidate.offer.market == "own":
        return ZERO
    price, free = first.terms.egress_usd_per_gib, first.terms.free_egress_gib
    value = max(0.0, size.value / BYTES_PER_GIB - free) * price
    high = size.high / BYTES_PER_GIB * price
    return Interval(value=value, low=0.0, high=max(value, high))


def _describe_size(size: Interval) -> str:
    gib = size.value / BYTES_PER_GIB
    return f"{gib:.3g} GiB" if gib >= 0.1 else f"{gib * 1024:.3g} MiB"


def _describe_rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / BYTES_PER_GIB * 1024:.3g} MiB/s"

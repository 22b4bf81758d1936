"""Zones with made-up availability."""

from benchmarks.spot import Trace
from benchmarks.spot_replay import Zone

GAP = 600.0


def made_zone(seen: str, *, name: str = "x-1a", spot: float = 1.0, campaign: str = "aws-10-26-2022") -> Zone:
    """A zone with the availability of each slot, such as `1101`."""
    trace = Trace(campaign=campaign, zone=name, gpu="V100", gpus=1, gap_seconds=GAP, seen=tuple(map(int, seen)))
    return Zone(
        campaign=trace.campaign,
        name=name,
        machine="1 x V100",
        gap_seconds=GAP,
        seen=trace.seen,
        ages=trace.ages,
        spot=spot,
        on_demand=3.0,
    )

"""Availabilities, trainings and traces with good defaults for the tests of spot machines."""

import random
from typing import Any

from benchmarks.spot_replay import Zone
from trainfare.model.spot import Availability, SpotState, SpotTraining, age_bin

HOUR = 3600.0


def make_availability(**changes: Any) -> Availability:
    """About as good as the better zones of the traces."""
    fields: dict[str, Any] = {
        "zone": "us-west-2a",
        "lost_per_hour": (0.9, 0.3, 0.15, 0.05),
        "return_per_hour": (1.6, 1.0, 0.5, 0.5),
    }
    return Availability(**(fields | changes))


def make_training(**changes: Any) -> SpotTraining:
    fields: dict[str, Any] = {
        "work_seconds": 12 * HOUR,
        "start_seconds": 300.0,
        "checkpoint_every_seconds": 900.0,
        "deadline_seconds": 16 * HOUR,
        "spot_usd_per_hour": 1.0,
        "on_demand_usd_per_hour": 3.0,
    }
    return SpotTraining(**(fields | changes))


def make_state(**changes: Any) -> SpotState:
    fields: dict[str, Any] = {
        "seconds": 0.0,
        "left_seconds": 12 * HOUR,
        "unsaved_seconds": 0.0,
        "available": True,
        "since_seconds": 0.0,
        "running": "nothing",
    }
    return SpotState(**(fields | changes))


def make_zone(
    availability: Availability, *, seed: int, slots: int, gap_seconds: float = 60.0, on_demand: float = 3.0
) -> Zone:
    """Drawn slot by slot with the rates of the age that it really has."""
    rng = random.Random(seed)
    seen: list[int] = []
    ages: list[float] = []
    up, age = True, 0.0
    for _ in range(slots):
        seen.append(int(up))
        ages.append(age)
        rate = (availability.lost_per_hour if up else availability.return_per_hour)[age_bin(age)]
        age += gap_seconds
        if rng.expovariate(1) < rate * gap_seconds / HOUR:
            up, age = not up, 0.0
    return Zone(
        campaign="a test",
        name="a",
        machine="1 × V100",
        gap_seconds=gap_seconds,
        seen=tuple(seen),
        ages=tuple(ages),
        spot=1.0,
        on_demand=on_demand,
    )

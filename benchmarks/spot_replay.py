"""Policies for spot machines with a deadline, replayed on public availability traces at the prices of their days.

    python -m benchmarks.spot_replay --traces DIR --prices FILE [--starts N] [--json]

DIR has public traces (skypilot-org/spot-traces; used by Wu et al., NSDI 2024): one folder per campaign and one file per
zone, with the availability of one more spot machine every few minutes for weeks. FILE has prices by day, machine type
and zone (skypilot-org/skypilot-catalog): those of the first day of the campaign or later count, else those of the last
day before it.

A job has work, a deadline, a start (boot, setup, restore) and a checkpoint interval; it begins at many moments of the
last two thirds of each trace. In every slot the policy sees the state that the product would see and decides; time is
paid by the second. A lost machine loses the work since the last checkpoint; leaving a machine saves the work first.

The rates of `ours` are those of the campaign of October 2022 (us-west-2 only), pooled over machines with one GPU; they
are tested on that of February 2023 (nine zones, six of them in other regions). Nothing else is fitted. `ours, zone
known` uses the rates of the zone, from the first third of its own trace. `any zone of the region` moves to another zone
that has a machine. `oracle` knows the trace: the lower bound of the cost of any policy, by dynamic programming and
without losing work.

The predictions for each job in each zone are compared with the replay: by the zone's own past, by the zones of the
other campaign and, to separate errors of the model from changes of the market, by the tested weeks themselves.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.baselines.spot_policies import (
    Policy,
    greedy,
    guarded,
    on_demand_only,
    reserve,
    spot_only,
    uniform_progress,
)
from benchmarks.spot import Trace, count_events, read_day_prices, read_traces
from trainfare.estimator.spot.deadline_risk import ActionTable, cheapest_actions, late_probability, spot_only_outcome
from trainfare.model.spot import Availability, Running, SpotState, SpotTraining, ZoneHistory, pool_histories
from trainfare.units import format_percent

FITTED_ON = "aws-10-26-2022"
MACHINES = {("V100", 1): "p3.2xlarge", ("V100", 8): "p3.16xlarge", ("K80", 1): "p2.xlarge", ("K80", 8): "p2.8xlarge"}
WORK_HOURS = (6, 12, 24, 48)
SLACKS = (0.1, 0.25, 0.5, 1.0)
START_MINUTES = 5
OTHER_STARTS = (1, 20)
"""Minutes of further starts, for jobs with 12 hours of work."""
CHECKPOINT_MINUTES = 15
RESERVED_SHARE = 0.2
"""Share of the slack that the fixed rule reserves."""
HISTORY_SHARE = 1 / 3
"""Share of a trace that is history when the first job begins."""
UNITS = 2
"""Units of work of the oracle's grid in a slot of the trace."""
SLOTS = 250
"""Slots of the grid of `ours`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A trace to run on: the machine that is available in each slot (0: none), its age, and the prices."""

    campaign: str
    name: str
    machine: str
    gap_seconds: float
    seen: tuple[int, ...]
    ages: tuple[float, ...]
    spot: float
    on_demand: float

    @property
    def first_slot(self) -> int:
        return int(HISTORY_SHARE * len(self.seen))

    def history(self, first: int, last: int | None) -> ZoneHistory:
        return count_events(self.seen[first:last], self.ages[first:last], gap_seconds=self.gap_seconds, where=self.name)

    @property
    def past(self) -> ZoneHistory:
        return self.history(0, self.first_slot)

    @property
    def tested_weeks(self) -> ZoneHistory:
        return self.history(self.first_slot, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    work_hours: float
    slack: float
    start_minutes: float

    def on(self, zone: Zone) -> SpotTraining:
        work, start = 3600.0 * self.work_hours, 60.0 * self.start_minutes
        return SpotTraining(
            work_seconds=work,
            start_seconds=start,
            checkpoint_every_seconds=60.0 * CHECKPOINT_MINUTES,
            deadline_seconds=(1 + self.slack) * work + start,
            spot_usd_per_hour=zone.spot,
            on_demand_usd_per_hour=zone.on_demand,
            decide_every_seconds=zone.gap_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """The result of one job with one policy."""

    policy: str
    zone: str
    job: Job
    cost: float
    """Relative to on demand alone."""
    seconds: float
    late: bool
    on_demand_used: bool


def jobs() -> list[Job]:
    return [Job(work_hours=hours, slack=slack, start_minutes=START_MINUTES) for hours in WORK_HOURS for slack in SLACKS]


def jobs_with_other_starts() -> list[Job]:
    return [Job(work_hours=12, slack=slack, start_minutes=minutes) for slack in SLACKS for minutes in OTHER_STARTS]


def run(training: SpotTraining, policy: Policy, zone: Zone, begin: int) -> tuple[float, float, bool]:
    """Dollars, seconds, and the use of on demand. If the trace ends first, the rest runs on demand."""
    work, gap, prices = training.work_seconds, zone.gap_seconds, {"spot": zone.spot, "on demand": zone.on_demand}
    running: Running = "nothing"
    seconds = usd = done = saved = starting = 0.0
    machine, slot, used_demand = 0, begin, False
    while work - done > 1e-6 and slot < len(zone.seen):
        available = zone.seen[slot]
        if running == "spot" and available != machine:
            done, running, starting = saved, "nothing", 0.0
        action = policy(
            SpotState(seconds, work - done, done - saved, available > 0, zone.ages[slot], running, starting)
        )
        if action == "wait":
            running, saved = "nothing", done
        elif action != running:
            running, saved, starting, machine = action, done, training.start_seconds, available
        passed = gap
        if running != "nothing":
            used_demand = used_demand or running == "on demand"
            passed = min(gap, starting + work - done)
            done += max(0.0, passed - starting)
            starting = max(0.0, starting - passed)
            usd += prices[running] / 3600 * passed
            last = done // training.checkpoint_every_seconds * training.checkpoint_every_seconds
            saved = done if running == "on demand" else max(saved, last)
        seconds += passed
        slot += 1
    if work - done > 1e-6:
        rest = work - saved + training.start_seconds
        return usd + rest * zone.on_demand / 3600, seconds + rest, True
    return usd, seconds, used_demand


def oracle(training: SpotTraining, zone: Zone, begin: int) -> float:
    """The lowest cost of being in time on this trace; all rounding lowers it."""
    unit = zone.gap_seconds / UNITS
    work, start = (math.floor(seconds / unit) for seconds in (training.work_seconds, training.start_seconds))
    slots = math.ceil(training.deadline_seconds / zone.gap_seconds)
    size = work + start + 1
    w = np.arange(size)
    values = {kind: np.where(w > 0, np.inf, 0.0) for kind in ("nothing", "spot", "on demand")}
    price = {"spot": zone.spot * unit / 3600, "on demand": zone.on_demand * unit / 3600}

    def later(value: np.ndarray, more: int) -> np.ndarray:
        """The value at w + more − one slot."""
        at = w + more - UNITS
        return np.where(at <= 0, 0.0, value[np.clip(at, 0, size - 1)])

    def run_slot(kind: str, value: np.ndarray, more: int) -> np.ndarray:
        total: np.ndarray = price[kind] * np.minimum(w + more, UNITS) + later(value, more)
        return total

    for slot in reversed(range(begin, begin + slots)):
        available = zone.seen[slot]
        stays = slot + 1 < len(zone.seen) and zone.seen[slot + 1] == available
        after_spot = values["spot" if stays else "nothing"]
        begun = np.minimum(values["nothing"], run_slot("on demand", values["on demand"], start))
        if available:
            begun = np.minimum(begun, run_slot("spot", after_spot, start))
        demand = np.minimum(begun, run_slot("on demand", values["on demand"], 0))
        spot = np.minimum(begun, run_slot("spot", after_spot, 0)) if available else begun
        values = {"nothing": begun, "spot": spot, "on demand": demand}
    return float(values["nothing"][work])


def read_replay_zones(traces: Iterable[Trace], prices: Path) -> list[Zone]:
    known = dated_prices(prices)
    return [
        Zone(
            campaign=trace.campaign,
            name=trace.zone,
            machine=f"{trace.gpus} x {trace.gpu}",
            gap_seconds=trace.gap_seconds,
            seen=trace.seen,
            ages=trace.ages,
            **price_near(known[MACHINES[trace.gpu, trace.gpus], trace.zone], trace.first_day),
        )
        for trace in traces
    ]


def dated_prices(file: Path) -> dict[tuple[str, str], dict[date, dict[str, float]]]:
    found: dict[tuple[str, str], dict[date, dict[str, float]]] = defaultdict(dict)
    for row in read_day_prices(file):
        if row["instance_type"] in MACHINES.values() and row["spot_usd_h"] and row["ondemand_usd_h"]:
            day = {"spot": float(row["spot_usd_h"]), "on_demand": float(row["ondemand_usd_h"])}
            if all(day.values()):
                found[row["instance_type"], row["az"]][date.fromisoformat(row["date"])] = day
    return found


def price_near(days: dict[date, dict[str, float]], first_day: date) -> dict[str, float]:
    """The prices of the first day on or after `first_day`; if there is none, of the last day."""
    after = [day for day in days if day >= first_day]
    return days[min(after) if after else max(days)]


def any_zone(zones: Sequence[Zone], name: str) -> Zone:
    """One trace from several: stay while the zone has a machine, then move to the zone that has had one the longest.

    The price is the highest of the zones.
    """
    seen: list[int] = []
    ages: list[float] = []
    now = -1
    for slot in range(min(len(zone.seen) for zone in zones)):
        if now < 0 or not zones[now].seen[slot]:
            available = [number for number, zone in enumerate(zones) if zone.seen[slot]]
            now = max(available, key=lambda number: zones[number].ages[slot], default=-1)
        seen.append(now + 1)
        # Without a machine in any zone, the age is the time for which that has been so in all of them.
        ages.append(zones[now].ages[slot] if now >= 0 else min(zone.ages[slot] for zone in zones))
    first = zones[0]
    return Zone(
        campaign=first.campaign,
        name=name,
        machine=first.machine,
        gap_seconds=first.gap_seconds,
        seen=tuple(seen),
        ages=tuple(ages),
        spot=max(zone.spot for zone in zones),
        on_demand=first.on_demand,
    )


def regions(zones: Sequence[Zone]) -> Iterator[Zone]:
    groups: dict[tuple[str, str, str], list[Zone]] = defaultdict(list)
    for zone in zones:
        groups[zone.campaign, zone.name[:-1], zone.machine].append(zone)
    for (_, region, _), group in groups.items():
        if len(group) > 1:
            yield any_zone(group, region)


def begins(zone: Zone, training: SpotTraining, count: int) -> Iterator[int]:
    """Slots evenly spread after the history, each with its deadline inside the trace."""
    last = len(zone.seen) - math.ceil(training.deadline_seconds / zone.gap_seconds) - 1
    for number in range(count):
        yield zone.first_slot + round((last - zone.first_slot) * (number + 0.5) / count)


def replay(
    zone: Zone, job: Job, policies: dict[str, Callable[[SpotTraining], Policy]], starts: int
) -> Iterator[ReplayedJob]:
    training = job.on(zone)
    made = {name: make(training) for name, make in policies.items()}
    on_demand_usd = zone.on_demand / 3600 * (training.work_seconds + training.start_seconds)
    named = f"{zone.machine} {zone.name}"
    for begin in begins(zone, training, starts):
        for name, policy in made.items():
            usd, seconds, used = run(training, policy, zone, begin)
            late = seconds > training.deadline_seconds + 1e-6
            yield ReplayedJob(
                policy=name,
                zone=named,
                job=job,
                cost=usd / on_demand_usd,
                seconds=seconds,
                late=late,
                on_demand_used=used,
            )
        yield ReplayedJob(
            policy="oracle",
            zone=named,
            job=job,
            cost=oracle(training, zone, begin) / on_demand_usd,
            seconds=training.deadline_seconds,
            late=False,
            on_demand_used=False,
        )


@lru_cache(maxsize=2)
def action_table(training: SpotTraining, availability: Availability) -> ActionTable:
    return cheapest_actions(training, availability, slots=SLOTS)


def cheapest_by(availability: Availability, training: SpotTraining) -> Policy:
    return guarded(training, action_table(training, availability).cheapest)


def policies_by_name(pooled: Availability, own: Availability) -> dict[str, Callable[[SpotTraining], Policy]]:
    return {
        "on demand": lambda _: on_demand_only,
        "spot only": lambda _: spot_only,
        f"reserve {format_percent(RESERVED_SHARE)}": partial(reserve, share=RESERVED_SHARE),
        "greedy": greedy,
        "uniform progress": uniform_progress,
        "ours": partial(cheapest_by, pooled),
        "ours, zone known": partial(cheapest_by, own),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The predictions for one job in one zone, by the zone's own past, and the observed values."""

    zone: str
    job: Job
    late: float
    observed_late: float
    alone: float
    """Cost on spot alone, relative to on demand."""
    observed_alone: float
    ours: float
    observed_ours: float
    late_by_other_zones: float
    """Probability by the zones of the other campaign."""
    late_by_same_weeks: float
    """Probability by the tested weeks themselves, as is the next."""
    ours_by_same_weeks: float


def forecast(
    zone: Zone, job: Job, ran: Sequence[ReplayedJob], other_zones: Sequence[Availability], pooled: Availability
) -> Forecast:
    training, own = job.on(zone), zone.past.availability(prior=pooled)
    same_weeks = zone.tested_weeks.availability(prior=pooled)
    on_demand_usd = zone.on_demand / 3600 * (training.work_seconds + training.start_seconds)
    alone = [each for each in ran if each.policy == "spot only"]
    ours = [each for each in ran if each.policy == "ours, zone known"]
    predicted = spot_only_outcome(training, own, slots=SLOTS)
    return Forecast(
        zone=f"{zone.machine} {zone.name}",
        job=job,
        late=predicted.late,
        observed_late=fmean(each.late for each in alone),
        alone=predicted.usd / on_demand_usd,
        observed_alone=fmean(each.cost for each in alone),
        ours=action_table(training, own).outcome.usd / on_demand_usd,
        observed_ours=fmean(each.cost for each in ours),
        late_by_other_zones=late_probability(training, other_zones, slots=SLOTS),
        late_by_same_weeks=late_probability(training, [same_weeks], slots=SLOTS),
        ours_by_same_weeks=cheapest_actions(training, same_weeks, slots=SLOTS).outcome.usd / on_demand_usd,
    )


def summarise(ran: Sequence[ReplayedJob]) -> dict[str, dict[str, float]]:
    """Saving, missed deadlines and the share of the oracle's saving, by policy."""
    groups: dict[str, list[ReplayedJob]] = defaultdict(list)
    for each in ran:
        groups[each.policy].append(each)
    bound = 1 - fmean(each.cost for each in groups["oracle"])
    return {
        name: {
            "jobs": len(group),
            "saving": 1 - fmean(each.cost for each in group),
            "of_oracle": (1 - fmean(each.cost for each in group)) / bound,
            "late": fmean(each.late for each in group),
            "on_demand": fmean(each.on_demand_used for each in group),
            "worst": max(each.cost for each in group),
        }
        for name, group in groups.items()
    }


def calibration(forecasts: Sequence[Forecast]) -> list[dict[str, float]]:
    """Predicted probabilities of being late, by the rates of the same weeks, and the observed frequencies."""
    found = []
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
        here = [each for each in forecasts if low <= each.late_by_same_weeks < high]
        if here:
            found.append(
                {
                    "cells": len(here),
                    "predicted": fmean(each.late_by_same_weeks for each in here),
                    "observed": fmean(each.observed_late for each in here),
                }
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    tables: dict[str, dict[str, dict[str, float]]]
    calibration: list[dict[str, float]]
    forecast: dict[str, float]


def report(traces: Path, prices: Path, starts: int) -> Report:
    zones = read_replay_zones(read_traces(traces), prices)
    single = [zone for zone in zones if zone.campaign == FITTED_ON and zone.machine.startswith("1 x")]
    histories = [zone.history(0, None) for zone in single]
    pooled = pool_histories(histories, FITTED_ON).availability()
    other_zones = [each.availability(prior=pooled) for each in histories]
    forecasts: list[Forecast] = []

    def replayed(
        group: Sequence[Zone], requested: Sequence[Job], forecasts: list[Forecast] | None = None
    ) -> list[ReplayedJob]:
        ran: list[ReplayedJob] = []
        for zone in group:
            policies = policies_by_name(pooled, zone.past.availability(prior=pooled))
            for job in requested:
                found = list(replay(zone, job, policies, starts))
                if forecasts is not None:
                    forecasts.append(forecast(zone, job, found, other_zones, pooled))
                ran += found
        return ran

    held_out = [zone for zone in zones if zone.campaign != FITTED_ON]
    ran = replayed(held_out, jobs(), forecasts)
    others = replayed(held_out, jobs_with_other_starts())
    tables = {
        "held out": summarise(ran),
        "any zone of the region": summarise(replayed(list(regions(held_out)), jobs())),
        "fitted on": summarise(replayed(single, jobs())),
        **{f"slack {format_percent(s)}": summarise([r for r in ran if r.job.slack == s]) for s in SLACKS},
        **{f"work {h} h": summarise([r for r in ran if r.job.work_hours == h]) for h in WORK_HOURS},
        **{
            f"12 h, start of {m} min": summarise(
                [r for r in (*ran, *others) if r.job.start_minutes == m and r.job.work_hours == 12]
            )
            for m in sorted((START_MINUTES, *OTHER_STARTS))
        },
        **{name: summarise([r for r in ran if r.zone == name]) for name in sorted({r.zone for r in ran})},
    }
    return Report(tables=tables, calibration=calibration(forecasts), forecast=forecast_errors(forecasts))


def forecast_errors(forecasts: Sequence[Forecast]) -> dict[str, float]:
    """Mean errors over cells, each a job in a zone."""
    return {
        "cells": len(forecasts),
        "late by the same weeks, absolute": fmean(abs(f.late_by_same_weeks - f.observed_late) for f in forecasts),
        "late by the same weeks, signed": fmean(f.late_by_same_weeks - f.observed_late for f in forecasts),
        "late by its past, absolute": fmean(abs(f.late - f.observed_late) for f in forecasts),
        "late by its past, signed": fmean(f.late - f.observed_late for f in forecasts),
        "late by other zones, absolute": fmean(abs(f.late_by_other_zones - f.observed_late) for f in forecasts),
        "late by other zones, signed": fmean(f.late_by_other_zones - f.observed_late for f in forecasts),
        "cost of spot only, relative": fmean(abs(f.alone / f.observed_alone - 1) for f in forecasts),
        "cost of spot only, signed": fmean(f.alone / f.observed_alone - 1 for f in forecasts),
        "cost of ours by the same weeks, relative": fmean(
            abs(f.ours_by_same_weeks / f.observed_ours - 1) for f in forecasts
        ),
        "cost of ours by the same weeks, signed": fmean(f.ours_by_same_weeks / f.observed_ours - 1 for f in forecasts),
        "cost of ours, relative": fmean(abs(f.ours / f.observed_ours - 1) for f in forecasts),
        "cost of ours, signed": fmean(f.ours / f.observed_ours - 1 for f in forecasts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="the folder of traces")
    parser.add_argument("--prices", type=Path, required=True, metavar="FILE", help="daily prices, csv.gz")
    parser.add_argument("--starts", type=int, default=7, help="start times of each job in each zone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not any(options.traces.glob("*/*.json")):
        parser.error(f"{options.traces} has no traces")
    found = report(options.traces, options.prices, options.starts)
    if options.json:
        print(json.dumps(asdict(found), indent=2))
        return
    for title, table in found.tables.items():
        print_table(title, table)
    print("\nspot only: predicted probability of being late, observed")
    for row in found.calibration:
        print(f"{row['cells']:5.0f} cells {row['predicted']:8.1%}{row['observed']:8.1%}")
    print()
    for name, value in found.forecast.items():
        print(f"{name:42}{value:8.3f}")


def print_table(title: str, table: dict[str, dict[str, float]]) -> None:
    print(f"\n{title:34}{'jobs':>6}{'saving':>9}{'of oracle':>11}{'late':>8}{'on demand':>11}{'worst':>8}")
    for name, row in table.items():
        print(
            f"{name:34}{row['jobs']:6.0f}{row['saving']:9.1%}{row['of_oracle']:11.1%}{row['late']:8.1%}"
            f"{row['on_demand']:11.1%}{row['worst']:8.2f}"
        )


if __name__ == "__main__":
    main()

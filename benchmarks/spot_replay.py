"""Policies for spot machines with a deadline, replayed on real traces of availability at the prices of their days.

    python -m benchmarks.spot_replay --traces DIR --prices FILE [--starts N] [--json]

DIR holds public traces (skypilot-org/spot-traces; Wu et al., NSDI 2024, used them): a folder a campaign, a file a zone,
whether one more spot machine could be had, every few minutes for weeks. FILE holds prices by day, machine type and zone
(skypilot-org/skypilot-catalog): those of the first day that is not before the campaign count, and where there is none,
those of the last day before it.

A job is work, a deadline, a start (boot, setup, restore) and a checkpoint interval; it begins at many moments of the
last two thirds of each trace. In every slot the policy sees what the product would see and decides; time is paid by the
second. A machine that is lost takes with it what was done since the last checkpoint; who leaves one saves first.

The rates of `ours` are those of the campaign of October 2022 (us-west-2 only), pooled over machines with one GPU; they
are judged on that of February 2023 (nine zones, six of them in other regions). Nothing else is fitted. `ours, zone
known` takes the rates of the zone, from the first third of its own trace. `any zone of the region` moves on to another
zone where there is a machine. `oracle` knows the trace: by dynamic programming, the least that any policy could pay,
losing no work.

What is foretold of each job in each zone is held against what came of it: from the zone's own past, from the zones of
the other campaign, and, to tell the model's errors from the market's moving, from the very weeks that are judged.
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
from benchmarks.spot import Trace, counted, read_day_prices, read_traces
from trainfare.estimator.spot.deadline_risk import ActionTable, late_probability, spot_only_outcome, cheapest_actions
from trainfare.model.spot import Availability, Running, SpotState, SpotTraining, ZoneHistory, pool_histories

FITTED_ON = "aws-10-26-2022"
MACHINES = {("V100", 1): "p3.2xlarge", ("V100", 8): "p3.16xlarge", ("K80", 1): "p2.xlarge", ("K80", 8): "p2.8xlarge"}
WORK_HOURS = (6, 12, 24, 48)
SLACKS = (0.1, 0.25, 0.5, 1.0)
START_MINUTES = 5
OTHER_STARTS = (1, 20)
"""Minutes, of the jobs with 12 hours of work."""
CHECKPOINT_MINUTES = 15
SHARE = 0.2
"""Of the slack, that the fixed rule keeps."""
KNOWN = 1 / 3
"""Of a trace: what is history when the first job begins."""
UNITS = 2
"""Of the oracle's grid of work, in a slot of the trace."""
SLOTS = 250
"""Of the grid of `ours`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A trace to run on: which machine can be had in each slot (0: none), for how long already, and the prices."""

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
        return int(KNOWN * len(self.seen))

    def history(self, first: int, last: int | None) -> ZoneHistory:
        return counted(self.seen[first:last], self.ages[first:last], gap_seconds=self.gap_seconds, where=self.name)

    @property
    def past(self) -> ZoneHistory:
        return self.history(0, self.first_slot)

    @property
    def judged_weeks(self) -> ZoneHistory:
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
class Ran:
    """What came of one job with one policy."""

    policy: str
    zone: str
    job: Job
    cost: float
    """Against on demand alone."""
    seconds: float
    late: bool
    on_demand_used: bool


def jobs() -> list[Job]:
    return [Job(work_hours=hours, slack=slack, start_minutes=START_MINUTES) for hours in WORK_HOURS for slack in SLACKS]


def jobs_with_other_starts() -> list[Job]:
    return [Job(work_hours=12, slack=slack, start_minutes=minutes) for slack in SLACKS for minutes in OTHER_STARTS]


def run(training: SpotTraining, policy: Policy, zone: Zone, begin: int) -> tuple[float, float, bool]:
    """Dollars, seconds, and whether on demand was used. Where the trace ends first, the rest is on demand."""
    work, gap, prices = training.work_seconds, zone.gap_seconds, {"spot": zone.spot, "on demand": zone.on_demand}
    running: Running = "nothing"
    seconds = usd = done = saved = starting = 0.0
    machine, slot, used_demand = 0, begin, False
    while work - done > 1e-6 and slot < len(zone.seen):
        there = zone.seen[slot]
        if running == "spot" and there != machine:
            done, running, starting = saved, "nothing", 0.0
        action = policy(SpotState(seconds, work - done, done - saved, there > 0, zone.ages[slot], running, starting))
        if action == "wait":
            running, saved = "nothing", done
        elif action != running:
            running, saved, starting, machine = action, done, training.start_seconds, there
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
    """The least dollars with which the trace allows to be in time; whatever is rounded is rounded in its favour."""
    unit = zone.gap_seconds / UNITS
    work, start = (math.floor(seconds / unit) for seconds in (training.work_seconds, training.start_seconds))
    slots = math.ceil(training.deadline_seconds / zone.gap_seconds)
    size = work + start + 1
    w = np.arange(size)
    values = {kind: np.where(w > 0, np.inf, 0.0) for kind in ("nothing", "spot", "on demand")}
    price = {"spot": zone.spot * unit / 3600, "on demand": zone.on_demand * unit / 3600}

    def later(value: np.ndarray, more: int) -> np.ndarray:
        """At w + more − a slot."""
        at = w + more - UNITS
        return np.where(at <= 0, 0.0, value[np.clip(at, 0, size - 1)])

    def go(kind: str, value: np.ndarray, more: int) -> np.ndarray:
        found: np.ndarray = price[kind] * np.minimum(w + more, UNITS) + later(value, more)
        return found

    for slot in reversed(range(begin, begin + slots)):
        there = zone.seen[slot]
        stays = slot + 1 < len(zone.seen) and zone.seen[slot + 1] == there
        after_spot = values["spot" if stays else "nothing"]
        begun = np.minimum(values["nothing"], go("on demand", values["on demand"], start))
        if there:
            begun = np.minimum(begun, go("spot", after_spot, start))
        demand = np.minimum(begun, go("on demand", values["on demand"], 0))
        spot = np.minimum(begun, go("spot", after_spot, 0)) if there else begun
        values = {"nothing": begun, "spot": spot, "on demand": demand}
    return float(values["nothing"][work])


def read_replay_zones(traces: Iterable[Trace], prices: Path) -> list[Zone]:
    known = dated_prices(prices)
    return [
        Zone(
            campaign=trace.campaign,
            name=trace.zone,
            machine=f"{trace.gpus} × {trace.gpu}",
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
    """Of the first day that is not before; where all are, of the last."""
    after = [day for day in days if day >= first_day]
    return days[min(after) if after else max(days)]


def any_zone(zones: Sequence[Zone], name: str) -> Zone:
    """One trace of several: stay while the zone has a machine, then go where one has been there the longest. The price
    is the highest of them."""
    seen: list[int] = []
    ages: list[float] = []
    now = -1
    for slot in range(min(len(zone.seen) for zone in zones)):
        if now < 0 or not zones[now].seen[slot]:
            there = [number for number, zone in enumerate(zones) if zone.seen[slot]]
            now = max(there, key=lambda number: zones[number].ages[slot], default=-1)
        seen.append(now + 1)
        # With none anywhere, for as long as that has been so in all of them.
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
    """Evenly spread over what is not history, each with its deadline inside the trace."""
    last = len(zone.seen) - math.ceil(training.deadline_seconds / zone.gap_seconds) - 1
    for number in range(count):
        yield zone.first_slot + round((last - zone.first_slot) * (number + 0.5) / count)


def replay(zone: Zone, job: Job, policies: dict[str, Callable[[SpotTraining], Policy]], starts: int) -> Iterator[Ran]:
    training = job.on(zone)
    made = {name: make(training) for name, make in policies.items()}
    straight = zone.on_demand / 3600 * (training.work_seconds + training.start_seconds)
    named = f"{zone.machine} {zone.name}"
    for begin in begins(zone, training, starts):
        for name, policy in made.items():
            usd, seconds, used = run(training, policy, zone, begin)
            late = seconds > training.deadline_seconds + 1e-6
            yield Ran(
                policy=name,
                zone=named,
                job=job,
                cost=usd / straight,
                seconds=seconds,
                late=late,
                on_demand_used=used,
            )
        yield Ran(
            policy="oracle",
            zone=named,
            job=job,
            cost=oracle(training, zone, begin) / straight,
            seconds=training.deadline_seconds,
            late=False,
            on_demand_used=False,
        )


@lru_cache(maxsize=2)
def seen_ahead(training: SpotTraining, availability: Availability) -> ActionTable:
    return cheapest_actions(training, availability, slots=SLOTS)


def cheapest_by(availability: Availability, training: SpotTraining) -> Policy:
    return guarded(training, seen_ahead(training, availability).cheapest)


def policies_of(usual: Availability, own: Availability) -> dict[str, Callable[[SpotTraining], Policy]]:
    return {
        "on demand": lambda _: on_demand_only,
        "spot only": lambda _: spot_only,
        f"reserve {SHARE:.0%}": partial(reserve, share=SHARE),
        "greedy": greedy,
        "uniform progress": uniform_progress,
        "ours": partial(cheapest_by, usual),
        "ours, zone known": partial(cheapest_by, own),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of one job in one zone, from the zone's own past: what was said, and what came of it."""

    zone: str
    job: Job
    late: float
    late_seen: float
    alone: float
    """Cost on spot alone, against on demand."""
    alone_seen: float
    ours: float
    ours_seen: float
    usual_late: float
    """By the zones of the other campaign."""
    late_then: float
    """By the very weeks that are judged, as is the next."""
    ours_then: float


def forecast(zone: Zone, job: Job, ran: Sequence[Ran], usual: Sequence[Availability], pooled: Availability) -> Forecast:
    training, own = job.on(zone), zone.past.availability(prior=pooled)
    then = zone.judged_weeks.availability(prior=pooled)
    straight = zone.on_demand / 3600 * (training.work_seconds + training.start_seconds)
    alone = [each for each in ran if each.policy == "spot only"]
    ours = [each for each in ran if each.policy == "ours, zone known"]
    said = spot_only_outcome(training, own, slots=SLOTS)
    return Forecast(
        zone=f"{zone.machine} {zone.name}",
        job=job,
        late=said.late,
        late_seen=fmean(each.late for each in alone),
        alone=said.usd / straight,
        alone_seen=fmean(each.cost for each in alone),
        ours=seen_ahead(training, own).outcome.usd / straight,
        ours_seen=fmean(each.cost for each in ours),
        usual_late=late_probability(training, usual, slots=SLOTS),
        late_then=late_probability(training, [then], slots=SLOTS),
        ours_then=cheapest_actions(training, then, slots=SLOTS).outcome.usd / straight,
    )


def judged(ran: Sequence[Ran]) -> dict[str, dict[str, float]]:
    """Saving and missed deadlines by policy, and how much of the oracle's saving it is."""
    groups: dict[str, list[Ran]] = defaultdict(list)
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


def calibration(said: Sequence[Forecast]) -> list[dict[str, float]]:
    """Where it was said to be late so often, by the rates of the same weeks, how often it was."""
    found = []
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
        here = [each for each in said if low <= each.late_then < high]
        if here:
            found.append(
                {
                    "cells": len(here),
                    "said": fmean(each.late_then for each in here),
                    "seen": fmean(each.late_seen for each in here),
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
    single = [zone for zone in zones if zone.campaign == FITTED_ON and zone.machine.startswith("1 ×")]
    whole = [zone.history(0, None) for zone in single]
    pooled = pool_histories(whole, FITTED_ON).availability()
    usual = [each.availability(prior=pooled) for each in whole]
    said: list[Forecast] = []

    def replayed(group: Sequence[Zone], wanted: Sequence[Job], said: list[Forecast] | None = None) -> list[Ran]:
        ran: list[Ran] = []
        for zone in group:
            policies = policies_of(pooled, zone.past.availability(prior=pooled))
            for job in wanted:
                found = list(replay(zone, job, policies, starts))
                if said is not None:
                    said.append(forecast(zone, job, found, usual, pooled))
                ran += found
        return ran

    held_out = [zone for zone in zones if zone.campaign != FITTED_ON]
    ran = replayed(held_out, jobs(), said)
    others = replayed(held_out, jobs_with_other_starts())
    tables = {
        "held out": judged(ran),
        "any zone of the region": judged(replayed(list(regions(held_out)), jobs())),
        "fitted on": judged(replayed(single, jobs())),
        **{f"slack {s:.0%}": judged([r for r in ran if r.job.slack == s]) for s in SLACKS},
        **{f"work {h} h": judged([r for r in ran if r.job.work_hours == h]) for h in WORK_HOURS},
        **{
            f"12 h, a start of {m} min": judged(
                [r for r in (*ran, *others) if r.job.start_minutes == m and r.job.work_hours == 12]
            )
            for m in sorted((START_MINUTES, *OTHER_STARTS))
        },
        **{name: judged([r for r in ran if r.zone == name]) for name in sorted({r.zone for r in ran})},
    }
    return Report(tables=tables, calibration=calibration(said), forecast=errors(said))


def errors(said: Sequence[Forecast]) -> dict[str, float]:
    """Mean over cells, a cell being a job in a zone."""
    return {
        "cells": len(said),
        "late by the same weeks, absolute": fmean(abs(f.late_then - f.late_seen) for f in said),
        "late by the same weeks, signed": fmean(f.late_then - f.late_seen for f in said),
        "late by its past, absolute": fmean(abs(f.late - f.late_seen) for f in said),
        "late by its past, signed": fmean(f.late - f.late_seen for f in said),
        "late by other zones, absolute": fmean(abs(f.usual_late - f.late_seen) for f in said),
        "late by other zones, signed": fmean(f.usual_late - f.late_seen for f in said),
        "cost of spot only, relative": fmean(abs(f.alone / f.alone_seen - 1) for f in said),
        "cost of spot only, signed": fmean(f.alone / f.alone_seen - 1 for f in said),
        "cost of ours by the same weeks, relative": fmean(abs(f.ours_then / f.ours_seen - 1) for f in said),
        "cost of ours by the same weeks, signed": fmean(f.ours_then / f.ours_seen - 1 for f in said),
        "cost of ours, relative": fmean(abs(f.ours / f.ours_seen - 1) for f in said),
        "cost of ours, signed": fmean(f.ours / f.ours_seen - 1 for f in said),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="the folder of traces")
    parser.add_argument("--prices", type=Path, required=True, metavar="FILE", help="daily prices, csv.gz")
    parser.add_argument("--starts", type=int, default=7, help="moments at which each job begins in each zone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not any(options.traces.glob("*/*.json")):
        parser.error(f"{options.traces} holds no traces")
    found = report(options.traces, options.prices, options.starts)
    if options.json:
        print(json.dumps(asdict(found), indent=2))
        return
    for title, table in found.tables.items():
        print_table(title, table)
    print("\nspot only: said to be late, was late")
    for row in found.calibration:
        print(f"{row['cells']:5.0f} cells {row['said']:8.1%}{row['seen']:8.1%}")
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

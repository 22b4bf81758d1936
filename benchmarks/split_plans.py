"""How often a split plan wins within a deadline, how much it saves, and whether its promises hold.

    python -m benchmarks.split_plans --data DIR [--json]

DIR holds the table of ten CNNs on K80, M60, T4 and V100 (`cnn_on_ec2`). Each program at each image and batch size is a
training of 100 epochs that takes a given number of hours on the slowest machine, at the prices of the bundled catalog.
Deadlines lie between the times of the fastest and of the cheapest machine.

*measured*     a profile on every machine, through the code of `recommend`: estimates, terms and migration. The times
               are measured, so the savings are real.
*predicted*    `recommender/split/search.py` with erroneous times: the logarithm of each machine's time has a normal
               error of deviation σ, and a matching 90 % interval. The plan is then carried out at the true times: was
               the deadline met, was it cheaper than the single machine that the same predictions choose?
"""

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from trainfare.app.recommending.split import plan_split
from trainfare.app.recommending.workload import TrainingLength, Workload, build_workload
from trainfare.measurements.cnn_on_ec2 import read_latencies
from trainfare.model.interval import Interval, bound_exponent
from trainfare.model.machine import Host, VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.model.split import Saving
from trainfare.recommender.choose import in_order
from trainfare.recommender.limits import within_limits
from trainfare.recommender.split.saving import CostTerm, estimate_saving
from trainfare.recommender.split.search import (
    EpochLine,
    LinearGoal,
    MachineCost,
    MigrationCost,
    Split,
    best_single_machine,
    find_splits,
)
from trainfare.settings import Settings

EPOCHS = 100
BATCH_SIZE = 64
HOURS = (1, 4, 12, 48)
DEADLINES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares of the way from the time of the fastest machine to that of the cheapest."""
SIGMAS = (0.05, 0.1, 0.15, 0.25, 0.35)
CONFIDENCE = 0.9
EXPONENT = bound_exponent(0.9, CONFIDENCE)
START_SECONDS = 300.0
"""Boot and setup in the simulation of erroneous predictions."""
MIGRATION = MigrationCost(seconds=30.0, usd=0.02, high_seconds=60.0, high_usd=0.05)

Times = Mapping[str, float]
"""Seconds of an iteration by machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The share of `deadlines` for which a split was planned, and its results; all are shares of 1."""

    setting: str
    deadlines: int
    planned: float
    saved: float
    """The median saving of the plans, as a share of the cost of the single machine."""
    deadline_met: float
    cheaper: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--programs", type=int, default=60, help="number of programs, chosen at random")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    every = list(_programs(options.data))
    chosen = random.Random(0).sample(every, min(options.programs, len(every)))
    rows = [*(_measured(chosen, hours) for hours in HOURS), *(_predicted(every, sigma) for sigma in SIGMAS)]
    if options.json:
        print(json.dumps([{name: getattr(row, name) for name in Row.__slots__} for row in rows], indent=2))
        return
    print(f"{'':<34}{'deadlines':>10}{'split':>10}{'saving':>10}{'met':>8}{'cheaper':>9}")
    for row in rows:
        results = f"{row.saved:>10.1%}{row.deadline_met:>8.1%}{row.cheaper:>9.1%}" if row.planned else f"{'–':>10}"
        print(f"{row.setting:<34}{row.deadlines:>10}{row.planned:>10.0%}{results}")


def _programs(folder: Path) -> Iterator[Times]:
    """The programs that were measured on all four machines."""
    found: dict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for setting, seconds in read_latencies(folder).items():
        key = (setting.program, setting.image_side, setting.batch_size)
        found[key][f"aws/{setting.vm_type}"] = seconds
    most = max(len(times) for times in found.values())
    yield from (times for times in found.values() if len(times) == most)


def _row(setting: str, deadlines: int, savings: Sequence[float], met: int) -> Row:
    count = max(1, len(savings))
    return Row(
        setting=setting,
        deadlines=deadlines,
        planned=len(savings) / max(1, deadlines),
        saved=median(savings) if savings else 0.0,
        deadline_met=met / count,
        cheaper=sum(one > 0 for one in savings) / count,
    )


def _measured(programs: Sequence[Times], hours: float) -> Row:
    deadlines, met, savings = 0, 0, []
    for times in programs:
        workload = _workload(times, hours)
        candidates = [Candidate(offer=o, nodes=1, batch_size=BATCH_SIZE) for o in _offers(workload, times)]
        estimates = workload.estimate(candidates)
        earliest = min(e.seconds.upper_bound(CONFIDENCE) for e in estimates)
        latest = min(estimates, key=lambda e: e.usd.value).seconds.upper_bound(CONFIDENCE)
        for share in DEADLINES if latest > 1.05 * earliest else ():
            goal = Goal(deadline_seconds=earliest + share * (latest - earliest))
            inside = in_order(within_limits(estimates, goal), goal)
            plan = plan_split(workload, (*inside, *(e for e in estimates if e not in inside)), goal).plan
            deadlines += 1
            if plan is not None and plan.single_machine is not None:
                savings.append(1 - plan.usd.value / plan.single_machine.usd.value)
                met += plan.seconds.value <= (goal.deadline_seconds or 0)
    return _row(f"measured, {hours} h on the slowest", deadlines, savings, met)


def _offers(workload: Workload, times: Times) -> list[Offer]:
    on_demand = [offer for offer in workload.catalog.offers if offer.market == "on_demand"]
    return [min((o for o in on_demand if o.vm_type.key == machine), key=lambda o: o.usd_per_hour) for machine in times]


def _workload(times: Times, hours: float) -> Workload:
    iterations = max(1, round(hours * 3600 / EPOCHS / max(times.values())))
    profiles = [_profile(machine, seconds, iterations) for machine, seconds in times.items()]
    nowhere = "/nonexistent"
    return build_workload(
        profiles,
        decide=lambda _profile, _iterations: TrainingLength(epochs=EPOCHS),
        iterations_per_epoch=None,
        overheads=None,
        settings=Settings(store=nowhere, machines=f"{nowhere}/machines.toml", prices=f"{nowhere}/prices"),
    )


def _profile(machine: str, seconds: float, iterations: int) -> Profile:
    """A profile with the checkpoint of a ResNet-50: 0.3 GB with the two moments of Adam."""
    return Profile(
        id=machine,
        program=Program(command=("python", "train.py"), directory="/"),
        host=Host(name="there", vm_type=machine),
        measured_at=datetime.now(UTC),
        framework="tensorflow",
        device="cuda",
        micro_batch_size=BATCH_SIZE,
        samples=BATCH_SIZE * iterations,
        iterations_per_epoch=iterations,
        gradient_bytes=100_000_000,
        optimizer_bytes=200_000_000,
        init_seconds=10.0,
        iteration_seconds=(seconds,) * 40,
    )


def _predicted(programs: Sequence[Times], sigma: float) -> Row:
    draw = random.Random(1)
    factor = math.exp(1.645 * sigma)
    deadlines, met, savings = 0, 0, []
    prices = _prices(programs[0])
    for times in (times for times in programs for _ in range(6)):
        scale = 12 * 3600 / EPOCHS / max(times.values())
        true = [_machine_cost(machine, times[machine] * scale, prices[machine], 1.0) for machine in times]
        predicted = [_with_error(machine, math.exp(draw.gauss(0, sigma)), factor) for machine in true]
        earliest = min(_upper_seconds(machine) for machine in predicted)
        latest = _upper_seconds(min(predicted, key=lambda machine: machine.usd.at(EPOCHS)))
        deadline = earliest + draw.random() * (latest - earliest)
        goal = LinearGoal(epochs=EPOCHS, deadline_seconds=deadline, exponent=EXPONENT)
        single = best_single_machine(predicted, goal)
        if single is None or latest <= 1.05 * earliest:
            continue
        deadlines += 1
        splits = find_splits(predicted, _migration_cost, goal)[:20]
        split = next((s for s in splits if _saving(s, predicted, single, factor)), None)
        if split is not None:
            first, second, rest = true[split.first], true[split.second], EPOCHS - split.after
            seconds = first.seconds.at(split.after) + MIGRATION.seconds + second.seconds.at(rest)
            usd = first.usd.at(split.after) + MIGRATION.usd + second.usd.at(rest)
            met += seconds <= goal.deadline_seconds
            savings.append(1 - usd / true[single].usd.at(EPOCHS))
    return _row(f"predicted, σ = {sigma:g}", deadlines, savings, met)


def _upper_seconds(machine: MachineCost) -> float:
    """The bound of the time of all epochs, at the confidence of the goal."""
    value = machine.seconds.at(EPOCHS)
    return value * math.pow(machine.last_high_seconds.at(EPOCHS) / value, EXPONENT)


def _prices(times: Times) -> dict[str, float]:
    return {o.vm_type.key: o.usd_per_hour for o in _offers(_workload(times, 1.0), times)}


def _migration_cost(_i: int, _j: int) -> MigrationCost:
    return MIGRATION


def _machine_cost(machine: str, epoch_seconds: float, usd_per_hour: float, factor: float) -> MachineCost:
    seconds = EpochLine(start=START_SECONDS, per_epoch=epoch_seconds)
    usd = _scaled(seconds, usd_per_hour / 3600)
    return MachineCost(
        candidate=_candidate(machine, usd_per_hour),
        seconds=seconds,
        usd=usd,
        high_seconds=_scaled(seconds, factor),
        high_usd=_scaled(usd, factor),
        last_high_seconds=_scaled(seconds, factor),
        last_high_usd=_scaled(usd, factor),
    )


def _with_error(true: MachineCost, error: float, factor: float) -> MachineCost:
    offer = true.candidate.offer
    return _machine_cost(offer.vm_type.key, true.seconds.per_epoch * error, offer.usd_per_hour, factor)


def _candidate(machine: str, usd_per_hour: float) -> Candidate:
    provider, _, name = machine.partition("/")
    offer = Offer(
        vm_type=VmType(provider=provider, name=name, gpu=None, gpus=0, vcpus=None, memory_gib=None),
        region="somewhere",
        market="on_demand",
        usd_per_hour=usd_per_hour,
        seen_on=datetime.now(UTC).date(),
        source="benchmark",
    )
    return Candidate(offer=offer, nodes=1, batch_size=BATCH_SIZE)


def _scaled(line: EpochLine, factor: float) -> EpochLine:
    return EpochLine(start=line.start * factor, per_epoch=line.per_epoch * factor)


def _saving(split: Split, machines: Sequence[MachineCost], single: int, factor: float) -> Saving | None:
    def term(index: int, epochs: int) -> CostTerm:
        return CostTerm(error_group=index, amount=Interval.within_factor(machines[index].usd.at(epochs), factor))

    migration = CostTerm(
        error_group="migration", amount=Interval(value=MIGRATION.usd, low=0.0, high=MIGRATION.high_usd)
    )
    parts = (term(split.first, split.after), term(split.second, EPOCHS - split.after), migration)
    return estimate_saving(term(single, EPOCHS), parts, "usd")


if __name__ == "__main__":
    main()

"""How often two legs win within a deadline, how much they save, and whether what is promised comes true.

    python -m benchmarks.legs --data DIR [--json]

DIR holds the table of ten CNNs on K80, M60, T4 and V100 (`cnn_on_ec2`). Each program at each image and batch size is a
training of 100 epochs that takes so many hours on the slowest machine, at the prices of the bundled catalog. Deadlines
lie between the fastest machine and the cheapest.

*measured*     a profile on every machine, through the very code of `recommend`: estimates, terms, move and all. The
               times are those that were measured, so what is saved is saved.
*predicted*    what `recommender/split/search.py` makes of times that err: the logarithm of each machine's by a normal error of
               deviation σ, with the 90 % interval that goes with it. The advice is then carried out at the true times:
               was the deadline kept, was it cheaper than the single machine that the same predictions choose?
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
from trainfare.model.interval import Interval
from trainfare.model.machine import Host, VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.model.split import Saving
from trainfare.recommender.choose import in_order
from trainfare.recommender.limits import within_limits
from trainfare.recommender.split.search import (
    Course,
    Line,
    MigrationCost,
    Share,
    Split,
    Wanted,
    best_alone,
    saving,
    splits,
)
from trainfare.settings import Settings

EPOCHS = 100
BATCH_SIZE = 64
HOURS = (1, 4, 12, 48)
DEADLINES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""On the way from the fastest machine to the cheapest."""
SIGMAS = (0.05, 0.1, 0.15, 0.25, 0.35)
START = 300.0
"""Seconds to boot and to set up, where predictions are made to err."""
TOLL = MigrationCost(seconds=30.0, usd=0.02, most_seconds=60.0, most_usd=0.05)

Times = Mapping[str, float]
"""Machine → seconds of an iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`of` deadlines, in how many of them two legs were advised, and what came of it; shares of 1."""

    what: str
    of: int
    advised: float
    saved: float
    """The middle of those advised, of what the single machine costs."""
    deadline_kept: float
    cheaper: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--programs", type=int, default=60, help="so many of them, taken at random")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    every = list(_programs(options.data))
    chosen = random.Random(0).sample(every, min(options.programs, len(every)))  # noqa: S311 # a choice, not a secret
    rows = [*(_measured(chosen, hours) for hours in HOURS), *(_predicted(every, sigma) for sigma in SIGMAS)]
    if options.json:
        print(json.dumps([{name: getattr(row, name) for name in Row.__slots__} for row in rows], indent=2))
        return
    print(f"{'':<34}{'deadlines':>10}{'two legs':>10}{'saving':>10}{'kept':>8}{'cheaper':>9}")
    for row in rows:
        came = f"{row.saved:>10.1%}{row.deadline_kept:>8.1%}{row.cheaper:>9.1%}" if row.advised else f"{'–':>10}"
        print(f"{row.what:<34}{row.of:>10}{row.advised:>10.0%}{came}")


def _programs(folder: Path) -> Iterator[Times]:
    """Those that were measured on all four machines."""
    found: dict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for setting, seconds in read_latencies(folder).items():
        key = (setting.program, setting.image_side, setting.batch_size)
        found[key][f"aws/{setting.vm_type}"] = seconds
    most = max(len(times) for times in found.values())
    yield from (times for times in found.values() if len(times) == most)


def _row(what: str, of: int, savings: Sequence[float], kept: int) -> Row:
    count = max(1, len(savings))
    return Row(
        what=what,
        of=of,
        advised=len(savings) / max(1, of),
        saved=median(savings) if savings else 0.0,
        deadline_kept=kept / count,
        cheaper=sum(one > 0 for one in savings) / count,
    )


def _measured(programs: Sequence[Times], hours: float) -> Row:
    of, kept, savings = 0, 0, []
    for times in programs:
        workload = _fare(times, hours)
        estimates = workload.estimate([Candidate(offer=o, nodes=1, batch_size=BATCH_SIZE) for o in _offers(workload, times)])
        soonest = min(e.seconds.high for e in estimates)
        latest = min(estimates, key=lambda e: e.usd.value).seconds.high
        for share in DEADLINES if latest > 1.05 * soonest else ():
            goal = Goal(deadline_seconds=soonest + share * (latest - soonest))
            inside = in_order(within_limits(estimates, goal), goal)
            legs = plan_split(workload, (*inside, *(e for e in estimates if e not in inside)), goal).plan
            of += 1
            if legs is not None and legs.single_machine is not None:
                savings.append(1 - legs.usd.value / legs.single_machine.usd.value)
                kept += legs.seconds.value <= (goal.deadline_seconds or 0)
    return _row(f"measured, {hours} h on the slowest", of, savings, kept)


def _offers(workload: Workload, times: Times) -> list[Offer]:
    on_demand = [offer for offer in workload.catalog.offers if offer.market == "on_demand"]
    return [min((o for o in on_demand if o.vm_type.key == machine), key=lambda o: o.usd_per_hour) for machine in times]


def _fare(times: Times, hours: float) -> Workload:
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
    """With the checkpoint of a ResNet-50: 0.3 GB with Adam's two moments."""
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
    draw = random.Random(1)  # noqa: S311 # repeatable, not secret
    factor = math.exp(1.645 * sigma)
    of, kept, savings = 0, 0, []
    prices = _prices(programs[0])
    for times in (times for times in programs for _ in range(6)):
        scale = 12 * 3600 / EPOCHS / max(times.values())
        true = [_course(machine, times[machine] * scale, prices[machine], 1.0) for machine in times]
        believed = [_believed(course, math.exp(draw.gauss(0, sigma)), factor) for course in true]
        soonest = min(course.last_seconds.at(EPOCHS) for course in believed)
        latest = min(believed, key=lambda course: course.usd.at(EPOCHS)).last_seconds.at(EPOCHS)
        wanted = Wanted(epochs=EPOCHS, deadline_seconds=soonest + draw.random() * (latest - soonest))
        alone = best_alone(believed, wanted)
        if alone is None or latest <= 1.05 * soonest:
            continue
        of += 1
        split = next((s for s in splits(believed, _toll, wanted)[:20] if _sure(s, believed, alone, factor)), None)
        if split is not None:
            first, second, rest = true[split.first], true[split.second], EPOCHS - split.after
            seconds = first.seconds.at(split.after) + TOLL.seconds + second.seconds.at(rest)
            usd = first.usd.at(split.after) + TOLL.usd + second.usd.at(rest)
            kept += seconds <= wanted.deadline_seconds
            savings.append(1 - usd / true[alone].usd.at(EPOCHS))
    return _row(f"predicted, σ = {sigma:g}", of, savings, kept)


def _prices(times: Times) -> dict[str, float]:
    return {o.vm_type.key: o.usd_per_hour for o in _offers(_fare(times, 1.0), times)}


def _toll(_i: int, _j: int) -> MigrationCost:
    return TOLL


def _course(machine: str, epoch_seconds: float, usd_per_hour: float, factor: float) -> Course:
    seconds = Line(start=START, per_epoch=epoch_seconds)
    usd = _times(seconds, usd_per_hour / 3600)
    return Course(
        candidate=_candidate(machine, usd_per_hour),
        seconds=seconds,
        usd=usd,
        most_seconds=_times(seconds, factor),
        most_usd=_times(usd, factor),
        last_seconds=_times(seconds, factor),
        last_usd=_times(usd, factor),
    )


def _believed(true: Course, error: float, factor: float) -> Course:
    offer = true.candidate.offer
    return _course(offer.vm_type.key, true.seconds.per_epoch * error, offer.usd_per_hour, factor)


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


def _times(line: Line, factor: float) -> Line:
    return Line(start=line.start * factor, per_epoch=line.per_epoch * factor)


def _sure(split: Split, courses: Sequence[Course], alone: int, factor: float) -> Saving | None:
    def share(place: int, epochs: int) -> Share:
        return Share(alike=place, amount=Interval.within_factor(courses[place].usd.at(epochs), factor))

    move = Share(alike="move", amount=Interval(value=TOLL.usd, low=0.0, high=TOLL.most_usd))
    parts = (share(split.first, split.after), share(split.second, EPOCHS - split.after), move)
    return saving(share(alone, EPOCHS), parts, "usd")


if __name__ == "__main__":
    main()

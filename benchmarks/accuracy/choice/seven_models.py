"""The choice of a GPU and its number from one measured machine: K80, P100 and V100, 1 to 8 in one server.

For each model and batch, and for each machine on which it was timed, the choice is the machine with the lowest
predicted time (or cost) of the same number of samples: measured on that machine, predicted on the others from that time
and the model's operations, with the model left out of every fit. The batch per GPU stays the same, so more GPUs process
more samples per step. `deadline.py` defines the cost of a deadline.

Costs are those of EC2 alone: p2 has K80s and p3 has V100s, and two GPUs need the smallest machine with at least as
many. EC2 has no P100, so it competes in time only.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.accuracy.choice.deadline import IN_TIME, RELIABLY, Z_90, Bill, take_best, take_in_time, take_reliable
from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.more_gpus.programs import ScaledProgram, seven_programs
from benchmarks.accuracy.unseen_gpu.by_times import GPUS, ByOperations, PhysicsFits, every_program, traced_rows
from trainfare.estimator.gpu.by_times import ProgramsFit, TimedRun, fit_programs, predict_by_times
from trainfare.estimator.parallel.links import ClusterSeconds, ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.measurements.prices import PATH, DayPrice, prices_on
from trainfare.measurements.seven_models import SOURCE, seven_models
from trainfare.model.interval import Interval
from trainfare.model.measurement import MeasuredIteration

KEY = f"choice/{SOURCE}"
ON_DEMAND_DAY = "2023-07-15"
SPOT_DAYS = ("2023-01-15", "2023-07-15", "2024-01-15", "2024-07-15")
FOLDS = 3
MACHINES = {
    "K80": ((1, "p2.xlarge"), (8, "p2.8xlarge"), (16, "p2.16xlarge")),
    "V100": ((1, "p3.2xlarge"), (4, "p3.8xlarge"), (8, "p3.16xlarge")),
}

Machine = tuple[str, int]
"""The name of a GPU and the number of them."""
Seconds = Mapping[Machine, float]
"""Seconds of as many samples as one GPU has in a step, by machine."""
Prices = Mapping[Machine, float]


@dataclass(frozen=True, slots=True)
class Case:
    truth: Seconds
    predicted: Mapping[str, Seconds]
    high: Seconds
    """Upper ends of our intervals."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    cases = list(_cases(fit, test))
    everything = {machine: 1.0 for case in cases for machine in case.truth}
    yield _judged("time", cases, [everything], take_best, "seconds of the same number of samples")
    folder = test if test is not None and (test / PATH).is_file() else fit
    if not (folder / PATH).is_file():
        return
    on_demand = _priced(prices_on(folder, ON_DEMAND_DAY), everything, lambda price: price.on_demand)
    spot = [_priced(prices_on(folder, day), everything, lambda price: price.spot) for day in SPOT_DAYS]
    without = "EC2 only, without P100"
    if on_demand:
        yield _judged("cost", cases, [on_demand], take_best, f"prices of {ON_DEMAND_DAY}, {without}")
        yield _judged("deadline", cases, [on_demand], take_in_time, f"{IN_TIME}; {without}")
        yield _judged("deadline/surely", cases, [on_demand], take_reliable, f"{RELIABLY}; {without}")
    if any(spot):
        yield _judged("cost-spot", cases, [day for day in spot if day], take_best, f"{', '.join(SPOT_DAYS)}, {without}")


def _cases(fit: Path, test: Path | None) -> Iterator[Case]:
    """One case per machine on which a model and batch was timed, if there are several machines."""
    asked: dict[str, list[MeasuredIteration]] = defaultdict(list)
    for row in seven_models(fit if test is None else test):
        if row.machine == "one" and row.gpu in GPUS:
            asked[row.program].append(row)
    known, clusters = every_program(fit), seven_programs(fit)
    physics = PhysicsFits(traced_rows(fit), [row for rows in asked.values() for row in rows]).without(())
    for name, rows in asked.items():
        alone = fit_programs([row for row in known if row.program != name], GPUS)
        several = _links([program for program in clusters if program.name != name])
        for batch in dict.fromkeys(row.batch_size for row in rows):
            timed = {(row.gpu, row.gpus): row for row in rows if row.batch_size == batch}
            truth = {machine: row.seconds / row.gpus for machine, row in timed.items()}
            if len(truth) > 1:
                yield from (_case(row, truth, alone, several, physics) for row in timed.values())


def _links(clusters: Sequence[ScaledProgram]) -> ScalingFit:
    return fit_links([step for program in clusters for step in program.cluster_steps()], folds=FOLDS)


def _case(
    here: MeasuredIteration, truth: Seconds, alone: ProgramsFit, several: ScalingFit, physics: ByOperations | None
) -> Case:
    single = _on_one(here, several)
    ours: dict[Machine, float] = {}
    deviations: dict[Machine, float] = {}
    peak: dict[Machine, float] = {}
    for gpu, gpus in truth:
        there, deviation = single, 0.0
        if gpu != here.gpu:
            found = _elsewhere(replace(here, seconds=single, gpus=1), gpu, alone, physics)
            there, deviation = found.value, _deviation(found.low, found.high)
        together = _on_several(there, here, gpu, gpus, several)
        ours[gpu, gpus] = together.seconds / gpus
        deviations[gpu, gpus] = math.hypot(deviation, _deviation(together.low, together.high))
        ratio = GPUS[here.gpu].peak_flops_per_second(here.dtype) / GPUS[gpu].peak_flops_per_second(here.dtype)
        peak[gpu, gpus] = here.seconds * ratio / gpus
    measured = {(here.gpu, here.gpus): here.seconds / here.gpus}
    high = {machine: ours[machine] * math.exp(Z_90 * deviation) for machine, deviation in deviations.items()}
    return Case(truth, {"ours": {**ours, **measured}, "peak FLOPs": {**peak, **measured}}, {**high, **measured})


def _elsewhere(here: MeasuredIteration, gpu: str, alone: ProgramsFit, physics: ByOperations | None) -> Interval:
    """The predicted time of the same step on another GPU."""
    known = [TimedRun(gpu=GPUS[here.gpu], seconds=here.seconds, batch_size=here.batch_size)]
    found = predict_by_times(known, GPUS[gpu], here.dtype, alone)
    return physics.with_times(here, gpu, [here], found) if physics is not None else found


def _deviation(low: float, high: float) -> float:
    return math.log(high / low) / (2 * Z_90)


def _on_several(seconds: float, here: MeasuredIteration, gpu: str, gpus: int, fit: ScalingFit) -> ClusterSeconds:
    if gpus == 1:
        return ClusterSeconds(seconds=seconds, low=seconds, high=seconds, sync_seconds=0.0, limited_by="computing")
    step = ClusterStep(
        program=here.program,
        family=here.family,
        gpu=GPUS[gpu],
        gpus=gpus,
        nodes=1,
        single_gpu_seconds=seconds,
        seconds=seconds,
        gradient_bytes=here.gradient_bytes,
        machine=f"{gpu}, one",
    )
    return predict_cluster_step(step, fit)


def _on_one(here: MeasuredIteration, fit: ScalingFit) -> float:
    """The step on one GPU that predicts the step measured on several, by bisection."""
    low, high = here.seconds / 100, here.seconds * 2
    for _ in range(40):
        middle = math.sqrt(low * high)
        if _on_several(middle, here, here.gpu, here.gpus, fit).seconds < here.seconds:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def _judged(part: str, cases: Sequence[Case], days: Sequence[Prices], bill: Bill[Machine], note: str) -> Judged:
    best: list[float] = []
    paid: dict[str, list[float]] = defaultdict(list)
    fixed: dict[Machine, list[float]] = defaultdict(list)
    for price in days:
        for case in cases:
            truth = {machine: seconds for machine, seconds in case.truth.items() if machine in price}
            if len(truth) < 2:
                continue
            best.append(bill(truth, {}, truth, price))
            for way, predicted in case.predicted.items():
                high = case.high if way == "ours" else {}
                paid[way].append(bill({machine: predicted[machine] for machine in truth}, high, truth, price))
            for machine in price:
                taken = machine if machine in truth else _fallback(machine, truth)
                fixed[machine].append(bill({taken: truth[taken]}, {}, truth, price))
    mean = {machine: float(np.mean(np.array(costs) / best)) for machine, costs in fixed.items()}
    baselines = {"peak FLOPs": paid["peak FLOPs"]}
    for gpu, gpus in sorted(mean, key=lambda machine: mean[machine])[:3]:
        baselines[f"always {gpu} × {gpus}"] = fixed[gpu, gpus]
    return Judged.of(f"{KEY}/{part}", best, paid["ours"], baselines=baselines, regret=True, note=note)


def _fallback(machine: Machine, truth: Seconds) -> Machine:
    """The machine for a program that does not run on the fixed one: the same GPU in a smaller number, or any."""
    smaller = [other for other in truth if other[0] == machine[0] and other[1] <= machine[1]]
    return max(smaller or list(truth), key=lambda other: other[1])


def _priced(
    day: Mapping[str, DayPrice], machines: Mapping[Machine, float], of: Callable[[DayPrice], float | None]
) -> dict[Machine, float]:
    """Dollars per hour of the smallest machine type with at least as many GPUs."""
    found: dict[Machine, float] = {}
    for gpu, gpus in machines:
        large_enough = [name for size, name in MACHINES.get(gpu, ()) if size >= gpus]
        price = of(day[large_enough[0]]) if large_enough and large_enough[0] in day else None
        if price is not None:
            found[gpu, gpus] = price
    return found

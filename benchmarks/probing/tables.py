"""The public tables as problems, one setting each: the times of programs on machines, and the prices of a day.

Our models predict with the program (or its family) left out of every fit, from its time on one machine.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.ec2_rows import predicted_rows
from benchmarks.accuracy.more_gpus.programs import seven_programs, t4_programs
from benchmarks.accuracy.unseen_gpu.by_times import GPUS, every_program, rented_rows
from benchmarks.probing.problem import ONE_MACHINE_EXPONENT, Array, Machine, PredictFrom, Problem
from trainfare.catalog.bundled import load_offers
from trainfare.estimator.gpu.by_times import ProgramsFit, TimedRun, fit_programs, predict_by_times
from trainfare.estimator.parallel.links import ClusterStep, ScalingFit, fit_links, predict_cluster_step
from trainfare.measurements.cnn_on_ec2 import gpu_of
from trainfare.measurements.data_parallel import NETWORK_GB_PER_SECOND, data_parallel_t4
from trainfare.measurements.data_parallel import SOURCE as T4_TABLE
from trainfare.measurements.prices import DayPrice, prices_on
from trainfare.measurements.seven_models import seven_models
from trainfare.model.measurement import MeasuredIteration
from trainfare.papers.malta.page import BATCH_SIZES, MACHINES, table, usd_per_hour
from trainfare.recommender.probing.next_probe import GPU_FACTS_PRIOR, NOISE

ON_DEMAND_DAY = "2023-07-15"
SPOT_DAYS = ("2023-01-15", "2023-07-15", "2024-01-15", "2024-07-15")
FOLDS = 3
NINETY = 1.645
EC2 = {
    "K80": ((1, "p2.xlarge"), (8, "p2.8xlarge"), (16, "p2.16xlarge")),
    "V100": ((1, "p3.2xlarge"), (4, "p3.8xlarge"), (8, "p3.16xlarge")),
}
EC2_GPUS = {"p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16, "p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8}
GOOGLE = {"K80": 0.45, "P100": 1.46, "V100": 2.48}
"""Dollars an hour of the accelerator alone: Malta 2021, table 3.4, and Sanghvi 2021, table I."""
SAMPLED_EVERY = 4
"""Every fourth program, image side and batch of `cnn_on_ec2`: all of them give the same result and take longer."""
USD_PER_HOUR_OF_TIME = 20.0
"""The value of an hour in the setting in which time counts: four times the price of a machine with four T4s."""
BATCH_DEVIATION = 0.15
"""Added deviation of a time at e times the batch, if the number of epochs may change with the batch."""
T4_BATCHES = {"cifar10": 128.0, "imagenet": 81.0, "ncf": 1025.0, "yolov3": 8.0}
"""Batch sizes per GPU; the nearest one in the table is used."""


def problems(folder: Path) -> Iterator[Problem]:
    """All problems; tables that the folder lacks are skipped. Malta's tables are part of the project."""
    yield from _malta(folder)
    for read in (_cnn_on_ec2, _seven_models, _rented, _t4):
        try:
            yield from read(folder)
        except FileNotFoundError as error:
            print(f"skipped, because a file is missing: {error}", file=sys.stderr)


# Malta 2021, tables 4.1 and 4.2: seconds of complete trainings at the prices of February 2021


def _malta(folder: Path) -> Iterator[Problem]:
    by_times, links = _fits_without_malta(folder)
    prices = usd_per_hour()
    for name, source in (("seismic", "malta-4.1"), ("CIFAR-10", "malta-4.2")):
        page = table(source)
        seconds = {(m, b): page.number(f"{m}, {b}", "time (s)").value for m in MACHINES for b in BATCH_SIZES}
        for batch in BATCH_SIZES:
            options = [(machine, batch) for machine in MACHINES]
            yield _malta_problem(f"Malta {name}", f"{name} {batch}", options, seconds, prices, by_times, links)
        yield _malta_problem("Malta machine × batch", name, list(seconds), seconds, prices, by_times, links)


def _malta_problem(
    setting: str,
    name: str,
    options: Sequence[tuple[str, int]],
    seconds: Mapping[tuple[str, int], float],
    prices: Mapping[str, float],
    by_times: ProgramsFit | None,
    links: ScalingFit | None,
) -> Problem:
    machines = tuple(
        Machine(
            name=f"{machine} at {batch}",
            gpu=GPUS["K80" if machine.startswith("p2") else "V100"],
            gpus=EC2_GPUS[machine],
            usd_per_hour=prices[machine],
            wiring=f"{'K80' if machine.startswith('p2') else 'V100'}, one",
        )
        for machine, batch in options
    )
    truth = np.array([seconds[option] for option in options])
    batches = [float(batch) for _, batch in options]
    return Problem(
        setting=setting,
        name=name,
        machines=machines,
        seconds=truth,
        predict_from=_predictions(machines, truth, batches, by_times, links, shared=True),
    )


# cnn_on_ec2: operators timed on one machine type, transferred to the others


def _cnn_on_ec2(folder: Path) -> Iterator[Problem]:
    rows, answers = predicted_rows(folder, None, "family")
    found: dict[tuple[str, int, float], dict[str, dict[str, tuple[float, float]]]] = defaultdict(dict)
    truth: dict[tuple[str, int, float], dict[str, float]] = defaultdict(dict)
    for row, answer in zip(rows, answers, strict=True):
        key = (row.profile.program, row.profile.image_side, row.profile.batch_size)
        truth[key] |= {row.profile.vm_type: row.profile.seconds, row.to: row.seconds}
        own = found[key].setdefault(row.profile.vm_type, {})
        own[row.to] = (answer.value, math.log(answer.high / answer.low) / (2 * NINETY))
    days: dict[str, list[tuple[str, Callable[[DayPrice], float | None]]]] = {
        "cnn_on_ec2 on demand": [(ON_DEMAND_DAY, _on_demand)],
        "cnn_on_ec2 spot": [(day, _spot) for day in SPOT_DAYS],
    }
    for setting, priced in days.items():
        for day, market in priced:
            prices = prices_on(folder, day)
            for key in list(truth)[:: SAMPLED_EVERY * len(priced)]:
                names = [n for n in truth[key] if n in prices and market(prices[n]) and n in found[key]]
                if len(names) > 2:
                    yield _ec2_problem(setting, f"{key} {day}", names, truth[key], found[key], prices, market)


def _ec2_problem(
    setting: str,
    name: str,
    names: Sequence[str],
    truth: Mapping[str, float],
    found: Mapping[str, Mapping[str, tuple[float, float]]],
    prices: Mapping[str, DayPrice],
    market: Callable[[DayPrice], float | None],
) -> Problem:
    def predict_from(index: int) -> tuple[Array, Array]:
        here = names[index]
        predicted = [(truth[here], NOISE) if to == here else found[here].get(to, (math.nan, 1.0)) for to in names]
        return np.array([seconds for seconds, _ in predicted]), np.array([deviation for _, deviation in predicted])

    return Problem(
        setting=setting,
        name=name,
        machines=tuple(Machine(name=n, gpu=GPUS[gpu_of(n)], usd_per_hour=market(prices[n]) or 0.0) for n in names),
        seconds=np.array([truth[n] for n in names]),
        predict_from=predict_from,
    )


def _on_demand(price: DayPrice) -> float | None:
    return price.on_demand


def _spot(price: DayPrice) -> float | None:
    return price.spot


# seven_models: K80, P100 and V100, one to eight on one server or each on its own


def _seven_models(folder: Path) -> Iterator[Problem]:
    programs: dict[str, list[MeasuredIteration]] = defaultdict(list)
    for row in seven_models(folder):
        if row.gpu in GPUS:
            programs[row.program].append(row)
    known, clusters = every_program(folder), seven_programs(folder)
    days = [prices_on(folder, day) for day in SPOT_DAYS]
    for program, rows in programs.items():
        by_times = fit_programs([row for row in known if row.program != program], GPUS)
        links = fit_links([s for p in clusters if p.name != program for s in p.cluster_steps()], folds=FOLDS)
        for number, batch in enumerate(dict.fromkeys(row.batch_size for row in rows)):
            # One GPU was timed under both headings, and is up to eleven times slower under "many": another program.
            own = [r for r in rows if r.batch_size == batch and (r.gpus > 1 or r.machine == "one")]
            timed = {(r.gpu, r.gpus, r.nodes): r for r in own}
            ways = (
                ("seven_models on demand", _ec2_price(prices_on(folder, ON_DEMAND_DAY), _on_demand)),
                ("seven_models spot", _ec2_price(days[number % len(days)], _spot)),
                ("seven_models Google", lambda gpu, gpus, _nodes: gpus * GOOGLE[gpu] if gpu in GOOGLE else None),
            )
            for setting, price in ways:
                yield from _seven_problem(setting, f"{program} {batch:g}", timed, price, by_times, links)


def _seven_problem(
    setting: str,
    name: str,
    timed: Mapping[tuple[str, int, int], MeasuredIteration],
    price: Callable[[str, int, int], float | None],
    by_times: ProgramsFit,
    links: ScalingFit,
) -> Iterator[Problem]:
    rows = [(row, usd) for key, row in timed.items() if (usd := price(*key)) is not None]
    if len(rows) < 3:
        return
    machines = tuple(
        Machine(
            name=f"{row.gpus} × {row.gpu}, {row.machine}",
            gpu=GPUS[row.gpu],
            gpus=row.gpus,
            nodes=row.nodes,
            usd_per_hour=usd,
            wiring=f"{row.gpu}, {row.machine}",
        )
        for row, usd in rows
    )
    truth = np.array([row.seconds / (row.batch_size * row.gpus) for row, _ in rows])
    batches = [row.batch_size for row, _ in rows]
    gradient = rows[0][0].gradient_bytes
    yield Problem(
        setting=setting,
        name=name,
        machines=machines,
        seconds=truth,
        predict_from=_predictions(machines, truth, batches, by_times, links, gradient_bytes=gradient, shared=False),
    )


def _ec2_price(
    day: Mapping[str, DayPrice], market: Callable[[DayPrice], float | None]
) -> Callable[[str, int, int], float | None]:
    """The price of the smallest machine type with as many GPUs; over several nodes, of as many types with one GPU."""

    def price(gpu: str, gpus: int, nodes: int) -> float | None:
        types = [name for size, name in EC2.get(gpu, ()) if size >= (gpus if nodes == 1 else 1)]
        usd = market(day[types[0]]) if types and types[0] in day else None
        return None if usd is None else usd * nodes

    return price


# rented_gpus at the prices of the bundled catalog


def _rented(folder: Path) -> Iterator[Problem]:
    cheapest: dict[str, float] = {}
    for offer in load_offers():
        vm_type = offer.vm_type
        if offer.market == "on_demand" and vm_type.gpu and vm_type.gpus == 1 and offer.retired_on is None:
            cheapest[vm_type.gpu.name] = min(offer.usd_per_hour, cheapest.get(vm_type.gpu.name, math.inf))
    programs: dict[tuple[str, str], list[MeasuredIteration]] = defaultdict(list)
    rows, known = rented_rows(folder), every_program(folder)
    for row in rows:
        if row.gpu in cheapest and row.gpu in GPUS:
            programs[row.program, row.dtype].append(row)
    fits: dict[str, ProgramsFit] = {}
    for (program, dtype), own in programs.items():
        if program not in fits:
            fits[program] = fit_programs([row for row in known if row.program != program], GPUS)
        machines = tuple(Machine(name=r.gpu, gpu=GPUS[r.gpu], usd_per_hour=cheapest[r.gpu]) for r in own)
        # The batch differs with the memory, so the work is counted in samples.
        truth = np.array([row.seconds / row.batch_size for row in own])
        batches = [row.batch_size for row in own]
        yield Problem(
            setting="rented_gpus",
            name=f"{program} {dtype}",
            machines=machines,
            seconds=truth,
            predict_from=_predictions(machines, truth, batches, fits[program], None, dtype=dtype, shared=False),
        )


# data_parallel_t4: the number of T4s, if time has a price


def _t4(folder: Path) -> Iterator[Problem]:
    price = prices_on(folder, ON_DEMAND_DAY)["g4dn.12xlarge"].on_demand or 0.0
    others = [*t4_programs(folder), *seven_programs(folder)]
    programs: dict[str, list[MeasuredIteration]] = defaultdict(list)
    for row in data_parallel_t4(folder):
        programs[row.program].append(row)
    for program, rows in programs.items():
        target = T4_BATCHES.get(program, 64.0)
        batch = min({row.batch_size for row in rows}, key=lambda b: abs(math.log(b / target)))
        placements = {(r.gpus, r.nodes): r for r in rows if r.batch_size == batch and r.nodes == math.ceil(r.gpus / 4)}
        own = [placements[key] for key in sorted(placements)]
        links = fit_links([s for p in others if p.name != program for s in p.cluster_steps()], folds=FOLDS)
        machines = tuple(
            Machine(
                name=f"{r.gpus} × T4 on {r.nodes}", gpu=GPUS["T4"], gpus=r.gpus, nodes=r.nodes,
                usd_per_hour=price * r.nodes, wiring="T4",
            )
            for r in own
        )  # fmt: skip
        truth = np.array([row.seconds / (row.batch_size * row.gpus) for row in own])
        yield Problem(
            setting=f"{T4_TABLE}, an hour is worth ${USD_PER_HOUR_OF_TIME:g}",
            name=program,
            machines=machines,
            seconds=truth,
            usd_per_hour_of_time=USD_PER_HOUR_OF_TIME,
            predict_from=_predictions(
                machines, truth, [batch] * len(own), None, links, gradient_bytes=own[0].gradient_bytes, shared=False
            ),
        )


# The predictions of our models for all machines from a time on one


def _fits_without_malta(folder: Path) -> tuple[ProgramsFit | None, ScalingFit | None]:
    """The fits by times and of links, without Malta's programs."""
    known = every_program(folder)
    try:
        steps = [step for program in seven_programs(folder) for step in program.cluster_steps()]
    except FileNotFoundError:
        steps = []
    return fit_programs(known, GPUS) if known else None, fit_links(steps, folds=FOLDS) if steps else None


def _predictions(
    machines: tuple[Machine, ...],
    truth: Array,
    batches: Sequence[float],
    by_times: ProgramsFit | None,
    links: ScalingFit | None,
    *,
    dtype: str = "float32",
    gradient_bytes: float | None = None,
    shared: bool,
) -> PredictFrom:
    """Predictions from GPU to GPU by times and from one GPU to several by links, as in the product.

    With `shared` a batch size is that of all GPUs together, else of each GPU. Times are per sample, or per batch.
    """

    def own_batch(index: int) -> float:
        return max(1.0, batches[index] / (machines[index].gpus if shared else 1))

    def on_all_gpus(seconds: float, machine: Machine) -> tuple[float, float]:
        """The step on all GPUs of the machine, from a step on one, and the deviation of its logarithm."""
        if machine.gpus == 1:
            return seconds, 0.0
        if links is None:
            return seconds * machine.gpus ** (1 - ONE_MACHINE_EXPONENT), GPU_FACTS_PRIOR.scaling * math.log(
                machine.gpus
            )
        found = predict_cluster_step(_step(machine, seconds, gradient_bytes), links)
        return found.seconds, math.log(found.high / found.low) / (2 * NINETY)

    def predict_from(index: int) -> tuple[Array, Array]:
        here = machines[index]
        samples = own_batch(index) * here.gpus
        step = truth[index] * samples
        single = _bisect(lambda s: on_all_gpus(s, here)[0], step)
        seconds, deviations = truth.copy(), np.full(len(machines), NOISE)
        for there, machine in enumerate(machines):
            if there == index:
                continue
            one, deviation = _on_other_gpu(single, here, machine, own_batch(index), own_batch(there), dtype, by_times)
            step_seconds, more = on_all_gpus(one, machine)
            seconds[there] = step_seconds / (own_batch(there) * machine.gpus)
            epochs = BATCH_DEVIATION * abs(math.log(batches[there] / batches[index])) if shared else 0.0
            deviations[there] = math.hypot(deviation, more, epochs, NOISE)
        return seconds, deviations

    return predict_from


def _on_other_gpu(
    seconds: float, here: Machine, there: Machine, batch: float, other: float, dtype: str, fit: ProgramsFit | None
) -> tuple[float, float]:
    """The step on another GPU and the deviation of its logarithm: by the fit, else by GPU facts."""
    if here.gpu == there.gpu and batch == other:
        return seconds, 0.0
    if fit is None:
        ratio = here.gpu.fp32_tflops / there.gpu.fp32_tflops
        return (
            seconds * ratio * other / batch,
            GPU_FACTS_PRIOR.own if here.gpu != there.gpu else GPU_FACTS_PRIOR.own / 2,
        )
    known = [TimedRun(gpu=here.gpu, seconds=seconds, batch_size=batch)]
    found = predict_by_times(known, there.gpu, dtype, fit, batch_size=other)
    return found.value, math.log(found.high / found.low) / (2 * NINETY)


def _step(machine: Machine, seconds: float, gradient_bytes: float | None) -> ClusterStep:
    return ClusterStep(
        program="predicted",
        family="predicted",
        gpu=machine.gpu,
        gpus=machine.gpus,
        nodes=machine.nodes,
        single_gpu_seconds=seconds,
        seconds=seconds,
        gradient_bytes=gradient_bytes,
        network_gb_per_second=NETWORK_GB_PER_SECOND if machine.gpu.name == "T4" else None,
        machine=machine.wiring,
    )


def _bisect(function: Callable[[float], float], value: float) -> float:
    """The argument at which an increasing function has this value."""
    low, high = value / 100, value * 2
    for _ in range(40):
        middle = math.sqrt(low * high)
        if function(middle) < value:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)

"""Figures 4.3 to 4.11 and 5.2 to 5.5, from the printed tables and our calculations."""

from collections.abc import Iterable

from trainfare.catalog.bundled import load_offers
from trainfare.estimator.epochs.two_epochs import cost_usd
from trainfare.estimator.step.measured import StepTimes
from trainfare.figures.chart import Chart, Series
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.papers.malta.epochs import epoch_estimate, run_seconds, run_usd
from trainfare.papers.malta.page import BATCH_SIZES, MACHINES, seconds, table, usd_per_hour
from trainfare.papers.malta.simulations import BLOCKS, TableBlock, simulate_seconds, undisturbed_anchor
from trainfare.recommender.crossovers import winning_ranges

BATCH_LABEL = "batch size"
SECONDS_LABEL = "time in seconds"
ITERATIONS_SHOWN = 12
EPOCHS_SHOWN = 30


def figures() -> tuple[Chart, ...]:
    return (
        _runtimes("malta-4.3", "malta-4.1", "Seismic: time by batch size"),
        _runtimes("malta-4.4", "malta-4.2", "CIFAR-10: time by batch size"),
        Chart(
            name="malta-4.5",
            title="Final accuracy by batch size",
            note="the accuracies are not printed",
        ),
        _costs("malta-4.6", "malta-4.1", "Seismic: cost and time"),
        _costs("malta-4.7", "malta-4.2", "CIFAR-10: cost and time"),
        _epoch_times(),
        _real_and_estimated(),
        _estimated_costs(),
        Chart(
            name="malta-4.11",
            title="MNIST: real and estimated time",
            note="neither the runs of MNIST nor their epochs are printed",
        ),
        _iteration_times(),
        _validation_times(),
        _simulation("malta-5.4", "Seismic, batch 256: simulated time", BLOCKS[0], undisturbed_anchor(BLOCKS[0])),
        _simulation("malta-5.5", "MNIST, batch 2048: simulated time", _without_validation("malta-5.12"), None),
    )


def _machine_series(machine: str, points: Iterable[tuple[float, float]], *, chosen: str, joined: bool = True) -> Series:
    """The series of a machine; p2 is dashed and p3 is not, so that families differ in grey."""
    return Series(
        label=machine,
        points=tuple(points),
        chosen=machine == chosen,
        dashed=machine.startswith("p2"),
        joined=joined,
    )


def _runtimes(name: str, source: str, title: str) -> Chart:
    times = {m: [(float(size), run_seconds(source, m, size).value) for size in BATCH_SIZES] for m in MACHINES}
    fastest = min(MACHINES, key=lambda machine: min(time for _, time in times[machine]))
    return Chart(
        name=name,
        title=title,
        x=BATCH_LABEL,
        y=SECONDS_LABEL,
        log_x=True,
        log_y=True,
        x_ticks=tuple(map(float, BATCH_SIZES)),
        series=tuple(_machine_series(m, times[m], chosen=fastest) for m in MACHINES),
        note=f"means of table {source.removeprefix('malta-')}; the fastest is highlighted",
    )


def _costs(name: str, source: str, title: str) -> Chart:
    """Our costs, price × time, not the printed ones."""
    points = {
        m: [(run_seconds(source, m, size).value, run_usd(source, m, size).value) for size in BATCH_SIZES]
        for m in MACHINES
    }
    cheapest = min(MACHINES, key=lambda machine: min(usd for _, usd in points[machine]))
    return Chart(
        name=name,
        title=title,
        x=SECONDS_LABEL,
        y="cost",
        y_quantity="usd",
        log_x=True,
        log_y=True,
        series=tuple(_machine_series(m, points[m], chosen=cheapest, joined=False) for m in MACHINES),
        front=_front([point for each in points.values() for point in each]),
        note=f"times of table {source.removeprefix('malta-')}, costs by price × time; four batch sizes per machine",
    )


def _front(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return tuple(front)


def _epoch_times() -> Chart:
    page = table("malta-5.2")
    series = []
    for size in map(str, BATCH_SIZES):
        first, later = (page.number(size, column).value for column in ("first epoch (s)", "mean epoch (s)"))
        count = round(page.number(size, "epochs").value)
        points = ((1.0, first), *((float(epoch), later) for epoch in range(2, count + 1)))
        series.append(Series(label=f"batch {size}", points=points))
    return Chart(
        name="malta-4.8",
        title="Seismic on p2.xlarge: time of each epoch",
        x="epoch",
        y=SECONDS_LABEL,
        series=tuple(series),
        note="p2.xlarge only, and the mean for every epoch after the first: table 5.2 has no more",
    )


def _real_and_estimated() -> Chart:
    page = table("malta-5.2")
    real = tuple((float(size), page.number(str(size), "real (s)").value) for size in BATCH_SIZES)
    ours = tuple((float(size), epoch_estimate(size).value) for size in BATCH_SIZES)
    return Chart(
        name="malta-4.9",
        title="Seismic on p2.xlarge: real and estimated time",
        x=BATCH_LABEL,
        y=SECONDS_LABEL,
        log_x=True,
        x_ticks=tuple(map(float, BATCH_SIZES)),
        series=(
            Series(label="real", points=real, dashed=True),
            Series(label="equation 5.1", points=ours, chosen=True),
        ),
        note="p2.xlarge only, from table 5.2; the epochs of the other machines are not printed",
    )


def _estimated_costs() -> Chart:
    price = usd_per_hour()["p2.xlarge"]
    times = [epoch_estimate(size) for size in BATCH_SIZES]
    points = tuple((time.value, cost_usd([time], usd_per_hour=price).value) for time in times)
    return Chart(
        name="malta-4.10",
        title="Seismic on p2.xlarge: estimated cost and time",
        x=SECONDS_LABEL,
        y="cost",
        y_quantity="usd",
        series=(
            Series(
                label="",
                points=points,
                joined=False,
                chosen=True,
                names=tuple(f"batch {size}" for size in BATCH_SIZES),
            ),
        ),
        note="p2.xlarge only, from table 5.2; the epochs of the other machines are not printed",
    )


def _iteration_times() -> Chart:
    page = table("malta-5.3")
    series = []
    for size in ("256", "512"):
        first, later = (page.number(size, column).value for column in ("first iteration (s)", "second iteration (s)"))
        points = ((1.0, first), *((float(number), later) for number in range(2, ITERATIONS_SHOWN + 1)))
        series.append(Series(label=f"batch {size}", points=points, dashed=size == "512"))
    return Chart(
        name="malta-5.2",
        title="Seismic on p2.xlarge: time of each iteration",
        x="iteration",
        y=SECONDS_LABEL,
        log_y=True,
        series=tuple(series),
        note="the first iteration, and the second for all later ones: table 5.3 has no more",
    )


def _validation_times() -> Chart:
    page = table("malta-5.3")
    series = []
    for size, label in (("256", "batch 256, 512"), ("1024", "batch 1024, 2048")):
        first, later = (
            seconds(page, size, column).value for column in ("first validation (s)", "second validation (s)")
        )
        points = ((1.0, first), *((float(epoch), later) for epoch in range(2, 14)))
        series.append(Series(label=label, points=points, dashed=size == "256"))
    return Chart(
        name="malta-5.3",
        title="Seismic on p2.xlarge: time of each validation",
        x="epoch",
        y=SECONDS_LABEL,
        series=tuple(series),
        note="the first validation, and the second for all later ones, from section 5.2",
    )


def _simulation(name: str, title: str, block: TableBlock, anchor: StepTimes | None) -> Chart:
    """Lines through the outer columns, up to the epochs that the document draws."""
    few, many = block.epochs[0], block.epochs[-1]
    at_few, at_many = simulate_seconds(block, few, anchor=anchor), simulate_seconds(block, many, anchor=anchor)

    def line(machine: str, epochs: int) -> float:
        per_epoch = (at_many[machine].value - at_few[machine].value) / (many - few)
        return at_few[machine].value + per_epoch * (epochs - few)

    lines = {machine: [line(machine, epochs) for epochs in range(1, EPOCHS_SHOWN + 1)] for machine in MACHINES}
    fastest = min(MACHINES, key=lambda machine: lines[machine][-1])
    return Chart(
        name=name,
        title=title,
        x="epochs",
        y=SECONDS_LABEL,
        series=tuple(
            _machine_series(m, ((float(n), t) for n, t in enumerate(lines[m], start=1)), chosen=fastest)
            for m in MACHINES
        ),
        marks=_changes(lines),
        note=f"lines through the columns of table {block.time_table.removeprefix('malta-')} for {few} and {many} "
        f"epochs, with the seconds of {block.anchor}",
    )


def _changes(lines: dict[str, list[float]]) -> tuple[tuple[float, str], ...]:
    """The numbers of epochs from which another machine is the fastest, with labels."""
    once = [_estimate(machine, times[0], 1) for machine, times in lines.items()]
    twice = [_estimate(machine, times[1], 2) for machine, times in lines.items()]
    found = winning_ranges(once, twice, Goal(kind="fastest"))
    return tuple(
        (float(won.first), f"from {won.first} epochs on\n{won.estimate.candidate.offer.vm_type.name}")
        for won in found[1:]
        if won.first <= EPOCHS_SHOWN
    )


def _estimate(machine: str, time: float, epochs: int) -> Estimate:
    candidate = Candidate(offer=_offer(machine), nodes=1, batch_size=None)
    seconds = Interval.exactly(time)
    return Estimate(
        candidate=candidate,
        profile_id="published",
        epochs=epochs,
        basis="measured",
        iteration_seconds=seconds,
        phases=(Phase(name="steady iterations", seconds=seconds),),
        seconds=seconds,
        usd=cost_usd([seconds], usd_per_hour=candidate.usd_per_hour),
    )


def _offer(machine: str) -> Offer:
    return next(offer for offer in load_offers() if offer.vm_type.key == f"aws/{machine}")


def _without_validation(time_table: str) -> TableBlock:
    return next(b for b in BLOCKS if b.time_table == time_table and b.time_prefix.startswith("without"))

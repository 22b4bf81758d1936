"""Chapter 4 and table 5.2: runs to the end on every machine, and the method of two epochs."""

from functools import cache

from trainfare.estimator.cost.relative import relative_saving, speedup
from trainfare.estimator.epochs.two_epochs import EpochTimes, cost_usd, training_seconds
from trainfare.model.interval import Interval
from trainfare.papers.judge import Misprint, Misprints, judged, judged_words, not_recomputable
from trainfare.papers.malta.page import (
    BATCH_SIZES,
    CIFAR_SAMPLES,
    MACHINES,
    MNIST_SAMPLES,
    SEISMIC_SAMPLES,
    error_pct,
    seconds,
    table,
    usd_per_hour,
    where,
)
from trainfare.papers.printed import Printed
from trainfare.papers.published import Cell, PublishedTable
from trainfare.papers.row import Row
from trainfare.units import SECONDS_PER_HOUR

RUNS = {"malta-4.1": 5, "malta-4.2": 3}
"""Section 4.1: five runs of seismic, three of CIFAR-10."""

SAMPLES = {"seismic": SEISMIC_SAMPLES, "CIFAR-10": CIFAR_SAMPLES, "MNIST": MNIST_SAMPLES}

CIFAR_TRAINED_ON = 45_000
"""TensorFlow's CIFAR-10 example keeps 5 000 of the 50 000 for validation."""

NOT_PRINTED = {
    "malta-4.4": "two epochs on this machine at four batch sizes; their times are nowhere printed",
    "malta-4.5": "MNIST's times on this machine are nowhere printed",
}

ONE_DECIMAL = "Printed with a zero after one decimal"


def rows() -> tuple[Row, ...]:
    return (*_runtimes("malta-4.1"), *_runtimes("malta-4.2"), *_epochs(), *_method_costs(), *_estimates())


def run_seconds(name: str, machine: str, batch_size: int) -> Interval:
    """Of a run to its end, as tables 4.1 and 4.2 have it."""
    return seconds(table(name), f"{machine}, {batch_size}", "time (s)")


def run_usd(name: str, machine: str, batch_size: int) -> Interval:
    return cost_usd([run_seconds(name, machine, batch_size)], usd_per_hour=usd_per_hour()[machine])


def epoch_estimate(batch_size: int) -> Interval:
    """Equation 5.1 for seismic on p2.xlarge, from the times of table 5.2."""
    page, row = table("malta-5.2"), str(batch_size)
    times = EpochTimes(
        init=seconds(page, row, "initialisation (s)"),
        first=seconds(page, row, "first epoch (s)"),
        later=seconds(page, row, "mean epoch (s)"),
    )
    return training_seconds(times, epochs=page.number(row, "epochs").value)


def _runtimes(name: str) -> list[Row]:
    page, found = table(name), []
    for cell in page.cells.values():
        row = where(cell.row, cell.column)
        if cell.column in ("time (s)", "deviation (s)"):
            found.append(not_recomputable(name, row, cell.printed, f"measured, {RUNS[name]} runs"))
            continue
        if cell.row == "text":
            best = [
                min((run_seconds(name, machine, size) for size in BATCH_SIZES), key=lambda time: time.value)
                for machine in ("p3.2xlarge", "p3.8xlarge")
            ]
            ours, how = Printed.of(speedup(*best)), "the best time of p3.2xlarge / that of p3.8xlarge"
        else:
            machine, size = cell.row.split(", ")
            if cell.column == "speed-up":
                baseline = run_seconds(name, "p2.xlarge", 512)
                mine = run_seconds(name, machine, int(size))
                ours = Printed.exactly(1.0) if mine == baseline else Printed.of(speedup(baseline, mine))
                how = "time of p2.xlarge at 512 / time"
            else:
                ours, how = Printed.of(run_usd(name, machine, int(size))), "price × time"
        found.append(judged(name, row, cell.printed, ours, how=how, misprints=misprints()))
    return found


def _epochs() -> list[Row]:
    """Tables 4.3 and 5.1: the epochs from the iterations that stand beside them."""
    found = []
    for name in ("malta-4.3", "malta-5.1"):
        page = table(name)
        for cell in page.cells.values():
            row = where(cell.row, cell.column)
            if cell.row == "text":
                found.append(_iterations_of_what(cell))
                continue
            data, size = cell.row.split(", ")
            each = iterations_per_epoch(data, int(size))
            if data == "MNIST":
                if cell.column == "epochs":
                    found.append(not_recomputable(name, row, cell.printed, "measured: when the accuracy is stable"))
                    continue
                ours, how = Printed.exactly(each), f"⌈{SAMPLES[data]} / {size}⌉"
            elif cell.column == "iterations":
                found.append(not_recomputable(name, row, cell.printed, "measured; the epochs follow from it"))
                continue
            else:
                iterations = page.number(cell.row, "iterations").value
                ours = Printed.exactly(iterations / each)
                how = f"{iterations:.0f} iterations / ⌈{SAMPLES[data]} / {size}⌉"
            found.append(judged(name, row, cell.printed, ours, how=how, misprints=misprints()))
    return found


def _iterations_of_what(cell: Cell) -> Row:
    """The caption of table 5.1, held against the line of seismic at 256."""
    line, page = "seismic, 256", table(cell.table)
    iterations, epochs = (round(page.number(line, column).value) for column in ("iterations", "epochs"))
    each = iterations_per_epoch("seismic", 256)
    ours = {each: "each epoch", each * epochs: "all epochs"}.get(iterations, "neither")
    how = f"at 256 an epoch has {each} iterations, {epochs} epochs have {each * epochs}, and {iterations} are printed"
    row = where(cell.row, cell.column)
    return judged_words(cell.table, row, cell.printed, ours, how=how, misprints=misprints())


def iterations_per_epoch(data: str, batch_size: int) -> int:
    return -(-SAMPLES[data] // batch_size)


def _method_costs() -> list[Row]:
    """Tables 4.4, 4.5: what it costs to run everything, and what the method costs."""
    return [_method_cost(name, cell) for name in ("malta-4.4", "malta-4.5") for cell in table(name).cells.values()]


def _method_cost(name: str, cell: Cell) -> Row:
    page, row = table(name), where(cell.row, cell.column)
    if cell.row == "text":
        ours = saved_pct(page, "with ($)", of="without ($)")
        how = "1 − total with / total without"
    elif cell.row == "Total":
        ours, how = total(page, cell.column), "sum of the machines"
    elif cell.row == "p2.xlarge" and cell.column == "with ($)":
        ours, how = page.number(cell.row, "without ($)"), "the cheapest machine runs to the end either way"
    elif name == "malta-4.4" and cell.column == "without ($)":
        ours = Printed.of(exhaustive_usd(cell.row))
        how = f"price × {RUNS['malta-4.1']} runs × the times of table 4.1 at four batch sizes"
    else:
        return not_recomputable(name, row, cell.printed, NOT_PRINTED[name])
    return judged(name, row, cell.printed, ours, how=how, misprints=misprints())


def exhaustive_usd(machine: str) -> Interval:
    """Seismic on one machine, every batch size to its end, as often as it was run."""
    times = [run_seconds("malta-4.1", machine, size) for size in BATCH_SIZES]
    return cost_usd(times, usd_per_hour=usd_per_hour()[machine], runs=RUNS["malta-4.1"])


def total(page: PublishedTable, column: str) -> Printed:
    summed = Printed.exactly(0.0)
    for machine in MACHINES:
        summed = summed + page.number(machine, column)
    return summed


def saved_pct(page: PublishedTable, column: str, *, of: str) -> Printed:
    """From the totals as they are printed; the range comes from their ends."""
    mine, all_of_it = page.number("Total", column), page.number("Total", of)
    ends = [
        100 * relative_saving(a, b)
        for a, b in ((mine.high, all_of_it.low), (mine.low, all_of_it.high))
    ]
    return Printed(100 * relative_saving(mine.interval.value, all_of_it.interval.value), min(ends), max(ends))


def _estimates() -> list[Row]:
    """Table 5.2: equation 5.1 against the real time; errors are relative to the estimate."""
    name, found = "malta-5.2", []
    page = table(name)
    for cell in page.cells.values():
        row = where(cell.row, cell.column)
        if cell.column == "estimate (s)":
            ours, how = Printed.of(epoch_estimate(int(cell.row))), "equation 5.1"
        elif cell.column == "error (%)":
            estimate, real = page.number(cell.row, "estimate (s)"), page.number(cell.row, "real (s)")
            ours, how = error_pct(estimate, real, of=estimate), "|real − estimate| / estimate"
        else:
            found.append(not_recomputable(name, row, cell.printed, "measured"))
            continue
        found.append(judged(name, row, cell.printed, ours, how=how, misprints=misprints()))
    return found


def _rounded_hours_usd(machine: str, batch_size: int) -> tuple[float, Printed]:
    """Hours rounded to two decimals, and what they cost: so table 4.2 was computed."""
    hours = round(run_seconds("malta-4.2", machine, batch_size).value / SECONDS_PER_HOUR, 2)
    usd = cost_usd([Interval.exactly(hours * SECONDS_PER_HOUR)], usd_per_hour=usd_per_hour()[machine])
    return hours, Printed.of(usd)


def _one_decimal(value: float) -> Printed:
    return Printed.exactly(round(value, 1))


ROUNDED_HOURS = (
    *(("p2.8xlarge", size) for size in (512, 2048)),
    *(("p2.16xlarge", size) for size in (256, 512, 1024, 2048)),
    *(("p3.2xlarge", size) for size in (256, 1024, 2048)),
    *(("p3.8xlarge", size) for size in (256, 512, 1024, 2048)),
    *(("p3.16xlarge", size) for size in (256, 1024, 2048)),
)
"""Costs of table 4.2 that show it; at the other times rounding changes nothing."""

ROUNDED_TWICE = (("p2.8xlarge", 1024), ("p3.16xlarge", 512))

INSTEAD_OF_14 = (("512", "880 = 11 × 80", 11), ("1024", "480 = 12 × 40", 12))


@cache
def misprints() -> Misprints:
    """Reasons, each with the calculation that gives the printed number where there is one."""
    known: dict[tuple[str, str], Misprint] = {}
    known["malta-4.1", where("p2.16xlarge, 1024", "cost ($)")] = Misprint(
        why=f"{ONE_DECIMAL}: 0.45 is 0.5", instead=_one_decimal(run_usd("malta-4.1", "p2.16xlarge", 1024).value)
    )
    known["malta-4.1", where("p3.2xlarge, 256", "cost ($)")] = Misprint(
        why="Table 4.4 needs the 0.05: with 0.04 the 0.84 of this machine would be 0.79"
    )
    known["malta-4.1", where("p3.8xlarge, 256", "cost ($)")] = Misprint(
        why="It is the number of the line above; table 4.4 needs the 0.20: with 0.05 the 2.66 would be 1.93"
    )
    for machine, size in ROUNDED_HOURS:
        hours, usd = _rounded_hours_usd(machine, size)
        why = f"Computed from hours rounded to two decimals: {hours:.2f} h × price"
        known["malta-4.2", where(f"{machine}, {size}", "cost ($)")] = Misprint(why=why, instead=usd)
    for machine, size in ROUNDED_TWICE:
        hours, usd = _rounded_hours_usd(machine, size)
        why = f"Computed from hours rounded to two decimals, {hours:.2f} h × price = {usd.value:.2f}. {ONE_DECIMAL}"
        known["malta-4.2", where(f"{machine}, {size}", "cost ($)")] = Misprint(why=why, instead=_one_decimal(usd.value))
    known["malta-4.2", where("text", "p3.8xlarge faster than p3.2xlarge")] = Misprint(
        why="It is the ratio of the rounded speed-ups, 5.11 / 3.5", instead=Printed.exactly(5.11 / 3.5)
    )
    for name in ("malta-4.3", "malta-5.1"):
        for batch_size, product, epochs in INSTEAD_OF_14:
            why = (
                f"{product}: the iterations are those of {epochs} epochs, which table 5.2 uses; 14 are those of later "
                "runs, which tables 5.3 to 5.5 use"
            )
            known[name, where(f"seismic, {batch_size}", "epochs")] = Misprint(why=why)
    for size in BATCH_SIZES:
        iterations = table("malta-4.3").number(f"CIFAR-10, {size}", "iterations").value
        upside_down = CIFAR_TRAINED_ON / iterations
        why = f"Divided the wrong way round: {CIFAR_TRAINED_ON} samples / {iterations:g} iterations = {upside_down:.2f}"
        agrees = size != 256  # 2.65 was rounded up
        known["malta-4.3", where(f"CIFAR-10, {size}", "epochs")] = Misprint(
            why=why, instead=Printed.exactly(upside_down) if agrees else None
        )
    known["malta-5.1", where("text", "the iterations of seismic are of")] = Misprint(
        why="The caption is right for MNIST only"
    )
    known["malta-5.1", where("MNIST, 256", "iterations")] = Misprint(
        why="Rounded down to whole iterations, where 24.4 at 2048 is rounded up to 25",
        instead=Printed.exactly(MNIST_SAMPLES // 256),
    )
    for machine in ("p2.8xlarge", "p3.16xlarge"):
        known["malta-4.4", where(machine, "without ($)")] = Misprint(
            why=ONE_DECIMAL, instead=_one_decimal(exhaustive_usd(machine).value)
        )
    known["malta-4.4", where("text", "saved (%)")] = Misprint(
        why="86.4 % is what method 2 saves of MNIST in table 5.14",
        instead=saved_pct(table("malta-5.14"), "method 2 ($)", of="no method ($)"),
    )
    return known

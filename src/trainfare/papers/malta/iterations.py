"""Tables 5.3 to 5.5, 5.9 and 5.14: the method of a few iterations, and its cost.

The tables use N_it = samples / batch size, a fraction, while a program runs an integer number of iterations. All eight
estimates of tables 5.4 and 5.5 follow with the fraction; with integers five of them do not.
"""

from dataclasses import replace
from functools import cache

from trainfare.estimator.epochs.two_epochs import cost_usd
from trainfare.estimator.step.measured import StepTimes, training_seconds
from trainfare.model.interval import Interval
from trainfare.papers.judge import Misprint, Misprints, judge_number, judge_text, not_recomputable
from trainfare.papers.malta.epochs import saved_pct, total
from trainfare.papers.malta.page import (
    BATCH_SIZES,
    MNIST_SAMPLES,
    SEISMIC_SAMPLES,
    cell_name,
    error_pct,
    seconds,
    table,
    usd_per_hour,
)
from trainfare.papers.printed import PrintedNumber
from trainfare.papers.published import PublishedCell
from trainfare.papers.row import Row

LATER = {"malta-5.5": "average iteration (s)"}
"""The column of a later iteration, if it is not the second iteration."""

MNIST_TRAINING_IMAGES = 60_000
"""Training images of the data set (LeCun et al. 1998)."""

MNIST_RUNS = 5
"""Section 5.1."""


def rows() -> tuple[Row, ...]:
    estimates = [
        _estimate_row(name, cell)
        for name in ("malta-5.3", "malta-5.4", "malta-5.5", "malta-5.9")
        for cell in table(name).cells.values()
    ]
    return (*estimates, *(_method_cost(cell) for cell in table("malta-5.14").cells.values()))


def step_times(name: str, row: str) -> StepTimes:
    """The printed times of a table, with validation if the table has it."""
    page = table(name)
    validated = (row, "first validation (s)") in page.cells
    return StepTimes(
        init=seconds(page, row, "initialisation (s)"),
        first=seconds(page, row, "first iteration (s)"),
        later=seconds(page, row, LATER.get(name, "second iteration (s)")),
        first_validation=seconds(page, row, "first validation (s)") if validated else None,
        later_validation=seconds(page, row, "second validation (s)") if validated else None,
    )


def epochs_of(data: str, batch_size: int) -> int:
    return round(table("malta-5.1").number(f"{data}, {batch_size}", "epochs").value)


def estimate(name: str, row: str, *, samples: int) -> Interval:
    """Equation 5.3 (5.4 without validation) with the printed times and epochs."""
    batch_size = int(row.rpartition(", ")[2])
    data = "MNIST" if name == "malta-5.9" else "seismic"
    return training_seconds(
        step_times(name, row), iterations_per_epoch=samples / batch_size, epochs=epochs_of(data, batch_size)
    )


def equation_5_4_as_printed(name: str, row: str) -> Interval:
    """Init + It₁ + Σ Σ It_n, whose sum starts with the first iteration, which is therefore counted twice.

    No table was computed with it: `tests/papers/test_malta.py` shows that every estimate of table 5.4 counts it once.
    """
    return estimate(name, row, samples=SEISMIC_SAMPLES) + step_times(name, row).first


def _estimate_row(name: str, cell: PublishedCell) -> Row:
    row = cell_name(cell.row, cell.column)
    if cell.row == "text":
        return _longest_validation_row(cell)
    if cell.column == "estimate (s)":
        return _estimate(name, cell)
    if cell.column == "error (%)":
        ours, method = _error(name, cell)
        return judge_number(name, row, cell.printed, ours, method=method, misprints=misprints())
    source = _measured_elsewhere(name, cell)
    if source is None:
        return not_recomputable(name, row, cell.printed, "measured")
    ours, method = source
    return judge_number(name, row, cell.printed, ours, method=method, misprints=misprints())


def _estimate(name: str, cell: PublishedCell) -> Row:
    row, size = cell_name(cell.row, cell.column), cell.row.rpartition(", ")[2]
    if cell.row.startswith("with validation"):
        return not_recomputable(name, row, cell.printed, "the validation times of MNIST are not printed")
    data, samples = ("MNIST", MNIST_SAMPLES) if name == "malta-5.9" else ("seismic", SEISMIC_SAMPLES)
    length = f"{epochs_of(data, int(size))} epochs of {samples:,} / {size} iterations"
    if name == "malta-5.3":
        ours = PrintedNumber.from_interval(validated_estimate(int(size)))
        method = f"equation 5.3 with init, {length}, with the iteration of table 5.4's estimate"
    else:
        ours = PrintedNumber.from_interval(estimate(name, cell.row, samples=samples))
        method = f"equation 5.4 with the first iteration counted once, {length}"
    return judge_number(name, row, cell.printed, ours, method=method, misprints=misprints())


def validated_estimate(batch_size: int) -> Interval:
    """Equation 5.3 for table 5.3. Its iterations are rounded to 6 %; the estimates of table 5.4 give them to 0.1 %."""
    row = str(batch_size)
    times = replace(step_times("malta-5.3", row), later=implied_iteration("malta-5.4", row, samples=SEISMIC_SAMPLES))
    return training_seconds(
        times, iterations_per_epoch=SEISMIC_SAMPLES / batch_size, epochs=epochs_of("seismic", batch_size)
    )


def implied_iteration(name: str, row: str, *, samples: int) -> Interval:
    """The later iteration that an estimate must have used: equation 5.4 solved for it.

    it = (T − init − it₁) / (N_it·N_ep − 1)
    """
    size = int(row.rpartition(", ")[2])
    page, epochs = table(name), epochs_of("MNIST" if name == "malta-5.9" else "seismic", size)
    rest = (
        page.number(row, "estimate (s)")
        - page.number(row, "initialisation (s)")
        - page.number(row, "first iteration (s)")
    )
    return (rest / (samples / size * epochs - 1)).interval


def _error(name: str, cell: PublishedCell) -> tuple[PrintedNumber, str]:
    guess, real = (table(name).number(cell.row, column) for column in ("estimate (s)", "real (s)"))
    if name == "malta-5.4":
        return error_pct(guess, real, of=real), "|real − estimate| / real, unlike the tables around it"
    return error_pct(guess, real, of=guess), "|real − estimate| / estimate"


def _measured_elsewhere(name: str, cell: PublishedCell) -> tuple[PrintedNumber, str] | None:
    """The same number elsewhere: tables 5.4 and 5.5 have the runs of 5.3; both halves of 5.9 have the same runs."""
    if name in ("malta-5.4", "malta-5.5") and (cell.row, cell.column) in table("malta-5.3").cells:
        return table("malta-5.3").number(cell.row, cell.column), "the same runs as in table 5.3"
    if cell.row.startswith("without validation"):
        upper = cell.row.replace("without", "with")
        return table(name).number(upper, cell.column), "the same runs as in the upper half"
    return None


def _longest_validation_row(cell: PublishedCell) -> Row:
    """A sentence of section 5.2, compared with the times in the same section."""
    page = table(cell.table)
    first, later = (
        max(page.number(str(size), column).value for size in BATCH_SIZES)
        for column in ("first validation (s)", "second validation (s)")
    )
    ours = "the first" if first > later else "a later one"
    method = f"section 5.2 has at most {first:g} s for the first and about {later:g} s for the second"
    row = cell_name(cell.row, cell.column)
    return judge_text(cell.table, row, cell.printed, ours, method=method, misprints=misprints())


def _method_cost(cell: PublishedCell) -> Row:
    name, row = "malta-5.14", cell_name(cell.row, cell.column)
    page, before = table(name), table("malta-4.5")
    column = {"no method ($)": "without ($)", "method 1 ($)": "with ($)"}.get(cell.column)
    if cell.row == "text":
        of = "method 1 ($)" if "method 1" in cell.column else "no method ($)"
        ours, method = (
            saved_pct(page, "method 2 ($)", of=of),
            f"1 − total of method 2 / total of {of.removesuffix(' ($)')}",
        )
    elif cell.row == "Total":
        ours, method = total(page, cell.column), "sum of the machines"
    elif column is not None:
        ours, method = before.number(cell.row, column), "as in table 4.5"
    elif cell.row == "p2.16xlarge":
        ours = PrintedNumber.from_interval(two_iterations_usd())
        method = f"price × {MNIST_RUNS} runs × (init + first + second iteration of table 5.9) at four batch sizes"
    else:
        why = "the iterations of MNIST on this machine are not printed"
        return not_recomputable(name, row, cell.printed, why)
    return judge_number(name, row, cell.printed, ours, method=method, misprints=misprints())


def _mnist_times() -> list[StepTimes]:
    return [step_times("malta-5.9", f"without validation, {size}") for size in BATCH_SIZES]


def two_iterations_usd() -> Interval:
    """The cost of method 2 on p2.16xlarge, the only machine whose MNIST iterations are printed."""
    spent = [times.init + times.first + times.later for times in _mnist_times()]
    return cost_usd(spent, usd_per_hour=usd_per_hour()["p2.16xlarge"], runs=MNIST_RUNS)


def _initialisations_usd() -> Interval:
    spent = [times.init for times in _mnist_times()]
    return cost_usd(spent, usd_per_hour=usd_per_hour()["p2.16xlarge"], runs=MNIST_RUNS)


@cache
def misprints() -> Misprints:
    """The known misprints, each with the calculation that gives the printed number if there is one."""
    known: dict[tuple[str, str], Misprint] = {}
    without, page = table("malta-5.4"), table("malta-5.3")
    for batch_size in map(str, BATCH_SIZES):
        two = page.number(batch_size, "first validation (s)") + page.number(batch_size, "second validation (s)")
        known["malta-5.3", cell_name(batch_size, "estimate (s)")] = Misprint(
            why="Two validations were added to the estimate of table 5.4, not one per epoch",
            recomputed=without.number(batch_size, "estimate (s)") + two,
        )
    known["malta-5.3", cell_name("text", "the longest validation is")] = Misprint(
        why="The sentence says that the first has the highest value"
    )
    known["malta-5.4", cell_name("2048", "real (s)")] = Misprint(
        why="It is the estimate of table 5.5 in the wrong place",
        recomputed=table("malta-5.5").number("2048", "estimate (s)"),
    )
    known["malta-5.4", cell_name("2048", "error (%)")] = Misprint(
        why="It follows from the real time of tables 5.3 and 5.5, 248.5 s",
        recomputed=error_pct(
            without.number("2048", "estimate (s)"),
            page.number("2048", "real (s)"),
            of=page.number("2048", "real (s)"),
        ),
    )
    mnist = table("malta-5.9")
    for half in ("with validation, 256", "without validation, 256"):
        guess = mnist.number(half, "estimate (s)")
        known["malta-5.9", cell_name(half, "error (%)")] = Misprint(
            why="The real time has the digits of the upper estimate; 167.4 s gives both errors, 0.14 and 7.07",
            recomputed=error_pct(guess, PrintedNumber.read("167.4"), of=guess),
        )
    for size in (256, 512, 2048):
        row = f"without validation, {size}"
        complete = estimate("malta-5.9", row, samples=MNIST_TRAINING_IMAGES)
        known["malta-5.9", cell_name(row, "estimate (s)")] = Misprint(
            why=f"With all {MNIST_TRAINING_IMAGES:,} training images of MNIST it is {complete.value:.1f} s and agrees; "
            f"table 5.1 and the text have {MNIST_SAMPLES:,}",
            recomputed=PrintedNumber.from_interval(complete),
        )
    known["malta-5.14", cell_name("p2.16xlarge", "method 2 ($)")] = Misprint(
        why=f"Only the initialisations were counted: they alone cost ${_initialisations_usd().value:.2f}",
        recomputed=PrintedNumber.from_interval(_initialisations_usd()),
    )
    return known

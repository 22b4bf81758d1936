"""Tables 5.3 to 5.5, 5.9 and 5.14: the method of a few iterations, and what it costs.

The tables divide: N_it = samples / batch size, a fraction where a program runs a whole number of iterations. All
eight estimates of tables 5.4 and 5.5 follow with the fraction; with whole iterations five of them do not.
"""

from dataclasses import replace
from functools import cache

from trainfare.estimator.epochs.two_epochs import cost_usd
from trainfare.estimator.step.measured import StepTimes, training_seconds
from trainfare.model.interval import Interval
from trainfare.papers.judge import Misprint, Misprints, judged, judged_words, not_recomputable
from trainfare.papers.malta.epochs import saved_pct, total
from trainfare.papers.malta.page import (
    BATCH_SIZES,
    MNIST_SAMPLES,
    SEISMIC_SAMPLES,
    error_pct,
    seconds,
    table,
    usd_per_hour,
    where,
)
from trainfare.papers.printed import Printed
from trainfare.papers.published import Cell
from trainfare.papers.row import Row

LATER = {"malta-5.5": "average iteration (s)"}
"""What stands for a later iteration; elsewhere it is the second."""

MNIST_HAS = 60_000
"""Images for training in the data set itself (LeCun et al. 1998)."""

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
    """As a table prints them; validation only where the table has it."""
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
    """Equation 5.3 (5.4 without validation) from the times and epochs that are printed."""
    batch_size = int(row.rpartition(", ")[2])
    data = "MNIST" if name == "malta-5.9" else "seismic"
    return training_seconds(
        step_times(name, row), iterations_per_epoch=samples / batch_size, epochs=epochs_of(data, batch_size)
    )


def equation_5_4_as_printed(name: str, row: str) -> Interval:
    """Init + It₁ + Σ Σ It_n, whose sum begins with the first iteration: it is counted twice.

    No table was made with it: `tests/app/reproduce` shows that every estimate of table 5.4 counts it once.
    """
    return estimate(name, row, samples=SEISMIC_SAMPLES) + step_times(name, row).first


def _estimate_row(name: str, cell: Cell) -> Row:
    row = where(cell.row, cell.column)
    if cell.row == "text":
        return _which_validation_is_longest(cell)
    if cell.column == "estimate (s)":
        return _estimate(name, cell)
    if cell.column == "error (%)":
        ours, how = _error(name, cell)
        return judged(name, row, cell.printed, ours, how=how, misprints=misprints())
    source = _measured_before(name, cell)
    if source is None:
        return not_recomputable(name, row, cell.printed, "measured")
    ours, how = source
    return judged(name, row, cell.printed, ours, how=how, misprints=misprints())


def _estimate(name: str, cell: Cell) -> Row:
    row, size = where(cell.row, cell.column), cell.row.rpartition(", ")[2]
    if cell.row.startswith("with validation"):
        return not_recomputable(name, row, cell.printed, "the times of MNIST's validations are nowhere printed")
    data, samples = ("MNIST", MNIST_SAMPLES) if name == "malta-5.9" else ("seismic", SEISMIC_SAMPLES)
    length = f"{epochs_of(data, int(size))} epochs of {samples}/{size} iterations"
    if name == "malta-5.3":
        ours = Printed.of(validated_estimate(int(size)))
        how = f"equation 5.3 with init, {length}, whose time is that of table 5.4's estimate"
    else:
        ours = Printed.of(estimate(name, cell.row, samples=samples))
        how = f"equation 5.4 with the first iteration once, {length}"
    return judged(name, row, cell.printed, ours, how=how, misprints=misprints())


def validated_estimate(batch_size: int) -> Interval:
    """Equation 5.3 for table 5.3. Its iterations are rounded to 6 %; table 5.4's estimates know them to 0.1 %."""
    row = str(batch_size)
    times = replace(step_times("malta-5.3", row), later=implied_iteration("malta-5.4", row, samples=SEISMIC_SAMPLES))
    return training_seconds(
        times, iterations_per_epoch=SEISMIC_SAMPLES / batch_size, epochs=epochs_of("seismic", batch_size)
    )


def implied_iteration(name: str, row: str, *, samples: int) -> Interval:
    """The later iteration that an estimate must have been made with: equation 5.4 the other way round.

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


def _error(name: str, cell: Cell) -> tuple[Printed, str]:
    guess, real = (table(name).number(cell.row, column) for column in ("estimate (s)", "real (s)"))
    if name == "malta-5.4":
        return error_pct(guess, real, of=real), "|real − estimate| / real, unlike the tables around it"
    return error_pct(guess, real, of=guess), "|real − estimate| / estimate"


def _measured_before(name: str, cell: Cell) -> tuple[Printed, str] | None:
    """Tables 5.4 and 5.5 are of the runs of table 5.3, and the lower half of 5.9 is of those of the upper."""
    if name in ("malta-5.4", "malta-5.5") and (cell.row, cell.column) in table("malta-5.3").cells:
        return table("malta-5.3").number(cell.row, cell.column), "the same runs as in table 5.3"
    if cell.row.startswith("without validation"):
        upper = cell.row.replace("without", "with")
        return table(name).number(upper, cell.column), "the same runs as in the upper half"
    return None


def _which_validation_is_longest(cell: Cell) -> Row:
    """A sentence of section 5.2, held against the times that the same section gives."""
    page = table(cell.table)
    first, later = (
        max(page.number(str(size), column).value for size in BATCH_SIZES)
        for column in ("first validation (s)", "second validation (s)")
    )
    ours = "the first" if first > later else "a later one"
    how = f"section 5.2 gives at most {first:g} s for the first and about {later:g} s for the second"
    row = where(cell.row, cell.column)
    return judged_words(cell.table, row, cell.printed, ours, how=how, misprints=misprints())


def _method_cost(cell: Cell) -> Row:
    name, row = "malta-5.14", where(cell.row, cell.column)
    page, before = table(name), table("malta-4.5")
    column = {"no method ($)": "without ($)", "method 1 ($)": "with ($)"}.get(cell.column)
    if cell.row == "text":
        of = "method 1 ($)" if "method 1" in cell.column else "no method ($)"
        ours, how = (
            saved_pct(page, "method 2 ($)", of=of),
            f"1 − total of method 2 / total of {of.removesuffix(' ($)')}",
        )
    elif cell.row == "Total":
        ours, how = total(page, cell.column), "sum of the machines"
    elif column is not None:
        ours, how = before.number(cell.row, column), "as in table 4.5"
    elif cell.row == "p2.16xlarge":
        ours = Printed.of(two_iterations_usd())
        how = f"price × {MNIST_RUNS} runs × (init + first + second iteration of table 5.9) at four batch sizes"
    else:
        why = "MNIST's iterations on this machine are nowhere printed"
        return not_recomputable(name, row, cell.printed, why)
    return judged(name, row, cell.printed, ours, how=how, misprints=misprints())


def _mnist_times() -> list[StepTimes]:
    return [step_times("malta-5.9", f"without validation, {size}") for size in BATCH_SIZES]


def two_iterations_usd() -> Interval:
    """Method 2 on p2.16xlarge, the one machine whose MNIST iterations are printed."""
    spent = [times.init + times.first + times.later for times in _mnist_times()]
    return cost_usd(spent, usd_per_hour=usd_per_hour()["p2.16xlarge"], runs=MNIST_RUNS)


def _initialisations_usd() -> Interval:
    spent = [times.init for times in _mnist_times()]
    return cost_usd(spent, usd_per_hour=usd_per_hour()["p2.16xlarge"], runs=MNIST_RUNS)


@cache
def misprints() -> Misprints:
    """Reasons, each with the calculation that gives the printed number where there is one."""
    known: dict[tuple[str, str], Misprint] = {}
    without, page = table("malta-5.4"), table("malta-5.3")
    for batch_size in map(str, BATCH_SIZES):
        two = page.number(batch_size, "first validation (s)") + page.number(batch_size, "second validation (s)")
        known["malta-5.3", where(batch_size, "estimate (s)")] = Misprint(
            why="Two validations were added to table 5.4's estimate, not one an epoch",
            instead=without.number(batch_size, "estimate (s)") + two,
        )
    known["malta-5.3", where("text", "the longest validation is")] = Misprint(
        why="The sentence says that the first has the highest value"
    )
    known["malta-5.4", where("2048", "real (s)")] = Misprint(
        why="It is the estimate of table 5.5 in the wrong place",
        instead=table("malta-5.5").number("2048", "estimate (s)"),
    )
    known["malta-5.4", where("2048", "error (%)")] = Misprint(
        why="With the real time of tables 5.3 and 5.5, 248.5 s, it follows",
        instead=error_pct(
            without.number("2048", "estimate (s)"),
            page.number("2048", "real (s)"),
            of=page.number("2048", "real (s)"),
        ),
    )
    mnist = table("malta-5.9")
    for half in ("with validation, 256", "without validation, 256"):
        guess = mnist.number(half, "estimate (s)")
        known["malta-5.9", where(half, "error (%)")] = Misprint(
            why="The real time has the digits of the upper estimate; 167.4 s gives both errors, 0.14 and 7.07",
            instead=error_pct(guess, Printed.read("167.4"), of=guess),
        )
    for size in (256, 512, 2048):
        row = f"without validation, {size}"
        whole = estimate("malta-5.9", row, samples=MNIST_HAS)
        known["malta-5.9", where(row, "estimate (s)")] = Misprint(
            why=f"With all {MNIST_HAS} training images of MNIST it is {whole.value:.1f} s and agrees; table 5.1 and "
            f"the text count {MNIST_SAMPLES}",
            instead=Printed.of(whole),
        )
    known["malta-5.14", where("p2.16xlarge", "method 2 ($)")] = Misprint(
        why=f"Only the initialisations were counted: they alone cost {_initialisations_usd().value:.2f} $",
        instead=Printed.of(_initialisations_usd()),
    )
    return known

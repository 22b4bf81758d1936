"""Tables 5.6 to 5.8, 5.10 to 5.13, A.1 to A.3 and B.1 to B.4: machines relative to the best, by number of epochs.

Relative cost is relative time × price, divided by the smallest: every cost follows from the time table next to it.

The times behind a time table are printed for one machine only, the anchor. But equation 5.3 is a straight line in the
number of epochs. With the line of the anchor, the outer columns give seconds, the seconds give the line of every
machine, and the lines give the middle column. So one of three columns can be recomputed, and a misprint in any of them
shows.
"""

from dataclasses import dataclass, replace
from functools import cache

from trainfare.estimator.cost.relative import relative_cost, relative_to_best
from trainfare.estimator.step.measured import StepTimes, interpolate_epochs, training_seconds
from trainfare.model.interval import Interval
from trainfare.papers.judge import Misprint, Misprints, judge_number, judge_text, not_recomputable
from trainfare.papers.malta.iterations import MNIST_TRAINING_IMAGES, implied_iteration, step_times
from trainfare.papers.malta.page import MACHINES, SEISMIC_SAMPLES, cell_name, table, usd_per_hour
from trainfare.papers.printed import PrintedNumber
from trainfare.papers.row import Row

COLUMNS = ("5 epochs", "10 epochs", "20 epochs")
"""The column headings of every table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """Six machines in three columns and the real one: one half of a table."""

    time_table: str
    cost_table: str
    time_prefix: str = ""
    cost_prefix: str = ""
    data: str
    batch_size: int
    anchor_table: str
    anchor_row: str
    epochs: tuple[int, int, int] = (5, 10, 20)

    def time(self, machine: str, column: str) -> PrintedNumber:
        """The printed relative time."""
        return table(self.time_table).number(self.time_prefix + machine, column)

    @property
    def samples(self) -> int:
        """The number of samples of the estimates; see `iterations.misprints`."""
        return MNIST_TRAINING_IMAGES if self.data == "MNIST" else SEISMIC_SAMPLES

    @property
    def anchor(self) -> str:
        """The machine whose times are printed."""
        return "p2.16xlarge" if self.data == "MNIST" else "p2.xlarge"


def _seismic(time_table: str, cost_table: str, batch_size: int) -> TableBlock:
    both = time_table == cost_table
    return TableBlock(
        time_table=time_table,
        cost_table=cost_table,
        time_prefix="time, " if both else "",
        cost_prefix="cost, " if both else "",
        data="seismic",
        batch_size=batch_size,
        anchor_table="malta-5.4",
        anchor_row=str(batch_size),
    )


def _mnist(
    time_table: str, cost_table: str, batch_size: int, validation: str, epochs: tuple[int, int, int]
) -> TableBlock:
    return TableBlock(
        time_table=time_table,
        cost_table=cost_table,
        time_prefix=f"{validation} validation, ",
        cost_prefix=f"{validation} validation, ",
        data="MNIST",
        batch_size=batch_size,
        anchor_table="malta-5.9",
        anchor_row=f"{validation} validation, {batch_size}",
        epochs=epochs,
    )


BLOCKS = (
    _seismic("malta-5.7", "malta-5.8", 256),
    _seismic("malta-A.1", "malta-A.1", 512),
    _seismic("malta-A.2", "malta-A.2", 1024),
    _seismic("malta-A.3", "malta-A.3", 2048),
    *(
        _mnist(time_table, cost_table, batch_size, validation, epochs)
        for time_table, cost_table, batch_size, epochs in (
            ("malta-5.10", "malta-5.11", 256, (5, 10, 20)),
            ("malta-B.1", "malta-B.2", 512, (5, 10, 20)),
            ("malta-B.3", "malta-B.4", 1024, (5, 10, 20)),
            # The heading says 5, 10 and 20 epochs; section 5.4 says 10, 20 and 25, and only these are on lines.
            ("malta-5.12", "malta-5.13", 2048, (10, 20, 25)),
        )
        for validation in ("with", "without")
    ),
)


def rows() -> tuple[Row, ...]:
    found = [*_strategies(), *_headings()]
    for block in BLOCKS:
        found += [*_times(block), *_costs(block)]
    return tuple(found)


def simulate_seconds(block: TableBlock, epochs: int, *, anchor: StepTimes | None = None) -> dict[str, Interval]:
    """The seconds of every machine for a number of epochs between the outer columns."""
    few, many = block.epochs[0], block.epochs[-1]
    anchor = anchor or anchor_times(block)
    at_few, at_many = _seconds(block, few, COLUMNS[0], anchor), _seconds(block, many, COLUMNS[-1], anchor)
    return {
        machine: interpolate_epochs(epochs, few=(few, at_few[machine]), many=(many, at_many[machine]))
        for machine in MACHINES
    }


def anchor_times(block: TableBlock) -> StepTimes:
    """The times of the machine whose times are printed; the later iteration is the one that its estimate implies.

    With validation that iteration contains its share of it, as if the first validation took as long as the others:
    the page does not say.
    """
    times = step_times(block.anchor_table, block.anchor_row)
    later = implied_iteration(block.anchor_table, block.anchor_row, samples=block.samples)
    return StepTimes(init=times.init, first=times.first, later=later)


def _seconds(block: TableBlock, epochs: int, column: str, anchor: StepTimes) -> dict[str, Interval]:
    """A column of relative times as seconds."""
    known = training_seconds(anchor, iterations_per_epoch=block.samples / block.batch_size, epochs=epochs)
    own = block.time(block.anchor, column)
    return {
        machine: known
        if machine == block.anchor
        else (block.time(machine, column) / own * PrintedNumber.from_interval(known)).interval
        for machine in MACHINES
    }


def _times(block: TableBlock) -> list[Row]:
    found = []
    middle = relative_to_best(simulate_seconds(block, block.epochs[1]))
    for machine in MACHINES:
        for column in (*COLUMNS, "real"):
            name, cell_row = block.time_table, block.time_prefix + machine
            row, printed = cell_name(cell_row, column), table(name).text(cell_row, column)
            if column == COLUMNS[1]:
                few, _, many = block.epochs
                method = (
                    f"on straight lines between {few} and {many} epochs, with the seconds of {block.anchor} from table "
                    f"{block.anchor_table.removeprefix('malta-')}"
                )
                ours = PrintedNumber.from_interval(middle[machine])
                found.append(judge_number(name, row, printed, ours, method=method, misprints=misprints()))
            elif column == "real" and cell_row.startswith("without"):
                ours = table(name).number(cell_row.replace("without", "with"), column)
                method = "the same runs as in the upper half"
                found.append(judge_number(name, row, printed, ours, method=method, misprints=misprints()))
            elif column == "real":
                found.append(not_recomputable(name, row, printed, "the real times by machine are not printed"))
            else:
                why = "the iterations of the other machines are not printed; this column gives the middle one"
                found.append(not_recomputable(name, row, printed, why))
    return found


def _costs(block: TableBlock) -> list[Row]:
    found = []
    name = block.cost_table
    for column in (*COLUMNS, "real"):
        times = {machine: block.time(machine, column).interval for machine in MACHINES}
        costs = relative_cost(times, usd_per_hour())
        for machine in MACHINES:
            cell_row = block.cost_prefix + machine
            row, printed = cell_name(cell_row, column), table(name).text(cell_row, column)
            if not printed:
                why = f"the number is missing from the text of the document; it would be {costs[machine].value:.1f}"
                found.append(not_recomputable(name, row, printed, why))
                continue
            ours, method = (
                PrintedNumber.from_interval(costs[machine]),
                f"relative time of {_title(block)} × price, divided by the smallest",
            )
            found.append(judge_number(name, row, printed, ours, method=method, misprints=misprints()))
    return found


def _title(block: TableBlock) -> str:
    return f"table {block.time_table.removeprefix('malta-')}"


def _strategies() -> list[Row]:
    """Table 5.6. Only the iterations of one machine are printed; a column needs those of all."""
    name, found = "malta-5.6", []
    for cell in table(name).cells.values():
        row = cell_name(cell.row, cell.column)
        if cell.column == "real":
            ours = table("malta-5.7").number(cell.row, "real")
            method = "as in table 5.7 for the same runs; the real times by machine are not printed"
            found.append(judge_number(name, row, cell.printed, ours, method=method, misprints=misprints()))
        else:
            why = "the iterations of the other machines are not printed"
            found.append(not_recomputable(name, row, cell.printed, why))
    return found


def _headings() -> list[Row]:
    """The headings of tables 5.12 and 5.13 say 5, 10 and 20 epochs, section 5.4 says 10, 20 and 25."""
    return [
        judge_text(
            name,
            cell_name(cell.row, cell.column),
            cell.printed,
            ", ".join(map(str, _epochs_on_lines(cell.table))),
            method="the numbers of epochs for which the middle column is on straight lines between the others",
            misprints=misprints(),
        )
        for name in ("malta-5.12", "malta-5.13")
        for cell in table(name).cells.values()
        if cell.row == "text"
    ]


def _epochs_on_lines(name: str) -> tuple[int, int, int]:
    """The numbers of epochs with which more machines agree."""
    blocks = [block for block in BLOCKS if name in (block.time_table, block.cost_table)]

    def agreeing(epochs: tuple[int, int, int]) -> int:
        return sum(len(machines_agreeing_in_middle(replace(block, epochs=epochs))) for block in blocks)

    return max(((5, 10, 20), (10, 20, 25)), key=agreeing)


def machines_agreeing_in_middle(block: TableBlock) -> set[str]:
    """The machines whose printed middle column is on their line."""
    ours = relative_to_best(simulate_seconds(block, block.epochs[1]))
    return {m for m in MACHINES if block.time(m, COLUMNS[1]).agrees_with(PrintedNumber.from_interval(ours[m]))}


@cache
def misprints() -> Misprints:
    """The known misprints, each with the calculation that gives the printed number if there is one."""
    known: dict[tuple[str, str], Misprint] = {}
    block = BLOCKS[0]
    middle = relative_to_best(simulate_seconds(block, block.epochs[1], anchor=undisturbed_anchor(block)))
    for machine in ("p2.8xlarge", "p3.8xlarge", "p3.16xlarge"):
        known["malta-5.7", cell_name(machine, COLUMNS[1])] = Misprint(
            why="The first iteration of table 5.4, 14.0 s, is a mean with one slow run (deviation 20.5 s); with the "
            "2.7 s by which the first epoch of table 5.2 is longer than a later one, it is "
            f"{middle[machine].value:.2f} and agrees",
            recomputed=PrintedNumber.from_interval(middle[machine]),
        )
    for name in ("malta-5.12", "malta-5.13"):
        known[name, cell_name("text", "epochs of the columns")] = Misprint(
            why="Section 5.4 says 10, 20 and 25 too; the heading is copied from the other tables"
        )
    known["malta-5.13", cell_name("without validation, p3.16xlarge", COLUMNS[0])] = Misprint(
        why="The relative time next to it, 2.39, and the 18.6 of the half with validation both give about 19"
    )
    known["malta-B.2", cell_name("with validation, p3.16xlarge", "real")] = Misprint(
        why="A 6 became a 0 in the text of the document, as in the name of the machine next to it, p3.10xlarge; the "
        "lower half has 16.3",
    )
    known["malta-B.4", cell_name("without validation, p2.16xlarge", COLUMNS[2])] = Misprint(
        why="It is the number of p3.16xlarge, three lines below",
        recomputed=table("malta-B.4").number("without validation, p3.16xlarge", COLUMNS[2]),
    )
    return known


def undisturbed_anchor(block: TableBlock) -> StepTimes:
    """The times of p2.xlarge at 256 from the runs of chapter 4: it₁ = ep₁ − ep₂ + it, from table 5.2."""
    times, epochs = anchor_times(block), table("malta-5.2")
    row = str(block.batch_size)
    extra = epochs.number(row, "first epoch (s)") - epochs.number(row, "mean epoch (s)")
    first = extra + PrintedNumber.from_interval(times.later)
    return replace(times, init=epochs.number(row, "initialisation (s)").interval, first=first.interval)

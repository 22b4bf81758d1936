"""Table 2 of 2019: CIFAR-10 until its accuracy is stable, on p2.xlarge and p3.2xlarge."""

from trainfare.estimator.cost.cost_benefit import CostBenefit, StableRun, cost_benefit
from trainfare.papers.judge import judge_number, not_recomputable
from trainfare.papers.malta.page import cell_name, table
from trainfare.papers.printed import PrintedNumber
from trainfare.papers.row import Row
from trainfare.units import SECONDS_PER_HOUR

NAME = "malta-2019-2"
BASELINE, EXPENSIVE = "p2.xlarge", "p3.2xlarge"
BATCH_SIZES = ("64", "128", "256", "512")


def runs() -> tuple[CostBenefit, ...]:
    """Every run of the table, with its cost and its speed-up as we compute them."""
    page, machines = table(NAME), table("malta-2019-1")
    return cost_benefit(
        [
            StableRun(
                machine=machine,
                batch_size=int(size),
                iterations=round(page.number(size, "stabilisation point (iterations)").value),
                seconds=page.number(f"{size}, {machine}", "time (h)").interval * SECONDS_PER_HOUR,
                usd_per_hour=machines.number(machine, "$/h").value,
                accuracy=page.number(size, "accuracy (%)").interval,
            )
            for size in BATCH_SIZES
            for machine in (BASELINE, EXPENSIVE)
        ],
        baseline=BASELINE,
    )


def rows() -> tuple[Row, ...]:
    page = table(NAME)
    by_row = {f"{found.run.batch_size}, {found.run.machine}": found for found in runs()}
    found = []
    for cell in page.cells.values():
        row = cell_name(cell.row, cell.column)
        if cell.column == "cost ($)":
            ours, method = PrintedNumber.from_interval(by_row[cell.row].usd), "price × time"
        elif cell.column == "speed-up":
            ours, method = (
                PrintedNumber.from_interval(by_row[f"{cell.row}, {EXPENSIVE}"].speedup),
                f"time on {BASELINE} / time on {EXPENSIVE}",
            )
        elif cell.row == "text":
            expensive = [each for each in by_row.values() if each.run.machine == EXPENSIVE]
            cheaper = [each for each in expensive if each.pays]
            ours, method = (
                PrintedNumber.exactly(100 * len(cheaper) / len(expensive)),
                "share of the batch sizes at which it costs less",
            )
        else:
            found.append(not_recomputable(NAME, row, cell.printed, "measured"))
            continue
        found.append(judge_number(NAME, row, cell.printed, ours, method=method, misprints={}))
    return tuple(found)

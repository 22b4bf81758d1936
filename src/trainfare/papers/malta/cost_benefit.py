"""Table 2 of 2019: CIFAR-10 until its accuracy is stable, on p2.xlarge and p3.2xlarge."""

from trainfare.estimator.cost.cost_benefit import CostBenefit, StableRun, cost_benefit
from trainfare.papers.judge import judged, not_recomputable
from trainfare.papers.malta.page import table, where
from trainfare.papers.printed import Printed
from trainfare.papers.row import Row
from trainfare.units import SECONDS_PER_HOUR

NAME = "malta-2019-2"
BASELINE, DEARER = "p2.xlarge", "p3.2xlarge"
BATCH_SIZES = ("64", "128", "256", "512")


def runs() -> tuple[CostBenefit, ...]:
    """Every run of the page, with its cost and its speed-up as we compute them."""
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
            for machine in (BASELINE, DEARER)
        ],
        baseline=BASELINE,
    )


def rows() -> tuple[Row, ...]:
    page = table(NAME)
    by_row = {f"{found.run.batch_size}, {found.run.machine}": found for found in runs()}
    found = []
    for cell in page.cells.values():
        row = where(cell.row, cell.column)
        if cell.column == "cost ($)":
            ours, how = Printed.of(by_row[cell.row].usd), "price × time"
        elif cell.column == "speed-up":
            ours, how = Printed.of(by_row[f"{cell.row}, {DEARER}"].speedup), f"time on {BASELINE} / time on {DEARER}"
        elif cell.row == "text":
            dearer = [each for each in by_row.values() if each.run.machine == DEARER]
            cheaper = [each for each in dearer if each.pays]
            ours, how = Printed.exactly(100 * len(cheaper) / len(dearer)), "batch sizes at which it costs less"
        else:
            found.append(not_recomputable(NAME, row, cell.printed, "measured"))
            continue
        found.append(judged(NAME, row, cell.printed, ours, how=how, misprints={}))
    return tuple(found)

"""The four published instances: 10 nodes, 100 jobs, on Azure's K80 and M60 machines, and the costs that the authors'
own program reports (Filippini et al.).

`instances/jobs-0.csv` and `jobs-1.csv` have the two queues, each submitted at two loads (high and low), and the seconds
of each job on 1 to 4 GPUs of either kind; these are the same on every machine with that GPU.
"""

import csv
from pathlib import Path

from tests.scheduler.makers import AZURE
from trainfare.model.queue import Instance, Job, single_node_slots

FOLDER = Path(__file__).parent / "instances"
NAMES = ("10-100-0-high", "10-100-1-high", "10-100-0-low", "10-100-1-low")
NODES = 10


def published(name: str) -> Instance:
    _, _, queue, load = name.split("-")
    slots = single_node_slots(AZURE)
    gpu = {each.name: each.gpu.lower() for each in AZURE}
    with (FOLDER / f"jobs-{queue}.csv").open() as rows:
        jobs = tuple(
            Job(
                id=row["job"],
                submitted_seconds=float(row[f"submitted_{load}_s"]),
                deadline_seconds=float(row[f"deadline_{load}_s"]),
                late_usd_per_second=float(row["tardiness_usd_per_s"]),
                seconds=tuple(float(row[f"{gpu[slot.type]}_{slot.gpus}_s"]) for slot in slots),
            )
            for row in csv.DictReader(rows)
        )
    return Instance(types=AZURE, slots=slots, jobs=jobs)


def published_costs() -> dict[tuple[str, str], tuple[str, ...]]:
    """(instance, policy) → tardiness in seconds and dollars, rent and total in dollars, as printed."""
    with (FOLDER / "reference_costs.csv").open() as rows:
        return {
            (row["instance"], row["policy"]): (
                row["tardiness_s"],
                row["tardiness_usd"],
                row["rental_usd"],
                row["total_usd"],
            )
            for row in csv.DictReader(rows)
        }

"""The cost of queues under each policy, compared with a lower bound that no schedule can be below.

    python -m benchmarks.schedule PART [--instances DIR] [--traces DIR] [--jobs 100] [--nodes 10,50] [--loads 0.5,1]
                                       [--seeds 5] [--results FILE] [--plot FILE] [--json]

instances   four instances of the papers, with the costs that their authors' program reports (--instances DIR, which
            contains `reference_costs.csv`)
load        random queues by the papers' rule at loads from 0.25 to 1.2
error       the same with wrong predictions
delays      the same where boots, checkpoints and restarts take time
extensions  spot, jobs on several nodes, quotas, a decision every quarter of an hour
traces      logged jobs with measured throughputs, with true times and with predictions from one GPU (--traces DIR,
            which contains `throughput.csv` and `job_traces/`, next to other measurements; one seed by default)
scale       the computing time of one decision, by the number of nodes and of queued jobs, and its certified gap

Every schedule is checked to be legal and costed by one evaluator. A mean is over the seeds, ± half its 95 % confidence
interval; "of Greedy" is the mean ratio of costs on the same queue, which removes the variation between queues.
--results FILE stores every finished case, so that an interrupted run continues where it was.
"""

import argparse
import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.schedule import traces
from benchmarks.schedule.cases import LOADS, PARTS, BenchmarkOptions
from benchmarks.schedule.run import Row, mean_and_half, run_all
from benchmarks.schedule.scale import print_scale, scale

_COLUMNS = {
    "total $": 18,
    "above bound": 13,
    "of Greedy": 16,
    "late": 7,
    "late $": 10,
    "moves": 8,
    "p50 s": 8,
    "p99 s": 8,
}
_NODES, _SEEDS = (10,), 5
_HEAD = " " * 16 + "".join(f"{name:>{width}}" for name, width in _COLUMNS.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("part", choices=(*PARTS, "traces", "scale"))
    parser.add_argument("--instances", type=Path, metavar="DIR")
    parser.add_argument("--traces", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=traces.JOBS, help="the number of jobs to read from each trace")
    parser.add_argument("--nodes", type=_ints, default=None, metavar="N,N")
    parser.add_argument("--loads", type=_floats, default=None, metavar="L,L")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--policies", type=lambda text: tuple(text.split(",")), default=(), metavar="P,P")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the result of scale")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.part == "scale":
        found = scale(arguments.nodes or (10, 30, 100, 300, 1000), arguments.policies or ("greedy", "trainfare"))
        print_scale(found, as_json=arguments.json, plot=arguments.plot)
        return
    if arguments.part == "instances" and not (arguments.instances and arguments.instances.is_dir()):
        parser.error("instances needs --instances DIR, a folder of instances with reference_costs.csv")
    if arguments.part == "traces" and not traces.has_traces(arguments.traces):
        parser.error("traces needs --traces DIR, a folder with throughput.csv and job_traces/")
    defaults = {"load": (_NODES, LOADS, _SEEDS), "traces": (traces.NODES, traces.LOADS, 1)}
    nodes, loads, seeds = defaults.get(arguments.part, (_NODES, (0.5, 1.0), _SEEDS))
    options = BenchmarkOptions(
        nodes=arguments.nodes or nodes,
        loads=arguments.loads or loads,
        seeds=arguments.seeds or seeds,
        policies=arguments.policies,
        instances=arguments.instances,
        traces=arguments.traces,
        jobs=arguments.jobs,
    )
    cases = (PARTS | {"traces": traces.traces})[arguments.part](options)
    rows = run_all(cases, processes=arguments.processes, results=arguments.results)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print_table(rows, _references(arguments.instances) if arguments.part == "instances" else {})


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _references(folder: Path) -> dict[tuple[str, str], float]:
    """(instance, policy) → the total that the authors' own program reports."""
    names = {"RandomGreedy": "random_greedy", "PathRelinking": "path_relinking", "LocalSearch": "local_search"}
    with (folder / "reference_costs.csv").open() as file:
        return {
            (row["instance"], names.get(row["policy"], row["policy"].lower())): float(row["total_usd"])
            for row in csv.DictReader(file)
        }


def print_table(rows: Sequence[Row], references: dict[tuple[str, str], float]) -> None:
    """Prints a block for each setting, in their order, with a line for each policy, the cheapest first."""
    blocks: dict[tuple[int, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        blocks[int(_number(row, "nodes")), str(row["setting"])][str(row["policy"])].append(row)
    for (nodes, setting), policies in blocks.items():
        print(f"\n{setting}, {nodes} nodes, {max(len(found) for found in policies.values())} queue(s)")
        print(_HEAD + (f"{'reported $':>12}" if references else ""))
        greedy = {row["seed"]: _number(row, "total_usd") for row in policies.get("greedy", [])}
        for name, found in sorted(policies.items(), key=lambda item: _mean(item[1], "total_usd")):
            print(_line(name, found, greedy) + _reported(references, setting, name))


def _line(name: str, found: Sequence[Row], greedy: dict[float | int | str | None, float]) -> str:
    total, half = mean_and_half([_number(row, "total_usd") for row in found])
    above = sum(_number(row, "total_usd") for row in found) / sum(_number(row, "bound_usd") for row in found) - 1
    ratios = [_number(row, "total_usd") / greedy[row["seed"]] for row in found if row["seed"] in greedy]
    ratio = _plus_minus(*mean_and_half(ratios), digits=3) if ratios else ""
    late, late_usd, moved = (_mean(found, field) for field in ("late_jobs", "tardiness_usd", "moves"))
    p50, p99 = (_mean(found, f"decision_{part}_seconds") for part in ("p50", "p99"))
    return (
        f"{name:16}{_plus_minus(total, half, digits=2):>18}{above:>12.1%} {ratio:>16}"
        f"{late:>7.1f}{late_usd:>10.2f}{moved:>8.0f}{p50:>8.3f}{p99:>8.3f}"
    )


def _plus_minus(mean: float, half: float, *, digits: int) -> str:
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if math.isfinite(half) else "")


def _reported(references: dict[tuple[str, str], float], setting: str, name: str) -> str:
    reported = references.get((setting, name))
    return f"{reported:>12.2f}" if reported is not None else ""


def _mean(rows: Sequence[Row], field: str) -> float:
    return sum(_number(row, field) for row in rows) / len(rows)


def _number(row: Row, field: str) -> float:
    value = row[field]
    if not isinstance(value, int | float):
        raise ValueError(f"{field} of {row['key']} must be a number, got {value}")
    return float(value)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

"""What a queue costs under each policy, beside a lower bound that no schedule can beat.

    python -m benchmarks.schedule PART [--instances DIR] [--traces DIR] [--jobs 100] [--nodes 10,50] [--loads 0.5,1]
                                       [--seeds 5] [--keep FILE] [--plot FILE] [--json]

instances   four instances of the papers beside the costs that their authors' program reports (--instances DIR, which
            holds `reference_costs.csv`)
load        random queues by the papers' rule at loads from 0.25 to 1.2
error       the same with predicted times that are wrong
moves       the same where booting, saving and restoring take time
beyond      spot, jobs over several nodes, quotas, a decision every quarter of an hour
traces      logged jobs with measured throughputs, as measured and as predicted from one GPU (--traces DIR, which holds
            `throughput.csv` and `job_traces/`, beside other tables of measurements; one seed of deadlines unless asked)
scale       how long one decision takes, by the number of nodes and of queued jobs, and its certified gap

Every schedule is checked to be legal and costed by one evaluator. A mean is over the seeds, ± half its 95 % confidence
interval; "of Greedy" is the mean ratio of costs on the same queue, so that queues that are large by chance do not blur
it. --keep FILE keeps every game that has ended: an interrupted run goes on where it was.
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
from benchmarks.schedule.games import LOADS, PARTS, Asked
from benchmarks.schedule.play import Kept, mean_and_half, play_all
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
    parser.add_argument("--jobs", type=int, default=traces.JOBS, help="of each trace, the first so many")
    parser.add_argument("--nodes", type=_ints, default=None, metavar="N,N")
    parser.add_argument("--loads", type=_floats, default=None, metavar="L,L")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--policies", type=lambda text: tuple(text.split(",")), default=(), metavar="P,P")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of scale: growth with the number of nodes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.part == "scale":
        found = scale(options.nodes or (10, 30, 100, 300, 1000), options.policies or ("greedy", "trainfare"))
        print_scale(found, as_json=options.json, plot=options.plot)
        return
    if options.part == "instances" and not (options.instances and options.instances.is_dir()):
        parser.error("instances needs --instances DIR, a folder of instances with reference_costs.csv")
    if options.part == "traces" and not traces.is_of_traces(options.traces):
        parser.error("traces needs --traces DIR, a folder with throughput.csv and job_traces/")
    usual = {"load": (_NODES, LOADS, _SEEDS), "traces": (traces.NODES, traces.LOADS, 1)}
    nodes, loads, seeds = usual.get(options.part, (_NODES, (0.5, 1.0), _SEEDS))
    asked = Asked(
        nodes=options.nodes or nodes,
        loads=options.loads or loads,
        seeds=options.seeds or seeds,
        policies=options.policies,
        instances=options.instances,
        traces=options.traces,
        jobs=options.jobs,
    )
    games = (PARTS | {"traces": traces.traces})[options.part](asked)
    rows = play_all(games, processes=options.processes, keep=options.keep)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print_table(rows, _references(options.instances) if options.part == "instances" else {})


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _floats(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _references(folder: Path) -> dict[tuple[str, str], float]:
    """(instance, policy) → total that the authors' own program reports."""
    spelled = {"RandomGreedy": "random_greedy", "PathRelinking": "path_relinking", "LocalSearch": "local_search"}
    with (folder / "reference_costs.csv").open() as file:
        return {
            (row["instance"], spelled.get(row["policy"], row["policy"].lower())): float(row["total_usd"])
            for row in csv.DictReader(file)
        }


def print_table(rows: Sequence[Kept], references: dict[tuple[str, str], float]) -> None:
    """A block a setting, in their order; a line a policy, the cheapest first."""
    blocks: dict[tuple[int, str], dict[str, list[Kept]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        blocks[int(_number(row, "nodes")), str(row["setting"])][str(row["policy"])].append(row)
    for (nodes, setting), policies in blocks.items():
        print(f"\n{setting}, {nodes} nodes, {max(len(found) for found in policies.values())} queue(s)")
        print(_HEAD + (f"{'reported $':>12}" if references else ""))
        greedy = {row["seed"]: _number(row, "total_usd") for row in policies.get("greedy", [])}
        for name, found in sorted(policies.items(), key=lambda item: _mean(item[1], "total_usd")):
            print(_line(name, found, greedy) + _reported(references, setting, name))


def _line(name: str, found: Sequence[Kept], greedy: dict[float | int | str | None, float]) -> str:
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


def _mean(rows: Sequence[Kept], field: str) -> float:
    return sum(_number(row, field) for row in rows) / len(rows)


def _number(row: Kept, field: str) -> float:
    value = row[field]
    if not isinstance(value, int | float):
        raise ValueError(f"{field} of {row['key']} is {value}")
    return float(value)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)

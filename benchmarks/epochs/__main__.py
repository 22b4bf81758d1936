"""How well epochs are foretold: from the beginning of a curve, and at another batch size.

    python -m benchmarks.epochs --data DIR [--small FILE] [--json]

DIR holds public measurements: `data_parallel_t4/` (28 whole curves of four programs at six to eight batch sizes, with
the noise of the gradient) and `epochs_to_target/` (epochs to a fixed quality by batch size). FILE is what `python -m
benchmarks.epochs.small_programs FILE` trains on this machine: four small programs under seven schedules, and at seven
batch sizes. Errors are mean absolute percentages; "all" counts every program alike.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchmarks.epochs import from_curve, other_batch
from benchmarks.epochs.data import Run, public_runs, reference_points, small_runs, to_target
from trainfare.estimator.epochs_by_batch import KnownEpochs
from trainfare.estimator.stabilisation import patience_epoch
from trainfare.profiler.enough import stabilisation_point

PUBLISHED = "104–276 (Sanghvi, two predictions by Optimus)"
Table = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--small", type=Path, metavar="FILE", help="curves of benchmarks.epochs.small_programs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (options.data / "data_parallel_t4").is_dir():
        parser.error(f"{options.data} does not hold data_parallel_t4/")
    runs = list(public_runs(options.data / "data_parallel_t4"))
    small = list(small_runs(options.small)) if options.small else []
    schedules = [run for run in small if " " not in run.program]
    sets = {name: [run.known for run in runs if run.program == name] for name in dict.fromkeys(r.program for r in runs)}
    tables = {
        "stabilisation: coefficient of variation over the runs of a program, %": stabilisation(runs),
        f"epochs_from_curve, error in %; published: {PUBLISHED}": curves(runs),
        "epochs_other_batch, error in %": batches(sets),
        "epochs_other_batch on reference points of MLPerf, error in %": batches(
            reference_points(options.data / "epochs_to_target" / "reference_points.csv")
        ),
    }
    if small:
        tables["epochs_from_curve on small programs, constants from the public ones"] = curves(schedules, runs)
        tables["epochs_other_batch on small programs, learning rate scaled with the batch, epochs to a target"] = (
            batches(
                {
                    name: to_target([run for run in small if run.program == name])
                    for name in dict.fromkeys(r.program for r in small if " " in r.program)
                }
            )
        )
    if options.json:
        print(json.dumps(tables, indent=2, ensure_ascii=False))
        return
    for title, table in tables.items():
        print(f"\n{title}\n{_text(table)}")


def stabilisation(runs: Iterable[Run]) -> Table:
    by_program: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_program[run.program].append(run)
    table = []
    for program, alike in by_program.items():
        points = {
            "settled": [run.settled for run in alike],
            "patience 5": [patience_epoch(run.values, higher=run.higher) or len(run.values) for run in alike],
            "Malta 2019": [(stabilisation_point(run.values, 5) or 0) + 1 for run in alike],
        }
        row: dict[str, Any] = {"program": program, "runs": len(alike)}
        row |= {name: 100 * pstdev(epochs) / fmean(epochs) for name, epochs in points.items()}
        table.append(
            row | {"settles in epoch": fmean(points["settled"]), "patience stops in": fmean(points["patience 5"])}
        )
    return [*table, _all(table, skip=("runs", "settles in epoch", "patience stops in"))]


def curves(runs: Sequence[Run], others: Sequence[Run] | None = None) -> Table:
    table = []
    for seen in from_curve.SEEN:
        part = []
        for program, score in from_curve.judge(runs, seen, others).items():
            row: dict[str, Any] = {"seen": f"{seen:.0%}".replace("%", " %"), "program": program}
            row |= {name: score.mean(name) for name in from_curve.METHODS}
            row["curve inside"] = score.coverage("curve")
            row["ours inside"] = score.coverage("ours")
            row["hi/lo"] = fmean(score.widths) if score.widths else None
            row["refused"] = score.refused
            part.append(row)
        table += [*part, {"seen": part[0]["seen"], **_all(part, skip=("seen", "refused"))}]
    return table


def batches(sets: Mapping[str, Sequence[KnownEpochs]]) -> Table:
    table = []
    for count in (1, 2, 3):
        part = []
        for program, points in sets.items():
            for distance, score in other_batch.judge(points, count).items():
                if score.ours:
                    row: dict[str, Any] = {"known": count, "distance": distance, "program": program}
                    row |= {"n": len(score.ours), "constant": fmean(score.constant), "ours": fmean(score.ours)}
                    row |= {"inside": fmean(score.inside), "hi/lo": fmean(score.widths)}
                    row["with noise"] = other_batch.mean(score.noise)
                    row["inside "] = other_batch.mean(score.noise_inside)
                    part.append(row)
        for _, distance in other_batch.BUCKETS:
            rows = [row for row in part if row["distance"] == distance]
            if rows:
                table += [*rows, {"known": count, "distance": distance, **_all(rows, skip=("known", "distance", "n"))}]
    return table


def _all(rows: Table, *, skip: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"program": "all"}
    for name in rows[0]:
        values = [row[name] for row in rows if isinstance(row.get(name), float | int)]
        if name not in skip and name != "program" and values:
            found[name] = fmean(values)
    return found


def _text(table: Table) -> str:
    names = list(dict.fromkeys(name for row in table for name in row if any(r.get(name) is not None for r in table)))
    cells = [names, *([_cell(name, row.get(name)) for name in names] for row in table)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2f}" if "inside" in name else f"{value:.1f}"


if __name__ == "__main__":
    main()

"""The accuracy of predicted epochs: from the beginning of a curve, and at another batch size.

    python -m benchmarks.epochs --data DIR [--small FILE] [--json]

DIR has public measurements: `data_parallel_t4/` (28 complete curves of four programs at six to eight batch sizes, with
the gradient noise) and `epochs_to_target/` (epochs to a fixed quality by batch size). FILE is the output of `python -m
benchmarks.epochs.small_programs FILE`: four small programs under seven schedules, and at seven batch sizes. Errors are
mean absolute percentages; "all" is the mean over programs.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchmarks.epochs import from_curve, other_batch, to_target
from benchmarks.epochs.data import (
    BySize,
    Run,
    by_program,
    known_to_target,
    public_runs,
    reference_points,
    small_runs,
    with_fewer_steps,
    with_long_epochs,
)
from trainfare.estimator.epochs.convergence import FORMS
from trainfare.estimator.epochs.stabilisation import patience_epoch
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.stability import stabilisation_point
from trainfare.units import format_percent

PUBLISHED = "104–276 (Sanghvi, two predictions by Optimus)"
Table = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--small", type=Path, metavar="FILE", help="curves of benchmarks.epochs.small_programs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (options.data / "data_parallel_t4").is_dir():
        parser.error(f"{options.data} has no folder data_parallel_t4")
    runs = list(public_runs(options.data / "data_parallel_t4"))
    small = list(small_runs(options.small)) if options.small else []
    schedules = [run for run in small if " " not in run.program]
    sets = by_program(runs)
    references = reference_points(options.data / "epochs_to_target" / "reference_points.csv")
    public = {**sets, **references}
    tables = {
        "stabilisation: coefficient of variation over the runs of a program, in %": stabilisation(runs),
        f"epochs_from_curve, error in %; published: {PUBLISHED}": curves(runs),
        "epochs_other_batch, error in %": batches(sets, public),
        "epochs_other_batch on reference points of MLPerf, error in %": batches(references, public),
        "epochs_other_batch with 20 times the samples in an epoch": batches(
            {name: with_long_epochs(of) for name, of in sets.items()}, public
        ),
        "epochs_other_batch with a fiftieth of the steps": batches(
            {name: with_fewer_steps(of) for name, of in sets.items()}, public
        ),
        "epochs to a target value of the metric, curves cut at 10 to 90%": targets([*runs, *schedules]),
    }
    if small:
        tables["epochs_from_curve on small programs, constants from the public ones"] = curves(schedules, runs)
        tables["epochs_other_batch on small programs, learning rate scaled with the batch, epochs to a target"] = (
            batches(
                {
                    name: known_to_target([run for run in small if run.program == name])
                    for name in dict.fromkeys(r.program for r in small if " " in r.program)
                },
                public,
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
    for program, own in by_program.items():
        points = {
            "settled": [run.settled for run in own],
            "patience 5": [patience_epoch(run.values, higher=run.higher) or len(run.values) for run in own],
            "Malta 2019": [(stabilisation_point(run.values, 5) or 0) + 1 for run in own],
        }
        row: dict[str, Any] = {"program": program, "runs": len(own)}
        row |= {name: 100 * pstdev(epochs) / fmean(epochs) for name, epochs in points.items()}
        table.append(
            row | {"settles in epoch": fmean(points["settled"]), "patience stops in": fmean(points["patience 5"])}
        )
    return [*table, _all(table, skip=("runs", "settles in epoch", "patience stops in"))]


def curves(runs: Sequence[Run], others: Sequence[Run] | None = None) -> Table:
    table = []
    for seen in from_curve.SEEN:
        found = list(from_curve.rows(runs, seen, others))
        name = format_percent(seen)
        part = [
            {"seen": name, "program": program, **_of_curves([row for row in found if row.program == program])}
            for program in dict.fromkeys(row.program for row in found)
        ]
        table += [*part, {"seen": name, **_all(part, skip=("seen", "refused"))}]
    return table


def _of_curves(rows: Sequence[from_curve.Row]) -> dict[str, Any]:
    """The mean errors of one program; refused rows count in no mean."""
    answered = [row for row in rows if not row.ours.refused]
    by_curve = [row for row in rows if not row.curve.refused]
    return {
        **{form: _mean(_error(row.forms[form], row.truth) for row in rows) for form in FORMS},
        "constant": _mean(_error(row.constant, row.truth) for row in rows),
        "curve": _mean(_error(row.curve.value, row.truth) for row in by_curve),
        "ours": _mean(_error(row.ours.value, row.truth) for row in answered),
        "curve inside": _mean(_inside(row.curve, row.truth) for row in by_curve),
        "ours inside": _mean(_inside(row.ours, row.truth) for row in answered),
        "high/low": _mean((row.ours.high or 1) / (row.ours.low or 1) for row in answered),
        "refused": len(rows) - len(answered),
    }


def targets(runs: Sequence[Run]) -> Table:
    found = list(to_target.rows(runs))
    table = []
    for name, of in (("known", lambda row: row.answer), ("unknown", lambda row: row.of_unknown_length)):
        part = [
            {"length": name, "program": program, **_of_targets([row for row in found if row.program == program], of)}
            for program in dict.fromkeys(row.program for row in found)
        ]
        table += [*part, {"length": name, **_all(part, skip=("length", "n"))}]
    return table


def _of_targets(rows: Sequence[to_target.Row], of: Callable[[to_target.Row], EpochsAnswer]) -> dict[str, Any]:
    """The errors on targets that the run reached and on targets that it never reached. For the second kind a refusal is
    right, or a range that does not end before the run."""
    reached = [row for row in rows if isfinite(row.truth)]
    answered = [row for row in reached if not of(row).refused]
    never = [row for row in rows if not isfinite(row.truth)]
    return {
        "n": len(reached),
        "refused %": 100 * (1 - len(answered) / len(reached)) if reached else None,
        "error": _mean(_error(of(row).value, row.truth) for row in answered),
        "inside": _mean(_inside(of(row), row.truth) for row in answered),
        "high/low": _mean((of(row).high or 1) / (of(row).low or 1) for row in answered),
        "never reached, inside": _mean(float((of(row).high or inf) >= row.run_epochs) for row in never),
    }


def batches(sets: Mapping[str, BySize], public: Mapping[str, BySize]) -> Table:
    table = []
    priors = other_batch.fit_priors(sets, public)
    for count in (1, 2, 3):
        found = {program: other_batch.rows_at_any_distance(of, count, priors[program]) for program, of in sets.items()}
        for _, distance in other_batch.BUCKETS:
            part = []
            for program, all_rows in found.items():
                near = [row for row in all_rows if row.distance == distance]
                if near:
                    part.append({"known": count, "distance": distance, "program": program, **_of_batches(near)})
            if part:
                table += [*part, {"known": count, "distance": distance, **_all(part, skip=("known", "distance", "n"))}]
    return table


def _of_batches(rows: Sequence[other_batch.Row]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": len(rows),
        "constant": _mean(_error(row.constant, row.truth) for row in rows),
        "least squares": _mean(_error(row.least_squares, row.truth) for row in rows),
        "ours": _mean(_error(row.by_epochs.value, row.truth) for row in rows),
        "inside": _mean(_inside(row.by_epochs, row.truth) for row in rows),
        "high/low": _mean((row.by_epochs.high or 1) / (row.by_epochs.low or 1) for row in rows),
    }
    if any(row.by_noise is not row.by_epochs for row in rows):
        found["with noise"] = _mean(_error(row.by_noise.value, row.truth) for row in rows)
        found["inside "] = _mean(_inside(row.by_noise, row.truth) for row in rows)
    return found


def _error(answer: float | None, truth: float) -> float:
    return 100 * abs((answer or 0.0) / truth - 1)


def _inside(answer: EpochsAnswer, truth: float) -> float:
    return float((answer.low or 0.0) <= truth <= (answer.high or 0.0))


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


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

"""Prints how many epochs are needed: the answer, the reason, the curve in characters, and every rule."""

import math
from collections.abc import Sequence
from statistics import fmean

from rich.table import Table
from rich.text import Text

from trainfare.cli.console import new_table, out, print_points
from trainfare.estimator.epochs.convergence import CurveFit
from trainfare.estimator.epochs.profile_epochs import EpochsReport, ProfileEpochs
from trainfare.model.epochs import EpochsAnswer
from trainfare.units import plural

ROWS, COLUMNS = 10, 64
"""Size of the plot: it fits a terminal of 80 columns."""

_RULES = {
    "you": "as you said",
    "program": "by the program",
    "early stopping": "by its early stopping",
    "schedule": "by its learning rates",
    "settled": "its curve is stable",
    "curve": "by the curve so far",
    "other batch sizes": "from other batch sizes",
    "gradient noise": "from its gradient noise",
    "target": "up to the target",
}


def print_epochs(report: EpochsReport, *, notes: Sequence[str] = ()) -> None:
    leading, answer = report.profiles[0], report.answer
    out().print(Text.assemble(*_headline(leading, answer)), soft_wrap=False)
    out().print()
    print_points([_sentence(answer.why), *_about(leading, answer), *map(_sentence, answer.warnings)])
    if leading.curve and len(leading.curve.values) > 1:
        out().print()
        for line in plot_lines(leading):
            out().print(Text(line), soft_wrap=True)
    out().print()
    out().print(_table(report))
    if notes:
        out().print(" · ".join(notes), style="dim", soft_wrap=False)


def _headline(leading: ProfileEpochs, answer: EpochsAnswer) -> list[str | tuple[str, str]]:
    size = answer.batch_size or leading.batch_size
    where = f"{leading.program} at batch size {size}" if size else leading.program
    if answer.refused:
        return [("Not known yet", "bold yellow"), f"  how many epochs {where} needs"]
    bounds = range_words(answer)
    if answer.value is None:
        return [("Between " + bounds.replace("–", "and") + " epochs", "bold yellow"), f"  {where}, no single number"]
    if answer.is_guess:
        return [(f"Perhaps {_epochs(answer)}", "bold yellow"), f"  (90%: {bounds})  {where}, a guess"]
    enough = f"{_epochs(answer)} {'are' if answer.rounded != 1 else 'is'} enough"
    return [(enough, "bold green"), f"  (90%: {bounds})  {where}, {_RULES[answer.rule]}"]


def _about(leading: ProfileEpochs, answer: EpochsAnswer) -> list[str]:
    trains, said = leading.trains, []
    if not trains.refused:
        # Nothing to save where it trains no longer than it needs.
        said.append(f"It trains {_epochs(trains)} ({_bounds(trains)}{trains.why}).")
    elif answer.refused:
        said.append("Neither you nor the program says how long it trains: pass --epochs.")
    if leading.curve is None:
        said.append(
            "No complete epoch with a loss or a metric was measured. Measure some: trainfare profile --epochs 5 -- …"
        )
    return said


def _bounds(answer: EpochsAnswer) -> str:
    return "" if answer.low == answer.high else f"90%: {range_words(answer)}; "


def plot_lines(found: ProfileEpochs, *, rows: int = ROWS, columns: int = COLUMNS) -> list[str]:
    """The curve in characters: ● measured, · fitted form, │ where it is expected to be stable, ░ its 90% interval.

    Epochs go to the right, the metric upward.
    """
    curve, fit, needed = found.curve, nearest_fit(found), found.needed
    if curve is None:
        return []
    length = run_length(found)
    seen = [(epoch, value) for epoch, value in enumerate(curve.values, start=1) if math.isfinite(value)]
    drawn = list(enumerate(fit.values[:length], start=1)) if fit else []
    heights = [value for _, value in (*seen, *drawn)]
    if not heights:
        return []
    low, high = min(heights), max(heights)
    columns = min(columns, max(length, 20))
    grid = [[" "] * columns for _ in range(rows)]

    def across(epoch: float) -> int:
        return min(columns - 1, max(0, round((epoch - 1) / (length - 1) * (columns - 1))))

    def down(value: float) -> int:
        return rows - 1 if high == low else round((high - value) / (high - low) * (rows - 1))

    for row in grid:
        if needed.low is not None and needed.high is not None:
            start, end = across(needed.low), across(needed.high) + 1
            row[start:end] = "░" * (end - start)
        if needed.value is not None:
            row[across(needed.value)] = "│"
    for mark, points in (("·", drawn), ("●", seen)):
        for epoch, value in points:
            grid[down(value)][across(epoch)] = mark
    keys = [f"● {curve.metric}", *([f"· {fit.form}"] if fit else [])]
    return _framed(grid, low, high, length, keys if needed.refused else [*keys, "│ stable, ░ 90% interval"])


def run_length(found: ProfileEpochs) -> int:
    """Number of epochs to draw: the run, what was measured, and the upper end of the answer."""
    return max(found.declared or 0, len(found.curve.values) if found.curve else 0, round(found.needed.high or 0), 2)


def _framed(grid: Sequence[Sequence[str]], low: float, high: float, length: int, keys: Sequence[str]) -> list[str]:
    labels = {0: f"{high:.4g}", len(grid) - 1: f"{low:.4g}"}
    margin, columns = max(map(len, labels.values())), len(grid[0])
    return [
        *(f"  {labels.get(place, ''):>{margin}} ┤{''.join(row).rstrip()}" for place, row in enumerate(grid)),
        f"  {'':>{margin}} └{'─' * columns}",
        f"  {'':>{margin}}  1{f'epoch {length}':>{columns - 1}}",
        f"  {'':>{margin}}  {'   '.join(keys)}",
    ]


def nearest_fit(found: ProfileEpochs) -> CurveFit | None:
    """The fitted form with the smallest squared error on the measured epochs."""
    if found.curve is None:
        return None
    values = found.curve.values
    return min(
        found.fits,
        key=lambda fit: fmean((a - b) ** 2 for a, b in zip(fit.values, values, strict=False)),
        default=None,
    )


def _table(report: EpochsReport) -> Table:
    several = len(report.profiles) > 1
    table = new_table()
    if several:
        table.add_column("profile", no_wrap=True)
        table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("epochs", justify="right", no_wrap=True)
    table.add_column("90% interval", justify="right", no_wrap=True)
    table.add_column("")
    for found in report.profiles:
        head = [found.profile_id, str(found.batch_size or "–")] if several else []
        for cells in _rows(found, shown=report.answer.why):
            table.add_row(*head, *cells)
            head = ["", ""] if several else []
    return table


def _rows(found: ProfileEpochs, *, shown: str) -> list[tuple[str, str, str, str]]:
    """One row per rule; the reason `shown` above the table is not repeated."""
    rows = []
    for name, answer in (("learning rates", found.by_schedule), ("curve", found.by_curve)):
        number = "–" if answer.value is None else str(answer.rounded)
        why = "see above" if answer.why == shown else answer.why
        rows.append((name, number, "" if answer.refused else range_words(answer), why))
    rows += [(f"  {fit.form}", str(fit.epoch), "", _coefficients(fit)) for fit in found.fits]
    if found.converged:
        rest = found.converged
        rows.append(("stable so far", str(rest.settled), "", "within 2% of the improvement, on the running median"))
        rows.append(("  patience 5", str(rest.patience or "–"), "", "no improvement for five epochs"))
        rows.append(("  Malta 2019", str(rest.eye or "–"), "", "stays near its last value"))
    return rows


def _coefficients(fit: CurveFit) -> str:
    names = {"optimus": ("β0", "β1", "β2"), "pow3": ("c", "a", "α"), "vapour": ("a", "b", "c")}[fit.form]
    return ", ".join(f"{name} {value:.3g}" for name, value in zip(names, fit.coefficients, strict=True))


def range_words(answer: EpochsAnswer) -> str:
    """The interval in whole epochs, rounded outward."""
    if answer.low is None or answer.high is None:
        return "–"
    return f"{max(1, int(answer.low))} – {-int(-answer.high // 1)}"


def _epochs(answer: EpochsAnswer) -> str:
    return plural(answer.rounded or 0, "epoch")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")

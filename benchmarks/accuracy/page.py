"""The scores as a table in the terminal and as the page of the docs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.accuracy.aims import Aim, aim_of

COLUMNS = ("mape", "median", "p90", "coverage", "width")
Tasks = dict[str, Any]


def as_table(tasks: Tasks) -> str:
    """One line a predictor, ours first."""
    wide = max((len(name) for name, *_ in _rows(tasks)), default=0)
    lines = [f"{'':{wide}}  {'n':>6}" + "".join(f"{column:>10}" for column in COLUMNS) + "   aim"]
    for name, n, numbers, remark in _rows(tasks):
        lines.append(f"{name:{wide}}  {n:>6}" + "".join(f"{number:>10}" for number in numbers) + f"   {remark}")
    return "\n".join(lines)


def _rows(tasks: Tasks) -> Iterator[tuple[str, str, list[str], str]]:
    for key, task in tasks.items():
        yield key, str(task["n"]), _numbers(task["ours"]), _remark(key, task)
        for name, scores in task["baselines"].items():
            yield f"    {name}", "", _numbers(scores), ""


def _numbers(scores: dict[str, float | None]) -> list[str]:
    return [_spelled(column, scores.get(column)) for column in COLUMNS]


def _spelled(column: str, number: float | None) -> str:
    if number is None:
        return ""
    return f"×/÷ {number:.2f}" if column == "width" else f"{number:.1f}"


def _remark(key: str, task: Any) -> str:
    """Reached or missed: the aim, and the floor below which we would not ship."""
    aim, error = aim_of(key), task["ours"]["mape"]
    if aim is None or error is None:
        return ""
    floor = _floor(aim, task)
    verdict = "reached" if error <= aim.aim else "floor reached" if floor is None or error <= floor else "floor missed"
    return f"{aim.aim:g}: {verdict}" + ("" if floor is None else f" (floor {floor:.1f})")


def _floor(aim: Aim, task: Any) -> float | None:
    if aim.floor is not None:
        return aim.floor
    known = [
        scores["mape"]
        for name, scores in task["baselines"].items()
        if scores["mape"] is not None and (aim.against is None or name == aim.against)
    ]
    return aim.factor * min(known) if aim.factor is not None and known else None


def as_page(tasks: Tasks) -> str:
    today = datetime.now(UTC).date().isoformat()
    parts = [HEAD.format(today=today), *_missed(tasks)]
    for task in dict.fromkeys(key.split("/")[0] for key in tasks):
        parts.append(f"\n## {task}\n\n{TOLD.get(task, '')}\n")
        parts.append("| rows, predictor | n | mean | median | p90 | inside 90 % | width | aim |")
        parts.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
        own = {key: value for key, value in tasks.items() if key.split("/")[0] == task}
        for name, n, numbers, remark in _rows(own):
            shown = f"**{name}**" if n else name.strip()
            parts.append(f"| {shown} | {n} | " + " | ".join(numbers) + f" | {remark} |")
        notes = [f"- `{key}`: {value['note']}" for key, value in own.items() if value.get("note")]
        if notes:
            parts.append("\n" + "\n".join(notes))
    return "\n".join(parts) + "\n"


def _missed(tasks: Tasks) -> Iterator[str]:
    """Where a floor is missed, first of all."""
    missed = [key for key, task in tasks.items() if "floor missed" in _remark(key, task)]
    yield f"\n**Floors missed: {len(missed)} of {sum(aim_of(key) is not None for key in tasks)}.**\n"
    for key in missed:
        yield f"- `{key}`: {tasks[key]['ours']['mape']:.1f} %, {_remark(key, tasks[key]).partition(': ')[2]}"


HEAD = """# How far off

Written by `python -m benchmarks.accuracy --fit DIR --page docs/accuracy.md` on {today}; DIR holds the public
measurements that [calibration](calibration.md) names. Errors are absolute percentages of the truth, on rows whose
program, family, GPU or curve was left out of the fit. *Inside* is the share of rows within the 90 % interval, *width*
its factor up and down. A bold row is ours; below it the baselines on the same rows. An aim is what we want to reach, a
floor what a first version must; a floor that is a factor is against the best baseline.

**How far to believe it.** No row that is judged was in the fit that judges it. But forms and settings of the models
were chosen while looking at these tables, so expect somewhat more on others; [experiments](experiments/README.md)
0080 to 0087, 0096, 0097, 0099 and 0104 to 0107 say which, and what second folders gave (`python -m
benchmarks.accuracy.split` makes them). Rows count alike, so a program with many rows weighs much."""

TOLD = {
    "other_vm": "Operator times and step time on one EC2 type, the step time on each of three others: 12 pairs.",
    "larger_batch": "Three smallest batch sizes of a program on a machine, the largest asked.",
    "unseen_model": "The operations of one iteration, the time of a training step asked; families left out.",
    "unseen_gpu": "A GPU left out of the fit, with none, one and a few measurements of other programs on it.",
    "layers": "Single layers on GPUs that were seen, the layers left out.",
    "more_gpus": "Up to four GPUs measured, more asked; one node measured, several asked.",
    "epochs_other_batch": "Epochs to the target at some batch sizes, at others asked, by how far off they are.",
    "epochs_from_curve": "The beginning of a curve of validation, the epoch from which on it is stable asked.",
    "choice": "A machine chosen from one measured machine: what it costs, or takes, beyond the best one, in percent.",
}

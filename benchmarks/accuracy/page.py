"""The scores as a table for the terminal and as the page of the docs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.accuracy.aims import Aim, aim_of

COLUMNS = ("mape", "median", "p90", "coverage", "width")
Tasks = dict[str, Any]


def score_table(tasks: Tasks) -> str:
    """One line per predictor, our own first."""
    wide = max((len(name) for name, *_ in _rows(tasks)), default=0)
    lines = [f"{'':{wide}}  {'n':>6}" + "".join(f"{column:>10}" for column in COLUMNS) + "   aim"]
    for name, n, numbers, remark in _rows(tasks):
        lines.append(f"{name:{wide}}  {n:>6}" + "".join(f"{number:>10}" for number in numbers) + f"   {remark}")
    return "\n".join(lines)


def _rows(tasks: Tasks) -> Iterator[tuple[str, str, list[str], str]]:
    for key, task in tasks.items():
        yield key, str(task["n"]), _numbers(task["ours"]), _verdict(key, task)
        for name, scores in task["baselines"].items():
            yield f"    {name}", "", _numbers(scores), ""


def _numbers(scores: dict[str, float | None]) -> list[str]:
    return [_format_score(column, scores.get(column)) for column in COLUMNS]


def _format_score(column: str, number: float | None) -> str:
    if number is None:
        return ""
    return f"×/÷ {number:.2f}" if column == "width" else f"{number:.1f}"


def _verdict(key: str, task: Any) -> str:
    """Whether the error reaches the aim, and the floor that it must reach to be shipped."""
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


def accuracy_page(tasks: Tasks) -> str:
    """The page in Markdown, with one section per task."""
    today = datetime.now(UTC).date().isoformat()
    parts = [HEAD.format(today=today), *_missed_floors(tasks)]
    for task in dict.fromkeys(key.split("/")[0] for key in tasks):
        parts.append(f"\n## {task}\n\n{DESCRIPTIONS.get(task, '')}\n")
        parts.append("| rows, predictor | n | mean | median | p90 | inside 90% | width | aim |")
        parts.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
        own = {key: value for key, value in tasks.items() if key.split("/")[0] == task}
        for name, n, numbers, remark in _rows(own):
            shown = f"**{name}**" if n else name.strip()
            parts.append(f"| {shown} | {n} | " + " | ".join(numbers) + f" | {remark} |")
        notes = [f"- `{key}`: {value['note']}" for key, value in own.items() if value.get("note")]
        if notes:
            parts.append("\n" + "\n".join(notes))
    return "\n".join(parts) + "\n"


def _missed_floors(tasks: Tasks) -> Iterator[str]:
    missed = [key for key, task in tasks.items() if "floor missed" in _verdict(key, task)]
    yield f"\n**Floors missed: {len(missed)} of {sum(aim_of(key) is not None for key in tasks)}.**\n"
    for key in missed:
        yield f"- `{key}`: {tasks[key]['ours']['mape']:.1f}%, {_verdict(key, tasks[key]).partition(': ')[2]}"
    reasons = [why for part, why in REASONS.items() if any(part in key for key in missed)]
    if reasons:
        yield "\nWhy they are missed:\n\n" + "\n".join(reasons)


REASONS = {
    "v100_one_server": """\
- `v100_one_server`: the table is erratic there. Its language model takes 9, 11, 32 and 11 ms on 1, 2, 4 and 8 GPUs; the
  median of all programs, chosen with the answers in view, has an error of 23% ([0099][0099]).""",
    "epochs_only": """\
- `data_parallel_t4/…/epochs_only`: the excess is that of ncf, which has 180 of the 428 rows at 2x and trains 5, 6 or 7
  whole epochs at every batch size, so one epoch is 14 to 20%. Least squares misses these floors too.""",
    "epochs_to_target/2x/one_known": """\
- `epochs_to_target/2x/one_known`: 0.1 points; a critical batch size cannot be seen in one run, and the prior that
  decides is learned from the other programs ([0064](decisions/0064-epochs-stay-without-evidence.md)).""",
    "choice/seven_models": """\
- `choice/seven_models…`: the choices are mostly among numbers of the same erratic V100s. ResNet-18 alone is faster
  there on each of eight GPUs than on one, and ResNet-50 alone needs 2 to 3.5 times as long ([0099][0099]).""",
    "cnn_on_ec2/deadline/surely": """\
- `choice/cnn_on_ec2/deadline/surely`: the rule asks for 90% and pays for it. About one case in twenty rejects a machine
  with a quarter of the bill that would have been in time ([0096](experiments/0096-times-alone-refined.md)).""",
}
"""Why a floor is missed, by a part of its key."""


HEAD = """# Accuracy of the predictions

Written by `python -m benchmarks.accuracy --fit DIR --page docs/accuracy.md` on {today}; DIR holds the public
measurements that [calibration](calibration.md) lists. Errors are absolute percentages of the true value, on rows whose
program, family, GPU or curve was held out of the fit. *Inside* is the share of rows within the 90% interval, *width*
the factor of that interval up and down. A bold row is our prediction; the rows below it are baselines on the same rows.
An aim is the error we want to reach, a floor the error that a first version must reach; a floor given as a factor is
relative to the best baseline.

**Limits of these numbers.** No tested row was part of the fit that predicts it. But the forms and settings of the
models were chosen with knowledge of these tables, so expect somewhat larger errors on other data;
[experiments](experiments/README.md) 0080 to 0087, 0096, 0097, 0099 and 0104 to 0107 say which, and give the errors on
second folders (made by `python -m benchmarks.accuracy.split`). Every row counts the same, so a program with many rows
has much weight.

**Where predictions fall short.**

- Deep networks of small kernels, moved from a slow GPU to a much faster one by their operator times: how long the host
  needs is hidden while the slow GPU is busy. With ResNets or Inception left out, steps on a V100 are predicted 10 to
  20% too short; the interval is wider there.
- GPUs newer than the H100 are in none of the tables. What their memory reaches is a physical assumption
  ([decision 0063](decisions/0063-bandwidth-reached-per-multiprocessor.md)).
- Language models are traced as the published program runs, as far as its source tells. Ten rows are of programs that
  we do not trace, on lines of their own (`untraced_programs`). They were separated after their errors were seen; with
  them `llm_training/full` has 29.3% and 77% inside ([decision 0074](decisions/0074-attention-as-a-gpu-runs-it.md)).
- The intervals of language models are wider than these rows need: all 74 lie inside. Most of their GPUs are not in the
  fit of operations, and the seven GPUs that are, each left out in turn, need ×/÷ 1.46, or 1.37 where the GPU decides
  and not the host ([decision 0075](decisions/0075-launch-time-belongs-to-the-host.md)). The rows are of a few programs
  on a few GPUs, which err together: 16, 22 and 36 of them cannot show that a narrower interval holds.
- Depthwise networks (MobileNet, EfficientNet) are only in the tables that the model is fitted to: they are judged with
  their families left out, and on no table that is wholly kept apart. On the RTX 3090 the 187 networks with depthwise
  convolutions have an error of 6.2%, 88% inside; the 397 others 5.5%, 93% inside.
- `choice/…/deadline/surely` chooses the cheapest machine that is in time with 90% confidence
  ([decision 0071](decisions/0071-a-limit-has-one-side.md)). On `cnn_on_ec2` it never chose a machine that was late; its
  regret comes from cheaper machines that would have been in time. On `seven_models_k80_p100_v100` 5% of them were late,
  and in six of ten cases no machine is sure enough, so that the fastest is taken.

[0099]: experiments/0099-generations-and-gradients.md"""

DESCRIPTIONS = {
    "other_vm": "Given operator times and step time on one EC2 type; predicted: the step time on three others.",
    "larger_batch": "Given the three smallest batch sizes of a program on a machine; predicted: the largest.",
    "unseen_model": "Given the operations of one iteration; predicted: the step time, with families held out.",
    "unseen_gpu": "A GPU held out of the fit, with none, one and a few measurements of other programs on it.",
    "layers": "Single layers on measured GPUs, with the layers held out.",
    "more_gpus": "Given up to four GPUs, or one node; predicted: more GPUs, or several nodes.",
    "language_models": "Given the operations of one step; predicted: its time. No language model is in the fit.",
    "untraced_programs": "Rows of `llm_training` whose program differs from the one that we trace: shown, not judged.",
    "epochs_other_batch": "Given epochs to the target at some batch sizes; predicted: at others, by their distance.",
    "epochs_from_curve": "Given the beginning of a validation curve; predicted: the epoch from which on it is stable.",
    "choice": "A machine chosen from one measured machine: its cost or time in excess of the best one, in percent.",
}

"""A run in the words of a page: headlines, comparisons with the prediction, what happened, and what to do next."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trainfare.model.interval import Interval
from trainfare.model.run import Fact, FactKind, Run
from trainfare.runner.receipt import Line, Receipt
from trainfare.runner.status import RunStatus
from trainfare.units import format_duration, format_number, format_size, format_usd, plural
from trainfare.views.offers_page import machine_title

_HEADLINES: Mapping[str, str] = {
    "planned": "It starts in a moment",
    "asked for": "Asking for the machine",
    "booting": "The machine is starting",
    "setting up": "Preparing the program",
    "training": "Training",
    "collecting": "Bringing the results home",
    "ending": "Giving the machine back",
}
_FACTS: Mapping[FactKind, str] = {
    "launch intended": "Asked for the machine",
    "launch refused": "The machine was refused",
    "machines seen": "The machine is starting",
    "machines ready": "The machine answers",
    "program sent": "The program is on the machine",
    "program started": "The program started",
    "program ended": "The program ended",
    "setup failed": "The preparation failed",
    "machines lost": "The machine was lost",
    "machines silent": "The machine does not answer",
    "machines answer": "The machine answers again",
    "machines abandoned": "The machine was given up",
    "results collected": "The results are here",
    "results lost": "The results were lost",
    "checkpoint fetched": "A checkpoint is here",
    "termination intended": "Giving the machine back",
    "termination failed": "The machine could not be given back yet",
    "terminated": "The machine is gone",
    "run ended": "The run ended",
    "stop asked": "Asked to stop",
    "move asked": "Asked to move",
    "warned": "Note",
}
_PARTS: Mapping[str, str] = {
    "queue": "Waiting in a queue",
    "boot": "Start of the machine",
    "setup": "Preparation",
    "training": "Training",
    "collecting": "Results and end",
    "in all": "Total",
}
_STOPPED_BY: Mapping[str, str] = {
    "user": "A user asked for it.",
    "budget": "Its budget was spent.",
    "deadline": "Its deadline had come.",
    "longest duration": "It had taken as long as it was allowed to.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a run."""

    at: datetime
    text: str
    detail: str | None
    is_bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """One line of a receipt in words; empty where nothing was predicted."""

    part: str
    predicted_time: str
    predicted_usd: str
    time: str
    paid: str
    difference: str


def rough_duration(seconds: float) -> str:
    """A time that is left, without digits that change by the second: `39 min`, `2 h 10 min`."""
    if seconds < 90:
        return format_duration(max(1.0, math.ceil(seconds)))
    return format_duration(60 * round(seconds / 60) if seconds < 36_000 else 600 * round(seconds / 600))


def state_word(status: RunStatus) -> tuple[str, str]:
    """The state in a word or two, and the kind of its tag."""
    life = status.life
    if life.state == "ended":
        return life.outcome or "ended", {"succeeded": "good", "stopped": "warning"}.get(life.outcome or "", "bad")
    if life.stop_reason is not None:
        return "stopping", "warning"
    if life.silent_since is not None:
        return "silent", "warning"
    return life.state, ""


def headline(status: RunStatus) -> str:
    """The headline of a run that has not ended and whose end is not known."""
    life, progress = status.life, status.progress
    if life.stop_reason is not None:
        return "Stopping: it saves, then its results come home"
    if life.state == "planned" and life.attempt:
        return "Between two machines"
    if life.state == "training" and progress.iterations:
        return f"Training, iteration {progress.iterations:,}"
    return _HEADLINES.get(life.state, "It runs")


def elapsed_seconds(status: RunStatus) -> float:
    """The time since the run was agreed to, which its deadline and its longest duration count from."""
    return max(0.0, (status.now - status.run.made_at).total_seconds())


def time_limit_seconds(run: Run) -> float | None:
    """The first limit on its time, from the agreement on."""
    limits = run.limits
    ends = [] if limits.longest_seconds is None else [limits.longest_seconds]
    if limits.deadline is not None:
        ends.append((limits.deadline - run.made_at).total_seconds())
    return min(ends, default=None)


def pace_sentence(status: RunStatus) -> str:
    """A sentence that compares the run with its prediction, and says what it will cost."""
    parts = []
    left, predicted = status.progress.remaining_seconds, status.receipt.total.predicted_seconds
    if left is not None and predicted is not None and status.progress.is_measured:
        total = status.receipt.total.seconds + left.value
        share = total / predicted.value - 1
        inside = predicted.low <= total <= predicted.high
        pace = (
            "As fast as predicted"
            if abs(share) < 0.015
            else f"{_short_percent(abs(share))} {'slower' if share > 0 else 'faster'} than predicted"
        )
        parts.append(f"{pace}, {'inside' if inside else 'outside'} the interval.")
    elif predicted is not None:
        parts.append(
            f"{format_duration(predicted.low)} to {format_duration(predicted.high)} were predicted for all of it."
        )
    else:
        parts.append("Nothing was predicted for it, because its program was never profiled.")
    parts.append(_cost_sentence(status))
    return " ".join(part for part in parts if part)


def _cost_sentence(status: RunStatus) -> str:
    usd, budget = status.usd_in_all, status.run.limits.budget_usd
    candidate = status.life.candidate or status.run.candidate
    if not candidate.usd_per_hour:
        return "This machine costs nothing."
    if usd is None:
        return ""
    text = f"It will cost about {format_usd(usd.value)}"
    if budget is None:
        return f"{text}; it has no limit."
    if usd.high <= 0.9 * budget:
        return f"{text}, well under your limit of {format_usd(budget)}."
    if usd.value <= budget:
        return f"{text}; it stops at {format_usd(budget)} at the latest."
    return f"{text}, more than your limit of {format_usd(budget)}: it will be stopped before its end."


def stop_sentence(status: RunStatus) -> str:
    """The price of stopping now, and what is kept."""
    paid, checkpoint = status.receipt.total.paid_usd, status.life.checkpoint
    candidate = status.life.candidate or status.run.candidate
    price = (
        f"Stopping now costs {format_usd(paid)}, which is spent" if candidate.usd_per_hour else "Stopping costs nothing"
    )
    if checkpoint is not None and checkpoint.iteration is not None:
        return f"{price}, and keeps the checkpoint of iteration {checkpoint.iteration:,}."
    if checkpoint is not None:
        return f"{price}, and keeps the last checkpoint."
    return f"{price}. The program is asked to save; no checkpoint is here yet."


def events_of(facts: Sequence[Fact]) -> list[Event]:
    """The facts in order, in the words of a page."""
    bad = ("launch refused", "setup failed", "machines lost", "results lost", "termination failed", "machines silent")
    return [
        Event(
            at=fact.seen_at,
            text=_FACTS[fact.kind],
            detail=_detail(fact),
            is_bad=fact.kind in bad or bool(fact.exit_code),
        )
        for fact in facts
    ]


def _detail(fact: Fact) -> str | None:
    if fact.kind == "program ended":
        return "It ended well" if fact.exit_code == 0 else f"exit code {fact.exit_code}"
    if fact.kind == "results collected" and fact.collected_files is not None:
        return f"{plural(fact.collected_files, 'file')}, {format_size(fact.collected_bytes or 0)}"
    if fact.kind == "launch intended" and fact.candidate is not None:
        return machine_title(fact.candidate).text
    if fact.kind == "checkpoint fetched" and fact.checkpoint is not None and fact.checkpoint.iteration is not None:
        return f"iteration {fact.checkpoint.iteration:,}"
    return fact.text


def result_headline(status: RunStatus) -> tuple[str, str, str]:
    """The headline of a run that has ended, in three parts of which the second is emphasised."""
    life, total = status.life, status.receipt.total
    costs = bool(status.run.candidate.usd_per_hour)
    amount = format_usd(total.paid_usd) if costs else format_duration(total.seconds)
    if life.outcome == "succeeded":
        inside = total.is_cost_inside if costs else total.is_inside
        verdict = {True: ", as predicted", False: _miss(total, costs), None: ""}[inside]
        return "Trained for " if costs else "Trained in ", amount, verdict
    word = {"failed": "It failed after ", "stopped": "Stopped after ", "lost": "Lost after "}[life.outcome or "failed"]
    return word, format_duration(total.seconds), f" for {format_usd(total.paid_usd)}" if costs else ""


def _miss(total: Line, costs: bool) -> str:
    predicted, observed = (total.predicted_usd, total.paid_usd) if costs else (total.predicted_seconds, total.seconds)
    if predicted is None or not predicted.value:
        return ""
    more, less = ("more", "less") if costs else ("slower", "faster")
    off = _short_percent(abs(observed / predicted.value - 1))
    return f", {off} {more if observed > predicted.value else less} than predicted"


def result_lead(status: RunStatus) -> str:
    """A sentence with the prediction, and the meaning of how the run ended."""
    life, total = status.life, status.receipt.total
    gone = (
        "The machine is gone: nothing costs anything any more."
        if status.run.candidate.usd_per_hour
        else "It ran on a machine of yours, which costs nothing."
    )
    if life.outcome == "succeeded":
        predicted = total.predicted_usd if status.run.candidate.usd_per_hour else total.predicted_seconds
        if predicted is None:
            return f"Nothing was predicted for it. {gone}"
        written = format_usd if status.run.candidate.usd_per_hour else format_duration
        between = f"between {written(predicted.low)} and {written(predicted.high)} at 90%"
        return f"{written(predicted.value)} were predicted, {between}. {gone}"
    if life.outcome == "stopped":
        return f"{_STOPPED_BY.get(life.stop_reason or '', '')} What it had saved by then is here. {gone}".strip()
    return f"{life.message or ''} {gone}".strip()


def next_step(status: RunStatus) -> tuple[str, str] | None:
    """A title and advice for a run that did not succeed; None if it did."""
    life = status.life
    if life.outcome == "failed":
        if not life.ever_started:
            return (
                "It never started",
                "The program was not run. The reason stands above; mend it and start the run again.",
            )
        code = f" with exit code {life.exit_code}" if life.exit_code else ""
        return (
            f"The program ended{code}",
            "Its last lines are below and mostly say why. Mend the program, try a few iterations of it here by "
            "profiling it, and start again.",
        )
    if life.outcome == "stopped":
        return (
            "It was stopped before its end",
            "To go on, start the program again with what it saved, and give it a higher limit if a limit stopped it.",
        )
    if life.outcome == "lost":
        return (
            "Its machine was lost",
            "A machine on demand is not taken back. A program that can go on from its checkpoint goes on by itself on "
            "the next machine.",
        )
    return None


def receipt_rows(receipt: Receipt) -> list[ReceiptRow]:
    """The rows of the ticket; the last one is the total."""
    shown = [line for line in receipt.lines if line.seconds or line.predicted_seconds]
    return [_receipt_row(line) for line in (*shown, receipt.total)]


def _receipt_row(line: Line) -> ReceiptRow:
    predicted = line.predicted_seconds
    difference = ""
    if predicted is not None and predicted.value and line.seconds:
        share = line.seconds / predicted.value - 1
        difference = "0%" if abs(share) < 0.005 else f"{'+' if share > 0 else '−'}{_short_percent(abs(share))}"
    return ReceiptRow(
        part=_PARTS[line.part],
        predicted_time="" if predicted is None else format_duration(predicted.value),
        predicted_usd="" if line.predicted_usd is None else format_usd(line.predicted_usd.value),
        time=format_duration(line.seconds),
        paid=format_usd(line.paid_usd),
        difference=difference,
    )


def _short_percent(share: float) -> str:
    return f"{share * 100:,.0f}%" if share < 10 else f"{format_number(share + 1)}x"


def default_cap_usd(run: Run) -> float | None:
    """A cap that few runs reach: the high end of the prediction, a little rounded up. None if it costs nothing."""
    if not run.candidate.usd_per_hour:
        return None
    if run.limits.budget_usd is not None:
        return run.limits.budget_usd
    usd = predicted_usd(run)
    return None if usd is None else max(0.01, -(-usd.high * 100 // 1) / 100)


def predicted_usd(run: Run) -> Interval | None:
    return _in_all(run, "usd")


def predicted_seconds(run: Run) -> Interval | None:
    return _in_all(run, "seconds")


def _in_all(run: Run, name: str) -> Interval | None:
    segments: list[Interval] = [getattr(each, name) for each in (run.estimate, run.then) if each is not None]
    return None if not segments else sum(segments[1:], segments[0])


def early_stop_sentence(run: Run, cap_usd: float | None) -> str | None:
    """A sentence that says how likely the limits stop the run early; None if nothing is known or nothing limits it."""
    usd, seconds, limit = predicted_usd(run), predicted_seconds(run), time_limit_seconds(run)
    chances = []
    if usd is not None and cap_usd is not None:
        chances.append(usd.probability_above(cap_usd))
    if seconds is not None and limit is not None:
        chances.append(seconds.probability_above(limit))
    if not chances:
        return None
    chance = max(chances)
    if chance < 0.005:
        return "These limits stop it early in fewer than 1 of 200 such runs."
    if chance > 0.95:
        return "These limits almost certainly stop it before its end. It keeps its last checkpoint."
    of_hundred = max(1, round(100 * chance))
    kept = "A run that is stopped keeps its last checkpoint."
    return f"These limits stop about {of_hundred} of 100 such runs before their end. {kept}"


def forecast(status: RunStatus) -> dict[str, Any]:
    """The numbers of the two bars of a run: time and cost, each spent, expected, low, high and limit."""
    left, usd = status.progress.remaining_seconds, status.usd_in_all
    elapsed = elapsed_seconds(status)
    time_bar = {"spent": elapsed, "value": None, "low": None, "high": None, "limit": time_limit_seconds(status.run)}
    if left is not None:
        time_bar |= {"value": elapsed + left.value, "low": elapsed + left.low, "high": elapsed + left.high}
    cost_bar = {
        "spent": status.receipt.total.paid_usd,
        "value": None,
        "low": None,
        "high": None,
        "limit": status.run.limits.budget_usd,
    }
    if usd is not None:
        cost_bar |= {"value": usd.value, "low": usd.low, "high": usd.high}
    ends = (
        None
        if left is None
        else {name: status.now + timedelta(seconds=getattr(left, name)) for name in ("value", "low", "high")}
    )
    return {"time": time_bar, "cost": cost_bar, "ends": ends}

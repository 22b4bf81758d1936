"""Words of the command line → goals, scopes and targets."""

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Literal

from trainfare.errors import NotFoundError, UsageError
from trainfare.model.plan import Goal, Target
from trainfare.model.run import LAUNCHERS, Launcher
from trainfare.model.scope import Quota, Scope
from trainfare.model.split import EarlyTarget
from trainfare.units import parse_duration


def parse_goal(
    kind: Literal["cheapest", "fastest"] | None,
    default: Literal["cheapest", "fastest"],
    *,
    weight_time: float | None,
    deadline: str | None,
    budget: float | None,
    confidence: float,
    target: str | None,
    value_of_time: str | None = None,
) -> Goal:
    """The goal that the options state; with a budget and no deadline the fastest, unless `kind` says otherwise."""
    if kind is not None and weight_time is not None:
        raise UsageError("a goal and a weight of time exclude each other: give one of them.", field="weight_time")
    if weight_time is not None and not 0 <= weight_time <= 1:
        raise UsageError(f"must lie between 0 (cheapest) and 1 (fastest), got {weight_time:g}.", field="weight_time")
    if not 0 < confidence < 1:
        raise UsageError(f"must lie between 0 and 1, got {confidence:g}.", field="confidence")
    hour = None if value_of_time is None else parse_value_of_time(value_of_time)
    if hour is not None and (kind == "fastest" or weight_time is not None):
        other = "the fastest goal" if weight_time is None else "a weight of time"
        raise UsageError(f"adds the price of your time to the cost, so it excludes {other}.", field="value_of_time")
    by_limit = "fastest" if budget is not None and deadline is None else default
    by_limit = "cheapest" if hour is not None else by_limit
    return Goal(
        kind="weighted" if weight_time is not None else kind or by_limit,
        weight_time=weight_time,
        deadline_seconds=None if deadline is None else parse_seconds("deadline", deadline),
        budget_usd=None if budget is None else require_positive("budget", budget),
        confidence=confidence,
        value_of_time_usd_per_hour=hour,
        target=None if target is None else parse_target(target),
    )


def parse_value_of_time(text: str) -> float:
    """The dollars of an hour: `30/h`, `$30/h` or `30`."""
    number = text.strip().lower().removesuffix("/h").removeprefix("$").removesuffix("$")
    try:
        return require_positive("value_of_time", float(number))
    except ValueError:
        raise UsageError(f"takes dollars an hour, such as 30/h, not {text!r}.", field="value_of_time") from None


def parse_scope(
    only: Sequence[str],
    quota: Sequence[str],
    batch: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    nodes: int | None,
    spot: bool,
    reserved: bool | None,
) -> Scope:
    """The offers, cluster sizes and batch sizes to choose from."""
    names: dict[str, list[str]] = {"provider": [], "region": [], "machine": [], "gpu": [], "gpu-gib": []}
    for word in only:
        what, equals, name = word.partition("=")
        if word != "yours" and what not in names:
            raise NotFoundError("filter", what, (*names, "yours"), listed_by="trainfare recommend --help", field="only")
        if word != "yours" and not name:
            raise UsageError(f"{what} needs a name, as in {what}=NAME.", field="only")
        if equals:
            names[what].append(name)
    if nodes is not None and nodes < 1:
        raise UsageError(f"must be at least 1, got {nodes}.", field="nodes")
    return Scope(
        providers=tuple(names["provider"]),
        regions=tuple(names["region"]),
        machines=tuple(names["machine"]),
        gpus=tuple(names["gpu"]),
        exclude=tuple(exclude),
        min_gpu_gib=max((_gib(text) for text in names["gpu-gib"]), default=None),
        yours="yours" in only,
        quota=tuple(_quota(word) for word in quota),
        nodes=nodes,
        batch_sizes=tuple(_batch_size(word) for word in batch if word != "any"),
        any_batch_size="any" in batch,
        spot=spot,
        reserved=reserved,
    )


def parse_seconds(field: str, text: str) -> float:
    """Seconds of a duration such as 2h; a `UsageError` that names the field where it is none."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{error}.", field=field) from None


def parse_delay(field: str, text: str | None) -> float | None:
    """Seconds of a duration that can also be zero (0, 0s); None stays None."""
    if text is None:
        return None
    is_zero = text.strip().rstrip("smindh") in ("0", "0.0")
    return 0.0 if is_zero else parse_seconds(field, text)


def parse_deadline(text: str) -> timedelta | datetime:
    """A time from now (6h, 2d) or a moment (2026-11-18T09:00), which is local time unless it has a time zone."""
    text = text.strip()
    invalid = UsageError(
        f"takes a time from now, such as 6h or 2d, or a moment, such as 2026-11-18T09:00, not {text!r}.",
        field="deadline",
    )
    if text.replace(".", "").isdecimal():  # other durations accept bare seconds; a deadline in 6 seconds is a mistake
        raise invalid
    try:
        return timedelta(seconds=parse_duration(text))
    except OverflowError:
        raise UsageError(
            f"{text} is outside the calendar. Give an earlier deadline, or none.", field="deadline"
        ) from None
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid from None
    if len(text) <= len("2026-11-18"):
        raise UsageError(f"{text} has no time of day. Write {text}T09:00.", field="deadline")
    return moment


def parse_day(field: str, text: str) -> date:
    """The day of an ISO date such as 2026-11-01."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day. Write it as 2026-11-01.", field=field) from None


def parse_user_quota(text: str) -> tuple[str, int]:
    """The user and the number of GPUs of `alice=8`."""
    user, equals, gpus = text.rpartition("=")
    if not equals or not user.strip() or not gpus.isdecimal():
        raise UsageError(f"takes a user and a number of GPUs, such as alice=8, not {text!r}.", field="quotas")
    return user.strip(), int(gpus)


def parse_whole_numbers(field: str, text: str, example: str) -> list[int]:
    """Whole numbers of at least 1 with commas between them, each once."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UsageError(f"takes whole numbers of at least 1, such as {example}, not {text!r}.", field=field)
    return list(dict.fromkeys(numbers))


AMOUNTS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
"""Letters after a number: 300B tokens, 600k steps."""


def parse_amount(field: str, text: str) -> float:
    """A positive number, as digits, as 3e11 or with a letter for the thousands: 300B."""
    word = text.strip().lower().replace(",", "").replace("_", "")
    factor = AMOUNTS.get(word[-1:], 1.0)
    try:
        return require_positive(field, float(word[:-1] if word[-1:] in AMOUNTS else word) * factor)
    except ValueError:
        raise UsageError(f"takes a number, such as 20000, 600k or 300B, not {text!r}.", field=field) from None


def parse_amounts(field: str, text: str) -> list[float]:
    """Positive numbers with commas between them, each once: 1.5,20 or 10k,600k."""
    amounts = [parse_amount(field, part) for part in text.split(",") if part.strip()]
    if not amounts:
        raise UsageError(f"takes numbers with commas between them, such as 5,10,20, not {text!r}.", field=field)
    return list(dict.fromkeys(amounts))


def parse_target(text: str) -> Target:
    metric, _, value = text.partition("=")
    try:
        return Target(metric=metric, value=float(value))
    except ValueError:
        raise UsageError(f"takes a metric and its value, such as accuracy=0.9, not {text!r}.", field="target") from None


def parse_early_target(text: str) -> EarlyTarget:
    figure, at, time = text.partition("@")
    metric, _, value = figure.partition("=")
    try:
        return EarlyTarget(metric=metric, value=float(value), seconds=parse_seconds("early", time) if at else None)
    except ValueError:
        raise UsageError(
            f"takes a metric, its value and a time, such as loss=0.5@2h, not {text!r}.", field="early"
        ) from None


def require_positive(field: str, number: float) -> float:
    if not 0 < number < math.inf:
        raise UsageError(f"must be a positive number, got {number:g}.", field=field)
    return number


def _gib(text: str) -> float:
    try:
        return require_positive("only", float(text))
    except ValueError:
        raise UsageError(f"gpu-gib takes a number of GiB, not {text!r}.", field="only") from None


def _quota(text: str) -> Quota:
    of, _, most = text.rpartition("=")
    try:
        return Quota(name=of, limit=int(most))
    except ValueError:
        raise UsageError(
            f"takes a name and a number, such as A100=8 or aws/p3.2xlarge=2, not {text!r}.", field="quota"
        ) from None


def _batch_size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"takes a whole number of samples, or `any`, not {text!r}.", field="batch_sizes")
    return int(text)


def parse_launcher(name: str) -> Launcher:
    """The launcher of a name."""
    for known in LAUNCHERS:
        if known == name.lower():
            return known
    raise UsageError(f"there is no launcher {name}: {', '.join(LAUNCHERS)}.", field="launcher")

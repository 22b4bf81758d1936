"""What the options of `recommend` and `probe` mean: goals, limits and scopes out of words."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainfare.model.plan import Goal, Target
    from trainfare.model.scope import Quota, Scope
    from trainfare.model.split import EarlyTarget


def goal_of(
    asked: Literal["cheapest", "fastest"] | None,
    usual: Literal["cheapest", "fastest"],
    *,
    weight_time: float | None,
    deadline: str | None,
    budget: float | None,
    confidence: float,
    target: str | None,
) -> "Goal":
    """Within a budget alone it is the fastest, unless the user says otherwise."""
    from trainfare.errors import UsageError
    from trainfare.model.plan import Goal

    if asked is not None and weight_time is not None:
        raise UsageError("--goal and --weight-time both say what to look for: give one of them.")
    if weight_time is not None and not 0 <= weight_time <= 1:
        raise UsageError(f"--weight-time goes from 0, the cheapest, to 1, the fastest; got {weight_time:g}.")
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence lies between 0 and 1, got {confidence:g}.")
    by_limit = "fastest" if budget is not None and deadline is None else usual
    return Goal(
        kind="weighted" if weight_time is not None else asked or by_limit,
        weight_time=weight_time,
        deadline_seconds=None if deadline is None else seconds_of("--deadline", deadline),
        budget_usd=_positive("--budget", budget),
        confidence=confidence,
        target=None if target is None else _target(target),
    )


def scope_of(
    only: "Sequence[str]",
    quota: "Sequence[str]",
    batch: "Sequence[str]",
    *,
    nodes: int | None,
    spot: bool,
    reserved: bool | None,
) -> "Scope":
    from trainfare.errors import NotFoundError, UsageError
    from trainfare.model.scope import Scope

    names: dict[str, list[str]] = {"provider": [], "region": [], "machine": [], "gpu": [], "gpu-gib": []}
    for word in only:
        what, equals, name = word.partition("=")
        if word != "yours" and what not in names:
            raise NotFoundError(
                "such thing for --only as", what, (*names, "yours"), listed_by="trainfare recommend --help"
            )
        if word != "yours" and not name:
            raise UsageError(f"--only {what} needs a name, as --only {what}=…")
        if equals:
            names[what].append(name)
    if nodes is not None and nodes < 1:
        raise UsageError(f"--nodes must be at least 1, got {nodes}.")
    return Scope(
        providers=tuple(names["provider"]),
        regions=tuple(names["region"]),
        machines=tuple(names["machine"]),
        gpus=tuple(names["gpu"]),
        least_gpu_gib=max((_gib(text) for text in names["gpu-gib"]), default=None),
        yours="yours" in only,
        quota=tuple(_quota(word) for word in quota),
        nodes=nodes,
        batch_sizes=tuple(_batch_size(word) for word in batch if word != "any"),
        any_batch_size="any" in batch,
        spot=spot,
        reserved=reserved,
    )


def _gib(text: str) -> float:
    from trainfare.errors import UsageError

    try:
        return _positive("--only gpu-gib", float(text)) or 0.0
    except ValueError:
        raise UsageError(f"--only gpu-gib is a number of GiB, not {text}.") from None


def seconds_of(option: str, text: str) -> float:
    from trainfare.errors import UsageError
    from trainfare.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None


def _positive(option: str, number: float | None) -> float | None:
    from trainfare.errors import UsageError

    if number is not None and not 0 < number < float("inf"):
        raise UsageError(f"{option} must be a positive number, got {number:g}.")
    return number


def _target(text: str) -> "Target":
    from trainfare.errors import UsageError
    from trainfare.model.plan import Target

    metric, _, value = text.partition("=")
    try:
        return Target(metric=metric, value=float(value))
    except ValueError:
        raise UsageError(f"--target is a metric and its value, as accuracy=0.9, not {text}.") from None


def early_of(text: str) -> "EarlyTarget":
    from trainfare.errors import UsageError
    from trainfare.model.split import EarlyTarget

    figure, at, time = text.partition("@")
    metric, _, value = figure.partition("=")
    try:
        return EarlyTarget(metric=metric, value=float(value), seconds=seconds_of("--early", time) if at else None)
    except ValueError:
        raise UsageError(f"--early is a metric, its value and by when, as loss=0.5@2h, not {text}.") from None


def _quota(text: str) -> "Quota":
    from trainfare.errors import UsageError
    from trainfare.model.scope import Quota

    of, _, most = text.rpartition("=")
    try:
        return Quota(of=of, most=int(most))
    except ValueError:
        raise UsageError(f"--quota is a name and a number, as A100=8 or aws/p3.2xlarge=2, not {text}.") from None


def _batch_size(text: str) -> int:
    from trainfare.errors import UsageError

    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--batch is a whole number of samples, or any, not {text}.")
    return int(text)

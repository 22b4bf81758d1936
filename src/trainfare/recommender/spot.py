"""What a deadline means on spot, in sentences, and whether it is kept."""

from collections.abc import Iterator

from trainfare.model.plan import Goal
from trainfare.model.spot import SpotRisk
from trainfare.units import format_duration, format_usd


def keeps_deadline(risk: SpotRisk, goal: Goal) -> bool:
    """With the confidence that the goal asks for; on spot alone, or going over to on demand in time."""
    most = 1 - goal.confidence
    return min(risk.spot_only.late, risk.with_fallback.late) <= most


def spot_risk_reasons(risk: SpotRisk, goal: Goal) -> Iterator[str]:
    """How likely spot alone is late, what going over costs, and when one must; with the numbers and their source."""
    alone, backed, steady = risk.spot_only, risk.with_fallback, risk.on_demand
    deadline = format_duration(risk.deadline_seconds)
    yield (
        f"on spot alone it ends after {deadline} with a probability of {chance_words(alone.late)}: a machine stays "
        f"{format_duration(risk.stay_seconds)} and the next one takes {format_duration(risk.wait_seconds)}, on the mean "
        f"of {risk.source}"
    )
    if not risk.fallback_at_seconds:
        yield (
            f"the deadline of {deadline} leaves no time to wait for spot: on demand takes "
            f"{format_duration(steady.seconds)} and costs {format_usd(steady.usd)}"
        )
        return
    saved = 1 - backed.usd / steady.usd
    against = f"{100 * saved:.0f} % less than" if saved >= 0.005 else "no less than"
    latest = format_duration(risk.fallback_at_seconds)
    yield (
        f"going over to on demand in time, at the latest {latest} after the beginning and later by all that is done "
        f"and saved by then, it costs {format_usd(backed.usd)} on the mean, {against} on demand alone; it comes to "
        f"that with a probability of {chance_words(backed.fallback)}"
    )
    if backed.late > 1 - goal.confidence:
        yield f"even on demand it ends after {deadline} with a probability of {chance_words(backed.late)}"


def chance_words(probability: float) -> str:
    """`3 %`, `less than 1 %`, `more than 99 %`: no more digits than the traces can bear."""
    if probability < 0.01:
        return "less than 1 %"
    if probability > 0.99:
        return "more than 99 %"
    return f"{100 * probability:.0f} %"

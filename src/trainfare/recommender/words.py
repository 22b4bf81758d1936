"""What a machine, a candidate and a number are called in a sentence."""

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.units import SECONDS_PER_HOUR, format_seconds, format_usd, spell_seconds


def machine_words(offer: Offer) -> str:
    """`aws g4dn.xlarge`, with the market where it is not plain on demand."""
    vm_type = offer.vm_type
    if offer.held:
        return f"{vm_type.provider} {vm_type.name} (yours)"
    return f"{vm_type.provider} {vm_type.name}" + (f" {offer.market}" if offer.market in ("spot", "reserved") else "")


def candidate_words(candidate: Candidate, *, batch: bool = False) -> str:
    """`4 × aws g4dn.xlarge at batch 256`; one node is not counted, and the batch size told only where it can differ."""
    nodes = "" if candidate.nodes == 1 else f"{candidate.nodes} × "
    at = f" at batch {candidate.batch_size}" if batch and candidate.batch_size is not None else ""
    return f"{nodes}{machine_words(candidate.offer)}{at}"


def spent_words(estimate: Estimate) -> str:
    """`1 h 55 min, 7.05 $`."""
    return f"{format_seconds(estimate.seconds.value)}, {format_usd(estimate.usd.value)}"


def limit_words(goal: Goal, *, one: bool = False) -> str:
    """`end within 12 h and cost at most 20.00 $ with 90 % confidence`, of `one` `ends within …`; empty where there is
    no limit."""
    s = "s" if one else ""
    limits = []
    if goal.deadline_seconds is not None:
        limits.append(f"end{s} within {duration_words(goal.deadline_seconds)}")
    if goal.budget_usd is not None:
        limits.append(f"cost{s} at most {format_usd(goal.budget_usd)}")
    return f"{' and '.join(limits)} with {percent(goal.confidence)} confidence" if limits else ""


def duration_words(seconds: float) -> str:
    """What somebody asked for: `12 h`, `2 h 30 min`, `15 min`."""
    words = spell_seconds(seconds) if seconds < 48 * SECONDS_PER_HOUR else format_seconds(seconds)
    return words.removesuffix(" 00 s").removesuffix(" 00 min").removesuffix(" 0 h")


def percent(share: float) -> str:
    """`90 %`, `99.5 %`, `99.9999 %`: what is not all is never called so."""
    return f"{100 * share:.3g} %" if share < 0.9995 else f"{100 * share:.12g} %"


def times_words(ratio: float) -> str:
    """`0.5 ×`, `1.04 ×`, `3.4 ×`, `120 ×`: two digits, three where the first says nothing."""
    if ratio >= 99.5:
        return f"{ratio:.0f} ×"
    return f"{ratio:.3g} ×" if 0.995 <= ratio < 1.095 else f"{ratio:.2g} ×"


def count_words(count: float) -> str:
    """One digit below ten: `0.4`, `1.6`, `12`."""
    return f"{count:.0f}" if count >= 9.5 else f"{count:.1f}" if count >= 0.95 else f"{count:.1g}"


def number_words(number: float) -> str:
    """`0.53`, `21.4`, `724`, `8030`: three digits, and never a power of ten."""
    return f"{number:.0f}" if number >= 99.5 else f"{number:.3g}"


def thousands(count: int) -> str:
    """`1 312`."""
    return f"{count:,}".replace(",", " ")


def plural(count: int, noun: str) -> str:
    """`1 machine type`, `1 312 candidates`."""
    return f"{thousands(count)} {noun}{'' if count == 1 else 's'}"

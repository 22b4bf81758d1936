"""What a machine, a candidate and a number are called in a sentence."""

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal
from trainfare.units import format_duration, format_percent, format_usd


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
    return f"{format_duration(estimate.seconds.value)}, {format_usd(estimate.usd.value)}"


def limit_words(goal: Goal, *, one: bool = False) -> str:
    """`end within 12 h and cost at most 20.00 $ with 90 % confidence`, of `one` `ends within …`; empty where there is
    no limit."""
    s = "s" if one else ""
    limits = []
    if goal.deadline_seconds is not None:
        limits.append(f"end{s} within {format_duration(goal.deadline_seconds)}")
    if goal.budget_usd is not None:
        limits.append(f"cost{s} at most {format_usd(goal.budget_usd)}")
    return f"{' and '.join(limits)} with {format_percent(goal.confidence)} confidence" if limits else ""

"""The JSON record of an estimate."""

from dataclasses import asdict
from typing import Any

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval


def estimate_record(estimate: Estimate) -> dict[str, Any]:
    """One flat row: the machine, the time, the cost, and how certain they are."""
    candidate, memory = estimate.candidate, estimate.memory
    offer, vm_type = candidate.offer, candidate.offer.vm_type
    return {
        "provider": vm_type.provider,
        "machine": vm_type.name,
        "region": offer.region,
        "market": offer.market,
        "nodes": candidate.nodes,
        "gpu": vm_type.gpu.name if vm_type.gpu else None,
        "gpus": candidate.gpus,
        "gpus_working": candidate.nodes * candidate.working_gpus_per_node,
        "batch_size": candidate.batch_size,
        "epochs": estimate.epochs,
        "epochs_low": estimate.epochs_interval.low if estimate.epochs_interval else estimate.epochs,
        "epochs_high": estimate.epochs_interval.high if estimate.epochs_interval else estimate.epochs,
        "iterations": estimate.iterations,
        **spread("seconds", estimate.seconds),
        **spread("usd", estimate.usd),
        "confidence": estimate.seconds.confidence,
        "basis": estimate.basis,
        "profile": estimate.profile_id,
        "fits": estimate.fits,
        "memory_fit": memory.verdict if memory else None,
        "memory_needed_gib": memory.needed_gib.value if memory else None,
        "memory_available_gib": memory.available_gib if memory else None,
        **spread("iteration_seconds", estimate.iteration_seconds),
        "samples_per_second": estimate.samples_per_second,
        "tokens_per_second": estimate.tokens_per_second,
        "limited_by": estimate.limited_by,
        "phases": {phase.name: phase.seconds.value for phase in estimate.phases},
        "bill": _bill(estimate),
        "interruptions": estimate.interruptions.value if estimate.interruptions else None,
        "checkpoint_every_seconds": estimate.checkpoint_every_seconds,
        "usd_per_hour": candidate.usd_per_hour,
        "price_seen_on": offer.seen_on.isoformat(),
        "price_source": offer.source,
        "commitment": asdict(offer.commitment) if offer.commitment else None,
    }


def _bill(estimate: Estimate) -> dict[str, Any] | None:
    """The bill line by line; None in old plans, which had no bills."""
    bill = estimate.bill
    if bill is None:
        return None
    return {
        "billed_seconds": bill.billed_seconds,
        "increment_seconds": bill.billing.increment_seconds,
        "minimum_seconds": bill.billing.minimum_seconds,
        "lines": [{"name": line.name, **spread("usd", line.usd), "how": line.how} for line in bill.lines],
    }


def spread(name: str, interval: Interval) -> dict[str, float]:
    """The value of an interval and its ends, by name."""
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}

"""The names of machines and candidates in reasons, sentences and tables."""

from trainfare.model.machine import HERE, HERE_NAME
from trainfare.model.offer import Candidate, Offer


def short_name(provider: str, machine: str) -> str:
    """`aws g4dn.xlarge`; `here` for the machine at hand."""
    return HERE_NAME if f"{provider}/{machine}" == HERE else f"{provider} {machine}"


def machine_name(offer: Offer) -> str:
    """`aws g4dn.xlarge`, with the market unless it is on demand or owned."""
    name = short_name(offer.vm_type.provider, offer.vm_type.name)
    if offer.held:
        return f"{name} (yours)"
    return name + (f" {offer.market}" if offer.market in ("spot", "reserved") else "")


def candidate_name(candidate: Candidate, *, with_batch_size: bool = False) -> str:
    """`4 × aws g4dn.xlarge at batch size 256`; a single node is not counted."""
    nodes = "" if candidate.nodes == 1 else f"{candidate.nodes} × "
    with_batch_size = with_batch_size and candidate.batch_size is not None
    return f"{nodes}{machine_name(candidate.offer)}" + (
        f" at batch size {candidate.batch_size}" if with_batch_size else ""
    )

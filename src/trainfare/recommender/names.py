"""The names of machines and candidates in reasons, sentences and tables."""

from trainfare.model.offer import Candidate, Offer


def machine_name(offer: Offer) -> str:
    """`aws g4dn.xlarge`, with the market unless it is on demand or owned."""
    vm_type = offer.vm_type
    if offer.held:
        return f"{vm_type.provider} {vm_type.name} (yours)"
    return f"{vm_type.provider} {vm_type.name}" + (f" {offer.market}" if offer.market in ("spot", "reserved") else "")


def candidate_name(candidate: Candidate, *, with_batch_size: bool = False) -> str:
    """`4 × aws g4dn.xlarge at batch size 256`; a single node is not counted."""
    nodes = "" if candidate.nodes == 1 else f"{candidate.nodes} × "
    with_batch_size = with_batch_size and candidate.batch_size is not None
    return f"{nodes}{machine_name(candidate.offer)}" + (
        f" at batch size {candidate.batch_size}" if with_batch_size else ""
    )

"""What could be taken, and what is left out with the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile

RUNS_ON = {"pytorch": ("nvidia", "amd")}
"""Accelerators on which an unmodified program of a framework starts. PyTorch needs another build of itself and
changes in the program for TPUs and Trainium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    candidates: tuple[Candidate, ...]
    foreign: int
    """Offers left out because the program would not run on their accelerator."""


def candidates(offers: Iterable[Offer], profiles: Sequence[Profile], *, today: date) -> Candidates:
    """Every offer that can be had today and could run the program, one node, at each batch size that was profiled."""
    rentable = [offer for offer in offers if offer.rentable_on(today)]
    usable = [offer for offer in rentable if _runs(profiles[0].framework, offer.vm_type)]
    batch_sizes = dict.fromkeys(profile.whole_batch_size for profile in profiles)
    return Candidates(
        candidates=tuple(Candidate(offer=offer, nodes=1, batch_size=size) for size in batch_sizes for offer in usable),
        foreign=len(rentable) - len(usable),
    )


def _runs(framework: str, vm_type: VmType) -> bool:
    return vm_type.gpu is None or vm_type.gpu.vendor in RUNS_ON.get(framework, (vm_type.gpu.vendor,))

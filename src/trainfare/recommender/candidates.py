"""What could be taken: every offer × number of machines × batch size, and what is left out with the reason.

A dearer region is left out where a cheaper one has the same machine on the same market: it takes as long and costs
more. On spot only where it is interrupted as often.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.model.scope import Scope

RUNS_ON = {"pytorch": ("nvidia", "amd")}
"""Accelerators on which an unmodified program of a framework starts. PyTorch needs another build of itself and
changes in the program for TPUs and Trainium."""
MOST_NODES = 8
"""Of a program that is seen to use several GPUs, unless the user says how many."""
BATCH_POWERS = (-2, -1, 0, 1, 2)
"""Of two, by which a profiled batch is multiplied: farther off nobody knows how many epochs it takes."""

_BATCH_NAME = re.compile(r"(--?)?[\w.-]*(batch|bs|bsz)[\w.-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    candidates: tuple[Candidate, ...]
    foreign: int
    """Offers left out because the program would not run on their accelerator."""
    outside: int
    """Offers left out because the user wants others, or has no quota for them."""
    offers: int
    """Those that were looked at, dearer regions included."""


def candidates(
    offers: Iterable[Offer],
    profiles: Sequence[Profile],
    *,
    today: date,
    scope: Scope,
    batch_sizes: Sequence[int | None],
    interrupted: Callable[[Offer], float] = lambda _: 0.0,
) -> Candidates:
    """Of the offers that can be had today and could run the program, those in scope.

    `interrupted` says how often on spot.
    """
    rentable = [offer for offer in offers if offer.rentable_on(today)]
    usable = [offer for offer in rentable if _runs(profiles[0].framework, offer.vm_type)]
    wanted = [offer for offer in usable if _in_scope(offer, scope)]
    several = uses_several_gpus(profiles) or (scope.nodes or 1) > 1
    return Candidates(
        candidates=tuple(
            Candidate(offer=offer, nodes=nodes, batch_size=size, gpus_used=gpus)
            for offer in _cheapest_regions(wanted, interrupted)
            for nodes, gpus in _shapes(offer.vm_type, scope, several=several)
            for size in batch_sizes
            if size is None or nodes * (gpus or 1) <= size
        ),
        foreign=len(rentable) - len(usable),
        outside=len(usable) - len(wanted),
        offers=len(wanted),
    )


def uses_several_gpus(profiles: Sequence[Profile]) -> bool:
    return any(profile.world_size > 1 for profile in profiles)


def sensible_batch_sizes(profiles: Sequence[Profile], scope: Scope) -> tuple[int | None, ...]:
    """Those asked for; else, or with any, those profiled, and where the command tells how to set it, a half, a quarter,
    two and four times as large ones. No batch is larger than the data set."""
    if scope.batch_sizes and not scope.any_batch_size:
        return scope.batch_sizes
    profiled = dict.fromkeys(profile.effective_batch_size for profile in profiles)
    told = all(batch_option(p.program, p.micro_batch_size) is not None for p in profiles)
    if not (told or scope.any_batch_size):
        return tuple(profiled)
    samples = next((profile.samples for profile in profiles if profile.samples), None)
    others = [round(size * 2.0**power) for size in profiled if size is not None for power in BATCH_POWERS]
    possible = [size for size in others if size >= 1 and (samples is None or size <= samples)]
    return tuple(dict.fromkeys((*profiled, *possible, *scope.batch_sizes)))


def batch_option(program: Program, batch_size: int | None) -> str | None:
    """How its command sets the batch size, with {} for the number: `--batch-size {}`, `batch={}`; None where no word
    of it does."""
    if batch_size is None:
        return None
    number = str(batch_size)
    for word, following in zip(program.command, (*program.command[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if equals and value == number and _BATCH_NAME.fullmatch(name):
            return f"{name}={{}}"
        if following == number and word.startswith("-") and (_BATCH_NAME.fullmatch(word) or word == "-b"):
            return f"{word} {{}}"
    return None


def _runs(framework: str, vm_type: VmType) -> bool:
    return vm_type.gpu is None or vm_type.gpu.vendor in RUNS_ON.get(framework, (vm_type.gpu.vendor,))


def _in_scope(offer: Offer, scope: Scope) -> bool:
    vm_type = offer.vm_type
    gpu = vm_type.gpu
    return (
        (not scope.providers or vm_type.provider in scope.providers)
        and (not scope.regions or offer.region in scope.regions)
        and (not scope.machines or vm_type.key in scope.machines or vm_type.name in scope.machines)
        and (not scope.gpus or (gpu is not None and gpu.name in scope.gpus))
        and (scope.min_gpu_gib is None or (gpu is not None and gpu.memory_gib >= scope.min_gpu_gib))
        and (not scope.yours or offer.market == "own" or offer.held)
        and scope.max_nodes(vm_type) != 0
    )


def _cheapest_regions(offers: Iterable[Offer], interrupted: Callable[[Offer], float]) -> Iterator[Offer]:
    best: dict[tuple[object, ...], Offer] = {}
    for offer in offers:
        often = interrupted(offer) if offer.market == "spot" else 0.0
        alike = (offer.vm_type.key, offer.market, offer.held, often)
        known = best.get(alike)
        if known is None or offer.usd_per_hour < known.usd_per_hour:
            best[alike] = offer
    return iter(best.values())


def _shapes(vm_type: VmType, scope: Scope, *, several: bool) -> Iterator[tuple[int, int | None]]:
    """Numbers of machines, and of GPUs used in each: one, all, and two, four, … machines with all of theirs."""
    if not several or vm_type.gpu is None:
        yield 1, None
        return
    if vm_type.gpus > 1:
        yield 1, 1
    left = scope.max_nodes(vm_type)
    most = min(n for n in (scope.nodes or MOST_NODES, left) if n is not None)
    nodes = 1
    while nodes < most:
        yield nodes, vm_type.gpus
        nodes *= 2
    yield most, vm_type.gpus

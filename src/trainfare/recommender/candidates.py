"""The candidates: every offer × number of nodes × batch size, and how many offers are left out for which reason.

Of several regions with the same machine on the same market only the cheapest is a candidate, because the others take as
long and cost more; on spot, the cheapest of those with the same rate of interruptions.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from trainfare.model.machine import VmType
from trainfare.model.offer import UNCONNECTED, Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.model.run import Fact
from trainfare.model.scope import Scope

RUNS_ON = {"pytorch": ("nvidia", "amd"), "unknown": ("nvidia", "amd")}
"""The vendors of accelerators on which an unmodified program of a framework starts. For TPUs and Trainium, PyTorch
needs another build and the program needs changes. A log need not tell the framework: then it is `unknown`."""
MOST_NODES = 8
"""Nodes of a program that used several GPUs in its profile, unless the user says how many."""
BATCH_POWERS = (-2, -1, 0, 1, 2)
"""Powers of two by which a profiled batch size is multiplied: outside this range the number of epochs is unknown."""

_BATCH_NAME = re.compile(r"(--?)?[\w.-]*(batch|bs|bsz)[\w.-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates of a program in a scope, and the offers that were considered and left out."""

    candidates: tuple[Candidate, ...]
    incompatible: int
    """Offers that were left out because the program would not run on their accelerator."""
    outside: int
    """Offers that were left out because the scope or a quota excludes them."""
    old_marketplace: int = 0
    """Offers of marketplaces that were left out because their price, which changes by the hour, is old."""
    refused: tuple[Fact, ...] = ()
    """The last refusals of offers that were left out because a door has just refused them."""
    in_scope: tuple[Offer, ...] = ()
    """The offers that were considered, in all regions."""

    @property
    def offers(self) -> int:
        return len(self.in_scope)


def candidates(
    offers: Iterable[Offer],
    profiles: Sequence[Profile],
    *,
    today: date,
    scope: Scope,
    batch_sizes: Sequence[int | None],
    guessed_sizes: Collection[int | None] = (),
    interruptions_per_hour: Callable[[Offer], float] = lambda _: 0.0,
    refusals: Sequence[Fact] = (),
) -> Candidates:
    """The candidates from the offers that can be rented today, could run the program and are in scope.

    `interruptions_per_hour` returns the rate of an offer on spot. `guessed_sizes` are batch sizes whose number of
    epochs is a guess: they are offered and not chosen, and only on GPUs: a larger batch hardly speeds up a CPU.
    `refusals` are those of the last day, the newest first: such offers are left out unless their machine is named, or
    nothing else is left.
    """
    rentable = [offer for offer in offers if offer.rentable_on(today)]
    compatible = [offer for offer in rentable if is_compatible(profiles[0].framework, offer.vm_type)]
    wanted = [offer for offer in compatible if _is_in_scope(offer, scope)]
    believed = [offer for offer in wanted if not _is_guesswork(offer, scope, today)]
    in_scope, refused = _without_refused(believed, scope, refusals)
    several = uses_several_gpus(profiles) or (scope.nodes or 1) > 1
    machines = [
        (offer, nodes, gpus)
        for offer in _cheapest_regions(in_scope, interruptions_per_hour)
        for nodes, gpus in _shapes(offer, scope, several=several)
    ]
    return Candidates(
        candidates=tuple(
            Candidate(offer=offer, nodes=nodes, batch_size=size, gpus_used=gpus)
            for size in batch_sizes
            for offer, nodes, gpus in machines
            if (size is None or nodes * (gpus or 1) <= size)
            and (size not in guessed_sizes or offer.vm_type.gpu is not None)
        ),
        incompatible=len(rentable) - len(compatible),
        outside=len(compatible) - len(wanted),
        old_marketplace=len(wanted) - len(believed),
        refused=refused,
        in_scope=tuple(in_scope),
    )


def uses_several_gpus(profiles: Sequence[Profile]) -> bool:
    """True if any of the profiles used more than one GPU."""
    return any(profile.world_size > 1 for profile in profiles)


def sensible_batch_sizes(profiles: Sequence[Profile], scope: Scope) -> tuple[int | None, ...]:
    """The batch sizes to consider: those in the scope, if it names any and does not allow all; otherwise those that
    were profiled and, if the command shows how to set the batch size or the scope allows all, also a quarter, half, two
    and four times as large ones. No batch is larger than the data set."""
    if scope.batch_sizes and not scope.any_batch_size:
        return scope.batch_sizes
    profiled = dict.fromkeys(profile.effective_batch_size for profile in profiles)
    adjustable = all(batch_option(p.program, p.micro_batch_size) is not None for p in profiles)
    if not (adjustable or scope.any_batch_size):
        return tuple(profiled)
    samples = next((profile.samples for profile in profiles if profile.samples), None)
    others = [round(size * 2.0**power) for size in profiled if size is not None for power in BATCH_POWERS]
    possible = [size for size in others if size >= 1 and (samples is None or size <= samples)]
    return tuple(dict.fromkeys((*profiled, *possible, *scope.batch_sizes)))


def batch_option(program: Program, batch_size: int | None) -> str | None:
    """The words of the user's command that set the batch size, with {} for the number, such as `--batch-size {}` or
    `batch={}`; None if there are none."""
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


def is_compatible(framework: str, vm_type: VmType) -> bool:
    """True if an unmodified program of the framework starts on the machine."""
    return vm_type.gpu is None or vm_type.gpu.vendor in RUNS_ON.get(framework, (vm_type.gpu.vendor,))


def _is_in_scope(offer: Offer, scope: Scope) -> bool:
    vm_type = offer.vm_type
    gpu = vm_type.gpu
    return (
        (not scope.providers or vm_type.provider in scope.providers)
        and (not scope.regions or offer.region in scope.regions)
        and (not scope.machines or vm_type.key in scope.machines or vm_type.name in scope.machines)
        and (not scope.gpus or (gpu is not None and gpu.name in scope.gpus))
        and (scope.min_gpu_gib is None or (gpu is not None and gpu.memory_gib >= scope.min_gpu_gib))
        and (not scope.yours or offer.market == "own" or offer.held)
        and not (scope.exclude and _is_excluded(offer, scope))
        and scope.max_nodes(vm_type) != 0
    )


def _is_guesswork(offer: Offer, scope: Scope, today: date) -> bool:
    """True for an expired price, unless the scope names the provider or the machine."""
    vm_type = offer.vm_type
    is_named = vm_type.provider in scope.providers or _is_machine_named(offer, scope)
    return offer.has_expired_price(today) and not is_named


def _without_refused(
    offers: Sequence[Offer], scope: Scope, refusals: Sequence[Fact]
) -> tuple[Sequence[Offer], tuple[Fact, ...]]:
    """The offers that were not refused for capacity or quota, and the newest refusal of each of the others."""
    newest: dict[object, Fact] = {}
    for fact in refusals:
        if fact.candidate is not None and fact.refusal in ("capacity", "quota"):
            newest.setdefault(fact.candidate.offer.key, fact)
    kept = [offer for offer in offers if offer.key not in newest or _is_machine_named(offer, scope)]
    if len(kept) == len(offers) or all(offer.is_here for offer in kept):
        return offers, ()
    left_out = {offer.key for offer in offers} - {offer.key for offer in kept}
    return kept, tuple(fact for key, fact in newest.items() if key in left_out)


def _is_machine_named(offer: Offer, scope: Scope) -> bool:
    return offer.vm_type.key in scope.machines or offer.vm_type.name in scope.machines


def _is_excluded(offer: Offer, scope: Scope) -> bool:
    """True if the scope leaves out the machine, its provider, its GPU or its region."""
    vm_type = offer.vm_type
    names = (vm_type.key, vm_type.name, vm_type.provider, vm_type.gpu.name if vm_type.gpu else None, offer.region)
    return any(name in scope.exclude for name in names)


def _cheapest_regions(offers: Iterable[Offer], interruptions_per_hour: Callable[[Offer], float]) -> Iterator[Offer]:
    best: dict[tuple[object, ...], Offer] = {}
    for offer in offers:
        rate = interruptions_per_hour(offer) if offer.market == "spot" else 0.0
        key = (offer.vm_type.key, offer.market, offer.held, rate)
        known = best.get(key)
        if known is None or offer.usd_per_hour < known.usd_per_hour:
            best[key] = offer
    return iter(best.values())


def _shapes(offer: Offer, scope: Scope, *, several: bool) -> Iterator[tuple[int, int | None]]:
    """The numbers of nodes and of GPUs used in each: one GPU, all GPUs of a node, and two, four, … nodes with all.

    Machines of a provider that does not connect them are not joined.
    """
    vm_type = offer.vm_type
    if not several or vm_type.gpu is None:
        yield 1, None
        return
    if vm_type.gpus > 1:
        yield 1, 1
    left = 1 if vm_type.provider in UNCONNECTED else scope.max_nodes(vm_type)
    most = min(n for n in (scope.nodes or MOST_NODES, left, offer.most_nodes) if n is not None)
    nodes = 1
    while nodes < most:
        yield nodes, vm_type.gpus
        nodes *= 2
    yield most, vm_type.gpus

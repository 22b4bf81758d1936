"""The candidates to choose from, with their time and cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainfare.app.catalog.this_machine import other_names
from trainfare.app.recommending.workload import Workload, interruptions_on
from trainfare.app.stated import StatedLength
from trainfare.catalog.catalog import Catalog
from trainfare.errors import InfeasibleError, Remedy, UsageError
from trainfare.estimator.estimate import Totals
from trainfare.estimator.memory import ways_to_fit
from trainfare.model.machine import HERE
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.model.run import Fact
from trainfare.model.scope import Scope
from trainfare.recommender.candidates import Candidates, candidates, sensible_batch_sizes
from trainfare.recommender.choose import Rejection, Rejections, first_of_each, reject_ineligible
from trainfare.recommender.options import Options
from trainfare.units import format_number, plural
from trainfare.views.infeasible import question_remedy
from trainfare.views.memory import ways_phrases


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """All candidates in a scope, with time and cost where the profiles allow an estimate."""

    workload: Workload
    profiles: tuple[Profile, ...]
    """The profiles that the question is about, the leading one first."""
    scope: Scope
    candidates: Candidates
    totals: Options[Totals]
    now: datetime


def search(
    workload: Workload,
    profiles: Sequence[Profile],
    scope: Scope,
    length: StatedLength,
    now: datetime,
    refusals: Sequence[Fact] = (),
) -> SearchResult:
    """Time and cost of every candidate in the scope. Raises InfeasibleError if there is no candidate."""
    if scope.batch_sizes and profiles[0].effective_batch_size is None:
        raise UsageError(
            f"Profile {profiles[0].id} has no batch size, so other sizes cannot be estimated. State the batch size "
            "that it used.",
            field="batch_sizes",
            remedies=[Remedy({"profiled_batch_size": "B"})],
        )
    sizes = sensible_batch_sizes(profiles, scope)
    belongs_to_size = length.states_total and len(sizes) == len(scope.batch_sizes) == 1
    if not belongs_to_size:
        workload = workload.with_epochs_at(sizes)
    known = [size for size in sizes if size is None or _has_epochs(workload, size)]
    if not known:
        raise _unknown_epochs(workload, sizes)
    found = candidates(
        _offers(workload.catalog, scope),
        profiles,
        today=now.date(),
        scope=scope,
        batch_sizes=known,
        guessed_sizes={size for size in known if is_guessed(workload, scope, size)},
        interruptions_per_hour=lambda offer: interruptions_on(offer).per_hour.value,
        refusals=refusals,
    )
    if not found.candidates:
        raise _empty_scope(found, scope)
    totals = _totals(workload, found.candidates, scope)
    totals = _without_unsafe(totals, workload, scope)
    return SearchResult(
        workload=workload,
        profiles=tuple(profiles),
        scope=scope,
        candidates=found,
        totals=totals,
        now=now,
    )


def _offers(catalog: Catalog, scope: Scope) -> tuple[Offer, ...]:
    """Everything that can be rented, the user's machines, and the machine at hand. Slices of it that are in no file are
    considered only if they are named: the answer to where to train is not half of a laptop. The user's machine with the
    name of this host is the machine at hand, and listed twice only if it is named."""
    same = other_names()
    named = {*scope.machines, *scope.also}
    return (
        *((catalog.here,) if catalog.here is not None else ()),
        *(offer for offer in (*catalog.slices, *catalog.hosts) if named & {offer.vm_type.key, offer.vm_type.name}),
        *(
            offer
            for offer in catalog.offers
            if offer.market != "own" or offer.vm_type.key not in same or named & {offer.vm_type.key, offer.vm_type.name}
        ),
        *catalog.commitments,
    )


def is_guessed(workload: Workload, scope: Scope, batch_size: int | None) -> bool:
    """True for a batch size that was not asked for and whose number of epochs is a guess."""
    asked = scope.any_batch_size or batch_size in scope.batch_sizes
    return not asked and workload.has_guessed_epochs(batch_size)


def _has_epochs(workload: Workload, batch_size: int) -> bool:
    answer = workload.epochs_at.get(batch_size)
    return answer is None or answer.value is not None


def _unknown_epochs(workload: Workload, sizes: Sequence[int | None]) -> InfeasibleError:
    size = next(size for size in sizes if size is not None)
    return InfeasibleError(
        f"The number of epochs at batch size {size} cannot be predicted: {workload.epochs_at[size].why}. Profile the "
        "program at that size, or state the number for that size alone.",
        remedies=[question_remedy({"batch_sizes": (size,), "epochs": "N"})],
    )


def _empty_scope(found: Candidates, scope: Scope) -> InfeasibleError:
    advice = "Machines of your own are listed in machines.toml." if scope.yours else "Leave out a restriction."
    return InfeasibleError(
        f"No candidate is left: {plural(found.outside, 'offer')} could run the program, and none of them is within the "
        f"chosen providers, machines, quotas and batch sizes. {advice}"
    )


def _totals(workload: Workload, found: Sequence[Candidate], scope: Scope) -> Options[Totals]:
    """Totals of all candidates. If spot is not allowed, only those spot candidates that may be mentioned: of a machine
    that is also available otherwise, at the nodes and batch size at which it is the cheapest or the fastest."""
    totals = workload.totals(found)
    if scope.spot:
        return totals
    guessed = {size for size in {c.batch_size for c in found} if is_guessed(workload, scope, size)}
    steady = totals.where(totals.fits).where_offer(lambda offer: offer.market != "spot")
    steady = steady.where_candidate(lambda candidate: candidate.batch_size not in guessed)
    best = {
        (candidate.offer.vm_type.key, candidate.shape)
        for quantity in (steady.usd, steady.seconds)
        for candidate in first_of_each(steady.sorted_by(quantity), lambda offer: offer.vm_type.key).candidates
    }
    machines = {key for key, _ in best}

    def may_be_mentioned(candidate: Candidate) -> bool:
        key = candidate.offer.vm_type.key
        return candidate.offer.market != "spot" or key not in machines or (key, candidate.shape) in best

    return totals.where_candidate(may_be_mentioned)


def _without_unsafe(totals: Options[Totals], workload: Workload, scope: Scope) -> Options[Totals]:
    """The candidates without batch sizes that were neither requested nor profiled, unless they certainly fit in
    memory."""
    requested = {*scope.batch_sizes, *(group.profiles[0].effective_batch_size for group in workload.groups)}
    others = totals.where_candidate(lambda candidate: candidate.batch_size not in requested)
    return totals.without(others.where([each.memory is None or each.memory.verdict != "fits" for each in others]))


def find_eligible(found: SearchResult) -> tuple[Options[Totals], dict[Rejection, Options[Totals]]]:
    """The candidates that fit in memory on an allowed market, and the rejected others.

    Raises InfeasibleError, with the reason, if there are none.
    """
    scope = found.scope
    eligible, rejections = reject_ineligible(found.totals, spot=scope.spot, reserved=scope.reserved)
    if not eligible:
        raise _nothing_eligible(found, rejections)
    return eligible, rejections


def _nothing_eligible(found: SearchResult, rejections: Rejections[Totals]) -> InfeasibleError:
    if found.totals:
        not_allowed = rejections.get("market_not_allowed")
        if not not_allowed:
            return _fits_nowhere(found)
        return InfeasibleError(
            f"No candidate is left: all of the {plural(len(not_allowed), 'candidate')} that would do are on spot or "
            "need a commitment, which are not allowed by default.",
            remedies=[question_remedy({"spot": True}), question_remedy({"reserved": True})],
        )
    profile = found.workload.leading.profiles[0]
    program = profile.program.command_line
    if not any(p.steady_iteration_seconds for p in found.workload.predictor.profiles):
        return InfeasibleError(
            f"Profile {profile.id} contains only the first iteration, which says nothing about the following ones. "
            "Profile more iterations.",
            remedies=[Remedy({"iterations": 6}, command="profile", program=program)],
        )
    machines = [candidate.offer.vm_type for candidate in found.candidates.candidates]
    if all(vm_type.key == HERE for vm_type in machines):
        return InfeasibleError(
            "Only this machine is left, and the profile was taken on another one. Profile the program here; further "
            "machines of your own are listed in machines.toml.",
            remedies=[Remedy(command="profile", program=program)],
        )
    machines = [vm_type for vm_type in machines if vm_type.key != HERE]
    if not any(vm_type.gpu for vm_type in machines):
        return InfeasibleError(
            "Only machines without a GPU are left, and their time is estimated only from a profile taken on such a "
            "machine.",
            remedies=[Remedy({"on": machines[0].key}, command="profile", program=program)],
        )
    return InfeasibleError(
        f"Profile {profile.id} has no operations, so it says something only about the machine type that it was taken "
        "on. Profile the program again with operations; they are traced in one additional iteration, so profile fewer "
        "iterations than the program trains.",
        remedies=[Remedy(command="profile", program=program)],
    )


def _fits_nowhere(found: SearchResult) -> InfeasibleError:
    known = [(each.candidate, each.memory) for each in found.totals if each.memory is not None]
    candidate, largest = max(known, key=lambda pair: (pair[0].offer.vm_type.gpu is not None, pair[1].available_gib))
    needed, vm_type = largest.needed_gib, candidate.offer.vm_type
    has = "the largest machine" if vm_type.gpu is None else "the largest GPU"
    ways = ways_to_fit(
        found.workload.leading.profiles,
        vm_type,
        batch_size=candidate.batch_size,
        gpus=max(1, candidate.nodes * candidate.working_gpus_per_node),
    )
    advice = "; ".join(ways_phrases([way for way in ways if way.way != "larger gpu"]))
    return InfeasibleError(
        f"It does not fit on any machine: an iteration needs about {format_number(needed.value)} GiB (90%: "
        f"{format_number(needed.low)} – {format_number(needed.high)}), and {has} has "
        f"{format_number(largest.available_gib)} GiB. "
        + (f"There it would fit with: {advice}." if advice else "Profile it with a smaller batch size.")
    )

"""The candidates to choose from, with their time and cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainfare.app.recommending.workload import Workload, interruptions_on
from trainfare.errors import InfeasibleError, Remedy, UsageError
from trainfare.estimator.estimate import Totals
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.recommender.candidates import Candidates, candidates, sensible_batch_sizes
from trainfare.recommender.choose import Rejection, reject_ineligible
from trainfare.units import format_number, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """All candidates in a scope, with time and cost where the profiles allow an estimate."""

    workload: Workload
    scope: Scope
    candidates: Candidates
    totals: Mapping[Candidate, Totals]
    now: datetime


def search(
    workload: Workload, profiles: Sequence[Profile], scope: Scope, epochs: int | None, now: datetime
) -> SearchResult:
    """Time and cost of every candidate in the scope. Raises InfeasibleError if there is no candidate."""
    if scope.batch_sizes and profiles[0].effective_batch_size is None:
        raise UsageError(
            f"Profile {profiles[0].id} has no batch size, so other sizes cannot be estimated. Profile the program "
            "again in a way that its batch size can be seen.",
            field="batch_sizes",
        )
    sizes = sensible_batch_sizes(profiles, scope)
    if not (epochs and len(sizes) == len(scope.batch_sizes) == 1):  # stated epochs belong to the only batch size
        workload = workload.with_epochs_at(sizes)
    known = [size for size in sizes if size is None or _has_epochs(workload, size)]
    if not known:
        raise _unknown_epochs(workload, sizes)
    offers = (*workload.catalog.offers, *workload.catalog.commitments)
    found = candidates(
        offers,
        profiles,
        today=now.date(),
        scope=scope,
        batch_sizes=known,
        interruptions_per_hour=lambda offer: interruptions_on(offer).per_hour.value,
    )
    if not found.candidates:
        raise _empty_scope(found, scope)
    totals = _totals(workload, found.candidates, scope)
    unsafe = _is_unsafe(workload, scope)
    return SearchResult(
        workload=workload,
        scope=scope,
        candidates=found,
        totals={each.candidate: each for each in totals if not unsafe(each)},
        now=now,
    )


def _has_epochs(workload: Workload, batch_size: int) -> bool:
    answer = workload.epochs_at.get(batch_size)
    return answer is None or answer.value is not None


def _unknown_epochs(workload: Workload, sizes: Sequence[int | None]) -> InfeasibleError:
    size = next(size for size in sizes if size is not None)
    return InfeasibleError(
        f"The number of epochs at batch size {size} cannot be predicted: {workload.epochs_at[size].why}. Profile the "
        "program at that size, or state the number for that size alone.",
        remedies=[Remedy({"batch_sizes": (size,), "epochs": "N"})],
    )


def _empty_scope(found: Candidates, scope: Scope) -> InfeasibleError:
    advice = "Machines of your own are listed in machines.toml." if scope.yours else "Leave out a restriction."
    return InfeasibleError(
        f"No candidate is left: {plural(found.outside, 'offer')} could run the program, and none of them is within the "
        f"chosen providers, machines, quotas and batch sizes. {advice}"
    )


def _totals(workload: Workload, found: Sequence[Candidate], scope: Scope) -> Iterable[Totals]:
    """Totals of all candidates. If spot is not allowed, only those spot candidates that may be mentioned: of a machine
    that is also available otherwise, at the nodes and batch size at which it is the cheapest or the fastest."""
    if scope.spot:
        return workload.totals(found)
    steady = workload.totals([c for c in found if c.offer.market != "spot"])
    machines: dict[str, list[Totals]] = {}
    for each in steady:
        if each.fits is not False:
            machines.setdefault(each.candidate.offer.vm_type.key, []).append(each)
    best = {
        (key, _shape(min(there, key=quantity).candidate))
        for key, there in machines.items()
        for quantity in (lambda e: e.usd.value, lambda e: e.seconds.value)
    }
    on_spot = [c for c in found if c.offer.market == "spot"]
    mentioned = [c for c in on_spot if (key := c.offer.vm_type.key) not in machines or (key, _shape(c)) in best]
    return (*steady, *workload.totals(mentioned))


def _shape(candidate: Candidate) -> tuple[int, int | None, int | None]:
    return candidate.nodes, candidate.gpus_used, candidate.batch_size


def _is_unsafe(workload: Workload, scope: Scope) -> Callable[[Totals], bool]:
    """A function that is True for a batch size that was neither requested nor profiled, unless it certainly fits in
    memory."""
    requested = {*scope.batch_sizes, *(group.profiles[0].effective_batch_size for group in workload.groups)}

    def is_unsafe(totals: Totals) -> bool:
        if totals.candidate.batch_size in requested:
            return False
        return totals.memory is None or totals.memory.verdict != "fits"

    return is_unsafe


def find_eligible(found: SearchResult) -> tuple[tuple[Totals, ...], dict[Candidate, Rejection]]:
    """The candidates that fit in memory on an allowed market, and the rejections of the others.

    Raises InfeasibleError, with the reason, if there are none.
    """
    scope = found.scope
    eligible, rejections = reject_ineligible(found.totals.values(), spot=scope.spot, reserved=scope.reserved)
    if not eligible:
        raise _nothing_eligible(found, rejections)
    return eligible, rejections


def _nothing_eligible(found: SearchResult, rejections: Mapping[Candidate, Rejection]) -> InfeasibleError:
    if found.totals:
        if set(rejections.values()) == {"does_not_fit"}:
            return _fits_nowhere(found.totals.values())
        fitting = sum(code != "does_not_fit" for code in rejections.values())
        return InfeasibleError(
            f"No candidate is left: all of the {plural(fitting, 'candidate')} that would do are on spot or need a "
            "commitment, which are not allowed by default.",
            remedies=[Remedy({"spot": True}), Remedy({"reserved": True})],
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


def _fits_nowhere(totals: Iterable[Totals]) -> InfeasibleError:
    largest = max((each.memory for each in totals if each.memory), key=lambda m: m.available_gib)
    needed = largest.needed_gib
    return InfeasibleError(
        f"It does not fit on any machine: an iteration needs about {format_number(needed.value)} GiB (90%: "
        f"{format_number(needed.low)} – {format_number(needed.high)}), and the largest GPU has "
        f"{format_number(largest.available_gib)} GiB. Profile it with a smaller batch size."
    )

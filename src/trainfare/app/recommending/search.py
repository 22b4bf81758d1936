"""What there is to choose from: every candidate estimated, and those that may be taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainfare.app.recommending.workload import Workload, interruptions_on
from trainfare.errors import InfeasibleError, UsageError
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.recommender.candidates import Candidates, candidates, sensible_batch_sizes
from trainfare.recommender.choose import choosable
from trainfare.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was looked through."""

    workload: Workload
    scope: Scope
    found: Candidates
    estimates: tuple[Estimate, ...]
    now: datetime


def search(workload: Workload, profiles: Sequence[Profile], scope: Scope, epochs: int | None, now: datetime) -> Search:
    if scope.batch_sizes and profiles[0].effective_batch_size is None:
        raise UsageError(f"nobody knows the batch size of profile {profiles[0].id}, so no other can be asked for.")
    sizes = sensible_batch_sizes(profiles, scope)
    if not (epochs and len(sizes) == len(scope.batch_sizes) == 1):  # what is stated is of the one that is asked for
        workload = workload.knowing_epochs_at(sizes)
    unknown = {size for size, answer in workload.epochs_at.items() if answer.value is None}
    told = [size for size in sizes if size not in unknown]
    if not told:
        raise InfeasibleError(_no_epochs(workload, sizes))
    offers = (*workload.catalog.offers, *workload.catalog.commitments)
    found = candidates(
        offers,
        profiles,
        today=now.date(),
        scope=scope,
        batch_sizes=told,
        interrupted=lambda offer: interruptions_on(offer).per_hour.value,
    )
    if not found.candidates:
        raise InfeasibleError(
            f"nothing is left to choose from: {plural(found.outside, 'offer')} could run it, and none is what --only, "
            "--quota and --batch leave. "
            + ("Machines are yours that your machines.toml lists." if scope.yours else "Leave one of them out.")
        )
    estimates = tuple(e for e in _estimates(workload, found.candidates, scope) if _is_safe(e, workload, scope))
    return Search(workload=workload, scope=scope, found=found, estimates=estimates, now=now)


def _estimates(workload: Workload, wanted: Sequence[Candidate], scope: Scope) -> tuple[Estimate, ...]:
    """Spot that is not asked for is only told of: of a machine that can be had otherwise, at the number of nodes and
    the batch size at which it is the cheapest, and at which it is the fastest."""
    if scope.spot:
        return workload.totals(wanted)
    steady = workload.totals([c for c in wanted if c.offer.market != "spot"])
    machines: dict[str, list[Estimate]] = {}
    for estimate in steady:
        if estimate.fits is not False:
            machines.setdefault(estimate.candidate.offer.vm_type.key, []).append(estimate)
    best = {
        (key, _shape(min(there, key=quantity).candidate))
        for key, there in machines.items()
        for quantity in (lambda e: e.usd.value, lambda e: e.seconds.value)
    }
    on_spot = [c for c in wanted if c.offer.market == "spot"]
    told = [c for c in on_spot if (key := c.offer.vm_type.key) not in machines or (key, _shape(c)) in best]
    return (*steady, *workload.totals(told))


def _shape(candidate: Candidate) -> tuple[int, int | None, int | None]:
    return candidate.nodes, candidate.gpus_used, candidate.batch_size


def _is_safe(estimate: Estimate, workload: Workload, scope: Scope) -> bool:
    """A batch size that nobody asked for is proposed only where it surely fits in memory."""
    size = estimate.candidate.batch_size
    if size in scope.batch_sizes or any(group.profiles[0].effective_batch_size == size for group in workload.groups):
        return True
    return estimate.memory is not None and estimate.memory.verdict == "fits"


def _no_epochs(workload: Workload, sizes: Sequence[int | None]) -> str:
    size = next(size for size in sizes if size is not None)
    return (
        f"nobody can tell how many epochs a batch size of {size} takes: {workload.epochs_at[size].why}. "
        f"Profile it at that size, or state them of it alone: --batch {size} --epochs N."
    )


def may_be_chosen(search: Search) -> tuple[Estimate, ...]:
    """Those that may be chosen; `InfeasibleError`, and why, where there is none."""
    profile = search.workload.leading.profiles[0]
    if not search.estimates and not any(p.steady_iteration_seconds for p in search.workload.predictor.profiles):
        raise InfeasibleError(
            f"profile {profile.id} saw only its first iteration, which says nothing of those that follow. Let it see "
            f"more: trainfare profile --iterations 6 -- {profile.program.command_line}"
        )
    left = [candidate.offer.vm_type for candidate in search.found.candidates]
    if not search.estimates and not any(vm_type.gpu for vm_type in left):
        raise InfeasibleError(
            "only machines without a GPU are left, and how long it takes there is told by no profile but one of such a "
            f"machine: trainfare profile --on {left[0].key} -- {profile.program.command_line}"
        )
    scope, fitting = search.scope, sum(e.fits is not False for e in search.estimates)
    try:
        return choosable(search.estimates, spot=scope.spot, reserved=scope.reserved)
    except InfeasibleError:
        if not fitting:
            raise
        raise InfeasibleError(
            f"nothing is left to choose from: of the {plural(fitting, 'candidate')} that would do, all are on spot or "
            "bound to a commitment. --spot or --reserved lets them in."
        ) from None

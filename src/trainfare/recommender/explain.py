"""The reasons of a Plan in plain sentences with numbers: why this one, how sure, what was assumed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.recommender.crossovers import Stretch
from trainfare.units import format_age, format_seconds, format_usd

LIMIT_WORDS = {
    "compute": "arithmetic",
    "memory bandwidth": "memory bandwidth",
    "launches": "launching kernels, not by the GPU: a faster GPU gains little",
    "data": "waiting for data, not by the GPU: a faster GPU gains little",
}

SHORT_SECONDS = 120.0
"""About what a cloud needs to start a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that the reasons are taken from."""

    goal: Goal
    profile: Profile
    """The leading one."""
    ordered: Sequence[Estimate]
    """Of those that may be chosen, one a machine, best first."""
    estimates: Sequence[Estimate]
    stretches: Sequence[Stretch]
    """Which machine wins at how many epochs."""
    foreign: int
    epochs_stated: bool
    spot: bool
    today: date


def reasons(case: Case) -> tuple[str, ...]:
    return (
        *_why(case),
        *_sure(case),
        *_what_would_change_it(case),
        *_assumed(case),
    )


def machine_words(offer: Offer) -> str:
    """`aws g4dn.xlarge`, with the market where it is not plain on demand."""
    vm_type = offer.vm_type
    return f"{vm_type.provider} {vm_type.name}" + (" spot" if offer.market == "spot" else "")


def _why(case: Case) -> Iterator[str]:
    chosen = case.ordered[0]
    too_large = sum(e.fits is False for e in case.estimates)
    yield (
        f"{case.goal.kind} of {len(case.ordered)} machine types ({len(case.estimates)} offers were estimated"
        + (f", {too_large} of them too small for it" if too_large else "")
        + ")"
    )
    if chosen.limited_by is not None:
        yield (
            f"an iteration takes {format_seconds(chosen.iteration_seconds.value)} there, "
            f"limited by {LIMIT_WORDS[chosen.limited_by]}"
        )
    other_goal, best = _best_by_the_other_goal(case)
    if best.candidate.offer.vm_type != chosen.candidate.offer.vm_type:
        yield (
            f"the {other_goal}, {machine_words(best.candidate.offer)}, takes "
            f"{best.seconds.value / chosen.seconds.value:.2g} × the time and costs "
            f"{best.usd.value / chosen.usd.value:.2g} × as much"
        )
    if not case.spot:
        yield from _spot_would_be(case, chosen)


def _best_by_the_other_goal(case: Case) -> tuple[str, Estimate]:
    if case.goal.kind == "cheapest":
        return "fastest", min(case.ordered, key=lambda e: (e.seconds.value, e.usd.value))
    return "cheapest", min(case.ordered, key=lambda e: (e.usd.value, e.seconds.value))


def _spot_would_be(case: Case, chosen: Estimate) -> Iterator[str]:
    spot = [e for e in case.estimates if e.candidate.offer.market == "spot" and e.fits is not False]
    cheapest = min(spot, key=lambda e: e.usd.value, default=None)
    if cheapest is not None and cheapest.usd.value < chosen.usd.value:
        yield (
            f"on spot, {machine_words(cheapest.candidate.offer)} would cost {format_usd(cheapest.usd.value)}, "
            "if it were never interrupted; interruptions are not in the estimate, so spot is chosen only with --spot"
        )


def _sure(case: Case) -> Iterator[str]:
    chosen = case.ordered[0]
    gpu = chosen.candidate.offer.vm_type.gpu
    match chosen.basis:
        case "measured":
            yield f"measured: profile {chosen.profile_id} was taken on this machine type"
        case "scaled":
            yield (
                f"scaled: profile {chosen.profile_id} was taken on {case.profile.host.gpu or 'another GPU'} and moved "
                f"to {gpu.name if gpu else 'this machine'} by the ratio of what the two can do"
            )
        case "extrapolated":
            yield (
                f"extrapolated: nobody has measured this program on {gpu.name if gpu else 'this machine'}; the time "
                "follows from its operations and the GPU's nominal figures, hence the wide interval. A profile taken "
                f"there settles it: trainfare profile --on {chosen.candidate.offer.vm_type.key} -- …"
            )
    if len(case.ordered) > 1:
        yield from _runner_up(case, chosen, case.ordered[1])


def _runner_up(case: Case, chosen: Estimate, second: Estimate) -> Iterator[str]:
    """Two estimates with the same GPU and basis err alike: their order is sure though their intervals overlap."""
    mine, its = (e.candidate.offer.vm_type.gpu for e in (chosen, second))
    same_error = chosen.basis == second.basis == "extrapolated" and mine == its
    by = case.goal.kind
    ours, theirs = (chosen.usd, second.usd) if by == "cheapest" else (chosen.seconds, second.seconds)
    if ours.overlaps(theirs) and not same_error:
        yield (
            f"{machine_words(second.candidate.offer)} cannot be told apart from it at 90 % confidence: "
            f"{theirs.value / ours.value:.2g} × the {'cost' if by == 'cheapest' else 'time'}"
        )


def _what_would_change_it(case: Case) -> Iterator[str]:
    """The neighbours of the chosen machine along the number of epochs."""
    chosen = case.ordered[0]
    machine = chosen.candidate.offer.vm_type.key
    here = next((i for i, s in enumerate(case.stretches) if s.estimate.candidate.offer.vm_type.key == machine), None)
    if here is None:
        return
    changes = []
    if here > 0:
        before = case.stretches[here - 1]
        changes.append(f"with {before.last} epochs or fewer {machine_words(before.estimate.candidate.offer)} would win")
    if here + 1 < len(case.stretches):
        after = case.stretches[here + 1]
        changes.append(f"from {after.first} epochs on {machine_words(after.estimate.candidate.offer)} would win")
    yield "; ".join(changes) if changes else f"it is the {case.goal.kind} whatever the number of epochs"


def _assumed(case: Case) -> Iterator[str]:
    chosen, profile = case.ordered[0], case.profile
    if not case.epochs_stated:
        yield f"{chosen.epochs} epochs are assumed, because the program does not say how many: give --epochs"
    if len({e.candidate.batch_size for e in case.estimates}) > 1:
        yield (
            f"batch size {chosen.candidate.batch_size} is the best of those profiled there; the same number of epochs "
            "is assumed at each, though large batches often need more"
        )
    if not profile.validation_seconds:
        yield "validation is not in the estimate: none was seen in the profiled iterations"
    if chosen.memory is None:
        yield "whether it fits in memory is not known: the profile has no traced operations"
    if profile.world_size == 1 and any(e.candidate.gpus > 1 for e in case.ordered):
        yield "the program uses one GPU: a machine with more is charged in full and leaves the rest idle"
    if case.foreign:
        yield f"{case.foreign} offers of TPUs and Trainium are left out: the program would have to be changed for them"
    if chosen.seconds.value < SHORT_SECONDS:
        yield "it is so short that starting a machine will take longer than the training"
    offer = chosen.candidate.offer
    yield (
        f"its price was seen on {offer.seen_on.isoformat()} ({format_age(offer.seen_on, case.today)}); "
        "booting and setting up the machine are not in the estimate"
    )

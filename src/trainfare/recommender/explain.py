"""The reasons of a Plan in plain sentences with numbers: why this one, how sure, what was assumed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.offer import HOURS_PER_MONTH, Commitment, Offer
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.recommender.crossovers import Stretch
from trainfare.units import SECONDS_PER_HOUR, format_age, format_seconds, format_usd

LIMIT_WORDS = {
    "compute": "arithmetic",
    "memory bandwidth": "memory bandwidth",
    "launches": "launching kernels, not by the GPU: a faster GPU gains little",
    "network": "adding up gradients between GPUs",
    "data": "waiting for data, not by the GPU: a faster GPU gains little",
}

STARTING_SHARE = 0.25
"""Of the time, from which on it is worth a sentence that the machine must boot and be set up first."""
ROUNDING_SHARE = 0.1
"""Of the cost, likewise for what rounding and the minimum charge add."""

SPOT_DRIFT = {1: 1.02, 7: 1.10, 30: 1.36, 90: 1.93, 180: 2.55, 365: 2.70}
"""Days → the factor within which 90 % of the spot prices of 17 EC2 types stayed, 2022-10 to 2024-12
(`python -m benchmarks.spot DIR --prices FILE` recomputes it)."""


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
    guessed_epochs: str | None
    """Why so many epochs, where neither the user nor the program says."""
    spot: bool
    today: date
    iterations_per_epoch: int | None = None
    planned_iterations: int | None = None
    """How many the program trains, where it counts in iterations."""
    interruptions: Interruptions | None = None
    """Of the chosen machine on spot."""
    reserved: bool | None = None
    """Whether commitments that are not held may be chosen; False: not even those that are."""


def reasons(case: Case) -> tuple[str, ...]:
    return (
        *_why(case),
        *_sure(case),
        *_what_would_change_it(case),
        *charged(case.ordered[0], case.profile, case.interruptions, case.today),
        *_assumed(case),
    )


def machine_words(offer: Offer) -> str:
    """`aws g4dn.xlarge`, with the market where it is not plain on demand."""
    vm_type = offer.vm_type
    if offer.held:
        return f"{vm_type.provider} {vm_type.name} (yours)"
    return f"{vm_type.provider} {vm_type.name}" + (f" {offer.market}" if offer.market in ("spot", "reserved") else "")


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
            f"{_times(best.seconds.value / chosen.seconds.value)} the time and costs "
            f"{_times(best.usd.value / chosen.usd.value)} as much"
        )
    if not case.spot:
        yield from _spot_would_be(case, chosen)
    if not case.reserved:
        yield from _commitment_would_be(case, chosen)
    if case.reserved is not False:
        yield from _held_would_be(case, chosen)


def _best_by_the_other_goal(case: Case) -> tuple[str, Estimate]:
    if case.goal.kind == "cheapest":
        return "fastest", min(case.ordered, key=lambda e: (e.seconds.value, e.usd.value))
    return "cheapest", min(case.ordered, key=lambda e: (e.usd.value, e.seconds.value))


def _spot_would_be(case: Case, chosen: Estimate) -> Iterator[str]:
    spot = [e for e in case.estimates if e.candidate.offer.market == "spot" and e.fits is not False]
    cheapest = min(spot, key=lambda e: e.usd.value, default=None)
    if cheapest is not None and cheapest.usd.value < chosen.usd.value:
        told = ""
        if cheapest.interruptions is not None:
            told = f", {_number(cheapest.interruptions.value)} expected interruptions included"
        yield (
            f"on spot, {machine_words(cheapest.candidate.offer)} would cost {format_usd(cheapest.usd.value)}{told}; "
            "it may be taken away at any moment, so spot is chosen only with --spot"
        )


def _commitment_would_be(case: Case, chosen: Estimate) -> Iterator[str]:
    """The cheapest that is still to be bought, where its price is lower."""
    offered = [e for e in case.estimates if e.candidate.offer.to_be_bought and e.fits is not False]
    cheapest = min(offered, key=lambda e: e.usd.value, default=None)
    commitment = cheapest.candidate.offer.commitment if cheapest else None
    if cheapest is not None and commitment is not None and cheapest.usd.value < chosen.usd.value:
        yield (
            f"with a commitment of {_months(commitment)}, {machine_words(cheapest.candidate.offer)} would cost "
            f"{format_usd(cheapest.usd.value)}; it {_pays_off(commitment)}, so it is chosen only with --reserved"
        )


def _held_would_be(case: Case, chosen: Estimate) -> Iterator[str]:
    """What is held and not taken stands idle, and is paid for."""
    held = [e for e in case.estimates if e.candidate.offer.held and e.fits is not False]
    best = min(held, key=lambda e: e.usd.value, default=None)
    if best is not None and not chosen.candidate.offer.held:
        yield (
            f"{machine_words(best.candidate.offer)} is paid for already: it would take "
            f"{_times(best.seconds.value / chosen.seconds.value)} the time and, if nobody else needs it then, add "
            f"nothing to its price; its share of what was paid is {format_usd(best.usd.value)}"
        )


def _sure(case: Case) -> Iterator[str]:
    chosen = case.ordered[0]
    yield basis_words(chosen, case.profile)
    if len(case.ordered) > 1:
        yield from _runner_up(case, chosen, case.ordered[1])


def basis_words(estimate: Estimate, profile: Profile) -> str:
    """Why the time is believed."""
    gpu = estimate.candidate.offer.vm_type.gpu
    where = gpu.name if gpu else "this machine"
    match estimate.basis:
        case "measured":
            return f"measured: profile {estimate.profile_id} was taken on this machine type"
        case "scaled":
            return f"scaled: profile {estimate.profile_id} was taken {_scaled_from(estimate, profile)}"
        case "extrapolated":
            return (
                f"extrapolated: nobody has measured this program on {where}; the time "
                "follows from its operations and the GPU's nominal figures, hence the wide interval. A profile taken "
                f"there settles it: trainfare profile --on {estimate.candidate.offer.vm_type.key} -- …"
            )


def _scaled_from(estimate: Estimate, profile: Profile) -> str:
    """Where the profile is from, and how it was moved."""
    vm_type = estimate.candidate.offer.vm_type
    if profile.host.vm_type == vm_type.key:
        gpus = "" if profile.world_size == 1 else f" on {profile.world_size} GPUs"
        return f"on this machine type at batch size {profile.batch_size}{gpus}, and moved to what is asked for"
    if vm_type.gpu is None:
        taken = profile.host.vm_type or "all of it"
        return f"on {taken} and moved to this slice by the work of an iteration and the cores it kept busy"
    return f"on {profile.host.gpu or 'another GPU'} and moved to {vm_type.gpu.name} by the ratio of what the two can do"


def charged(estimate: Estimate, profile: Profile, interruptions: Interruptions | None, today: date) -> Iterator[str]:
    """What is paid for beside the iterations, where it matters; plans of before there were bills say nothing."""
    if estimate.bill is None:
        return
    seconds = {phase.name: phase.seconds.value for phase in estimate.phases}
    starting = seconds.get("boot", 0.0) + seconds.get("setup", 0.0)
    if starting > STARTING_SHARE * estimate.seconds.value:
        yield (
            f"starting the machine takes {format_seconds(starting)} of the {format_seconds(estimate.seconds.value)}: "
            "the training is so short that boot and setup decide; --boot and --setup say how long yours take"
        )
    for line in estimate.bill.lines:
        if line.name in ("rounding", "minimum charge") and line.usd.value > ROUNDING_SHARE * estimate.usd.value:
            yield f"{format_usd(line.usd.value)} of the cost are for time it does not need: {line.how}"
    yield from _committed(estimate.candidate.offer, estimate)
    if estimate.interruptions is not None and interruptions is not None:
        yield from _spot(estimate, profile, interruptions)
        yield from _spot_price(estimate.candidate.offer, today)


def _committed(offer: Offer, estimate: Estimate) -> Iterator[str]:
    """What a price rests on that is had only for months at a time."""
    commitment = offer.commitment
    if commitment is None:
        return
    share = f"{commitment.effective_usd_per_hour:.4g} $/h, its share of the {commitment.whole_usd:.0f} $"
    if commitment.held:
        yield (
            f"you hold it for {_months(commitment)}, paid whether used or not: the cost is at {share} in all; "
            "beside storage and egress the run adds nothing to what you pay"
        )
        return
    hours = estimate.candidate.nodes * estimate.seconds.value / SECONDS_PER_HOUR
    yield (
        f"the cost is at {share} that {_months(commitment)} of one machine cost, paid whether used or not; "
        f"this training takes {_number(hours)} of {commitment.hours:.0f} hours"
    )
    yield f"a commitment of {_months(commitment)} {_pays_off(commitment)}"


def _pays_off(commitment: Commitment) -> str:
    """`pays off above 460 hours a month (63 % of the time) against on demand at 0.526 $/h`."""
    hours = commitment.break_even_hours
    if hours is None:
        return "cannot be compared with on demand, which has no price there"
    against = f"on demand at {commitment.on_demand_usd_per_hour:.4g} $/h"
    if hours >= HOURS_PER_MONTH:
        return f"never pays off against {against}"
    share = 100 * hours / HOURS_PER_MONTH
    return f"pays off above {hours:.0f} hours a month ({share:.0f} % of the time) against {against}"


def _months(commitment: Commitment) -> str:
    return f"{commitment.months} month{'s' if commitment.months != 1 else ''}"


def _spot(estimate: Estimate, profile: Profile, interruptions: Interruptions) -> Iterator[str]:
    count = estimate.interruptions
    if count is None or not count.high:
        return
    lost = next((phase.seconds.value for phase in estimate.phases if phase.name == "spot rework"), 0.0)
    yield (
        f"on spot, {_number(count.value)} interruptions are expected (90 %: {count.low:.0f} to {count.high:.0f}), "
        f"which add {format_seconds(lost)}; the rate is from {interruptions.source}"
    )
    if estimate.checkpoint_every_seconds is None:
        yield "it writes no checkpoint in that time: an interruption starts it over"
    elif profile.checkpoint_seconds:
        yield (
            f"its own checkpoints are {format_seconds(estimate.checkpoint_every_seconds)} apart; "
            "it must start again from the last one by itself"
        )
    else:
        yield (
            f"a checkpoint every {format_seconds(estimate.checkpoint_every_seconds)} is assumed, from which the "
            "program starts again; none was seen, and without any an interruption starts it over"
        )


def _spot_price(offer: Offer, today: date) -> Iterator[str]:
    age = (today - offer.seen_on).days
    drift = next((factor for days, factor in SPOT_DRIFT.items() if age <= days), SPOT_DRIFT[365])
    if age > 1:
        yield (
            f"its spot price is {format_age(offer.seen_on, today)}: nine in ten of such age were within a factor of "
            f"{drift:.2g} of the price of the day, which is not in the interval"
        )


def _times(ratio: float) -> str:
    return f"{ratio:.0f} ×" if ratio >= 99.5 else f"{ratio:.2g} ×"


def _number(count: float) -> str:
    return f"{count:.0f}" if count >= 9.5 else f"{count:.1f}" if count >= 0.95 else f"{count:.1g}"


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
    if case.planned_iterations is not None and case.iterations_per_epoch is not None:
        yield (
            f"the program counts in iterations: {case.planned_iterations} of them are "
            f"{case.planned_iterations / case.iterations_per_epoch:.3g} epochs"
        )
    if profile.samples and profile.batch_size and profile.batch_size > profile.samples:
        yield (
            f"a batch of {profile.batch_size} is larger than the data set of {profile.samples} samples: "
            "an epoch is one iteration"
        )
    if case.guessed_epochs is not None:
        yield case.guessed_epochs
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
    offer = chosen.candidate.offer
    rule = f", charged {chosen.bill.billing.words}" if chosen.bill else ""
    yield f"its price was seen on {offer.seen_on.isoformat()} ({format_age(offer.seen_on, case.today)}){rule}"

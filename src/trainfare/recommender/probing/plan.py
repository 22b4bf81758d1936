"""From estimates to probes in words: where to begin, what to measure next, what it saves, when to stop."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.probing import Probe, ProbePlan
from trainfare.recommender.probing.next_probe import (
    NOISE,
    OUR_MODELS,
    Belief,
    Gain,
    Option,
    Underway,
    Worth,
    believed_best,
    contenders,
    covariance,
    expected_bill,
    next_measurement,
    saving_together,
    within,
    worth_of,
)
from trainfare.recommender.words import machine_words
from trainfare.units import SECONDS_PER_HOUR, format_duration, format_usd

MOST_PROBES = 6
"""In one plan: what the later ones would be depends on what the earlier ones show."""
MEASURED_SECONDS = 60.0
"""The longest that iterations are measured, as `trainfare profile` does."""
MEASURED_ITERATIONS = 30
STARTING = ("boot", "setup")
BEFORE_ITERATING = ("initialisation", "first iteration")
NINETY = NormalDist().inv_cdf(0.95)
LADDER = tuple(step / 4 for step in range(-8, 9))
"""Deviations from what is believed of the first machine, at each of which it is seen whether a probe still pays."""

ProbeSeconds = Callable[[Estimate], float]


def probe_seconds(estimate: Estimate) -> float:
    """What a measurement takes on a machine that is up: start of the program, and thirty iterations or a minute."""
    before = sum(phase.seconds.value for phase in estimate.phases if phase.name in BEFORE_ITERATING)
    return before + min(MEASURED_SECONDS, MEASURED_ITERATIONS * estimate.iteration_seconds.value)


def believe(estimates: Sequence[Estimate], *, probing: ProbeSeconds = probe_seconds) -> Belief:
    """As sure as the intervals of the estimates are. Doubt about the number of epochs is not in it: it is the same
    everywhere (`epochs_deviation`)."""
    import numpy as np

    options = [_option(estimate, probing) for estimate in estimates]
    works = [_works(estimate) for estimate in estimates]
    deviations = [_deviation(e, work) for e, work in zip(estimates, works, strict=True)]
    mean = np.log([work.value for work in works])
    return Belief.of(options, mean, covariance(options, OUR_MODELS, deviations))


def epochs_deviation(estimate: Estimate) -> float:
    """Of the logarithm of their number, where they are only expected."""
    return 0.0 if estimate.epochs_interval is None else _log_deviation(estimate.epochs_interval)


def plan_probes(
    estimates: Sequence[Estimate], goal: Goal, *, probing: ProbeSeconds = probe_seconds, kept: float = 0.0
) -> ProbePlan:
    """From one estimate a machine. `kept` is the share of the work that a checkpoint carries to another machine."""
    if not estimates:
        raise ValueError("there is nothing to choose from")
    found, belief, worth = _contending(estimates, goal, probing)
    start = believed_best(belief, worth)
    usd, seconds = expected_bill(belief, worth, start)
    steps = _steps(belief, worth, start, kept)
    first = _start(found[start], belief.options[start])
    probes = tuple(_probe(found, belief, gain, start, goal) for gain in steps)
    stop = _stop(found, belief, worth, start, kept, steps)
    saved_usd, saved_seconds = saving_together(belief, worth, _unmeasured(belief, [start, *(g.index for g in steps)]))
    return ProbePlan(
        goal=goal,
        start=first,
        probes=probes,
        stop_when=stop,
        expected_usd=usd - saved_usd + sum(probe.usd for probe in probes),
        expected_seconds=seconds - saved_seconds,
        unprobed_usd=usd,
        unprobed_seconds=seconds,
        sentences=(first.why, *(_line(probe, goal) for probe in probes), *_moving(probes, kept), stop),
    )


def next_probe(
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    reachable: Callable[[Estimate], bool] = lambda _: True,
    probing: ProbeSeconds = probe_seconds,
) -> Probe | None:
    """Of those that can be reached, the one whose expected saving exceeds its price by most; None: stop.

    Nothing is taken to be running: who probes before the training pays for every measurement.
    """
    found, belief, worth = _contending(estimates, goal, probing)
    near = [i for i, estimate in enumerate(found) if reachable(estimate)]
    gain = next_measurement(belief, worth, reachable=near)
    return None if gain is None else _probe(found, belief, gain, believed_best(belief, worth), goal)


def suggest(
    estimates: Sequence[Estimate], goal: Goal, price_of_probe: ProbeSeconds = probe_seconds
) -> tuple[Probe, ...]:
    """What to measure before one trusts a recommendation: the best and its rival, one of them, or nothing.

    From one estimate a machine, best first. Nothing where no measurement is expected to save more than it costs.
    """
    if len(estimates) < 2:
        return ()
    found, belief, worth = _contending(estimates, goal, price_of_probe)
    gain = next_measurement(belief, worth)
    if gain is None:
        return ()
    best = believed_best(belief, worth)
    probes = [_probe(found, belief, gain, best, goal)]
    rival = gain.index
    if rival == best or belief.options[best].measured:
        return tuple(probes)
    after = next_measurement(belief.given(rival, math.exp(belief.mean[rival])), worth, reachable=[best])
    if after is not None:
        probes.insert(0, _probe(found, belief, after, best, goal))
    return tuple(probes)


def sentence(probes: Sequence[Probe]) -> str:
    """`8 min on aws g5.xlarge and aws g6.xlarge (0.14 $) would settle it: trainfare probe --plan`."""
    where = " and ".join(machine_words(probe.candidate.offer) for probe in probes)
    seconds, usd = sum(probe.seconds for probe in probes), sum(probe.usd for probe in probes)
    return f"{format_duration(seconds)} on {where} ({format_usd(usd)}) would settle it: trainfare probe --plan"


# From an estimate to what the policy needs of it


def _contending(
    estimates: Sequence[Estimate], goal: Goal, probing: ProbeSeconds
) -> tuple[list[Estimate], Belief, Worth]:
    """Those that may yet win; the rest would only take time to think about."""
    every = believe(estimates, probing=probing)
    worth = worth_of(goal, every, epochs_deviation=epochs_deviation(estimates[0]))
    kept = contenders(every, worth)
    return [estimates[i] for i in kept], within(every, kept), worth


def _option(estimate: Estimate, probing: ProbeSeconds) -> Option:
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    price = candidate.usd_per_hour / SECONDS_PER_HOUR
    gpus = candidate.gpus_working
    return Option(
        machine=f"{vm_type.key} × {candidate.nodes} × {gpus} at {candidate.batch_size}",
        gpu=vm_type.gpu.name if vm_type.gpu else vm_type.provider,
        gpus=max(1, candidate.nodes * gpus),
        nodes=candidate.nodes,
        usd_per_second=price,
        start_seconds=sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTING),
        probe_seconds=probing(estimate),
        fixed_usd=max(0.0, estimate.usd.value - price * estimate.seconds.value),
        measured=estimate.basis == "measured",
    )


def _works(estimate: Estimate) -> Interval:
    """All but boot and setup, which err together."""
    parts = [phase.seconds for phase in estimate.phases if phase.name not in STARTING]
    return sum(parts[1:], start=parts[0])


def _deviation(estimate: Estimate, works: Interval) -> float:
    """Of the logarithm, at least what a measurement leaves. The doubt about epochs is taken out."""
    return math.sqrt(max(_log_deviation(works) ** 2 - epochs_deviation(estimate) ** 2, NOISE**2))


def _log_deviation(interval: Interval) -> float:
    sure = interval.at(0.9)
    low = sure.low or sure.value**2 / sure.high  # a low end of nothing says nothing: as far down as up
    return math.log(sure.high / low) / (2 * NINETY)


# From what the policy says to words


def _unmeasured(belief: Belief, indexes: Sequence[int]) -> list[int]:
    return [index for index in indexes if not belief.options[index].measured]


def _steps(belief: Belief, worth: Worth, start: int, kept: float) -> list[Gain]:
    """What would be measured after the first machine, as long as everything comes out as believed."""
    steps: list[Gain] = []
    known = belief if belief.options[start].measured else belief.given(start, math.exp(belief.mean[start]))
    underway = Underway(running=start, done_seconds=belief.options[start].probe_seconds, kept=kept)
    while len(steps) < MOST_PROBES and (gain := next_measurement(known, worth, underway)) is not None:
        steps.append(gain)
        known = known.given(gain.index, math.exp(known.mean[gain.index]))
    return steps


def _start(estimate: Estimate, option: Option) -> Probe:
    name = machine_words(estimate.candidate.offer)
    cost = f"{format_usd(estimate.usd.value)}, {format_duration(estimate.seconds.value)}"
    if option.measured:
        why = f"begin on {name}, which was measured ({cost})"
    else:
        why = (
            f"begin the training on {name}, believed best ({cost}): its first iterations, "
            f"{format_duration(option.whole_probe_seconds)} from now, are a measurement that costs nothing more"
        )
    return Probe(
        candidate=estimate.candidate,
        seconds=0.0 if option.measured else option.whole_probe_seconds,
        usd=0.0,
        expected_saving_usd=0.0,
        expected_saving_seconds=0.0,
        why=why,
    )


def _probe(found: Sequence[Estimate], belief: Belief, gain: Gain, start: int, goal: Goal) -> Probe:
    option = belief.options[gain.index]
    return Probe(
        candidate=found[gain.index].candidate,
        seconds=option.whole_probe_seconds,
        usd=option.whole_probe_seconds * option.usd_per_second,
        expected_saving_usd=gain.saving_usd,
        expected_saving_seconds=gain.saving_seconds,
        why=_why(found, belief, gain.index, start, goal),
    )


def _why(found: Sequence[Estimate], belief: Belief, index: int, start: int, goal: Goal) -> str:
    """How far it is believed to be from the best, and how likely it beats it nonetheless."""
    if index == start:
        return "it is believed best, and nobody has measured it"
    ours, its = found[start], found[index]
    name = machine_words(ours.candidate.offer)
    cost, time = its.usd.value / ours.usd.value, its.seconds.value / ours.seconds.value
    if goal.kind == "weighted":
        return f"believed to cost {cost:.2g} × as much as {name} in {time:.2g} × the time"
    ratio, more, less = (time, "slower", "faster") if goal.kind == "fastest" else (cost, "dearer", "cheaper")
    if ratio < 1 and (goal.deadline_seconds or goal.budget_usd):
        return f"believed {_percent(1 - ratio)} {less} than {name}, but not sure to keep the limit"
    sigma = belief.covariance
    spread = math.sqrt(max(sigma[index, index] + sigma[start, start] - 2 * sigma[index, start], 1e-12))
    chance = _chance(NormalDist().cdf(-math.log(ratio) / spread))
    if ratio < 1.005:
        return f"believed as good as {name}, {chance} that it is {less}"
    return f"believed {_percent(ratio - 1)} {more} than {name}, {chance} that it is {less}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _chance(share: float) -> str:
    if share >= 0.4:
        return "an even chance"
    return f"one chance in {max(3, round(1 / max(share, 1e-3)))}"


def _line(probe: Probe, goal: Goal) -> str:
    saved = []
    if goal.kind != "fastest":
        saved.append(format_usd(max(0.0, probe.expected_saving_usd)))
    if goal.kind != "cheapest":
        saved.append(format_duration(max(0.0, probe.expected_saving_seconds)))
    return (
        f"meanwhile probe {machine_words(probe.candidate.offer)}: {format_duration(probe.seconds)}, "
        f"{format_usd(probe.usd)}, expected to save {' and '.join(saved)}; {probe.why}"
    )


def _moving(probes: Sequence[Probe], kept: float) -> tuple[str, ...]:
    if not probes:
        return ()
    if kept:
        return ("move to a probe that turns out better, with the last checkpoint",)
    return ("move to a probe that turns out better; without checkpoints what was trained by then is lost, as reckoned",)


def _stop(
    found: Sequence[Estimate], belief: Belief, worth: Worth, start: int, kept: float, steps: Sequence[Gain]
) -> str:
    """From what the first machine shows on, no probe pays."""
    name = machine_words(found[start].candidate.offer)
    if belief.options[start].measured:
        if not steps:
            return "stop here: no probe is expected to save more than it costs"
        return "stop as soon as no probe is expected to save more than it costs"
    deviation = math.sqrt(belief.covariance[start, start])
    underway = Underway(running=start, done_seconds=belief.options[start].probe_seconds, kept=kept)
    pays = [
        next_measurement(belief.given(start, math.exp(belief.mean[start] + z * deviation)), worth, underway) is not None
        for z in LADDER
    ]
    if not any(pays):
        return f"stop there: whatever {name} shows, no probe is expected to save more than it costs"
    if pays[0]:
        return "stop as soon as no probe is expected to save more than it costs"
    calm = LADDER[pays.index(True) - 1]
    at_most = found[start].iteration_seconds.value * math.exp(calm * deviation)
    otherwise = "" if steps else "; should it be slower, ask again"
    return f"stop without a probe if an iteration on {name} takes no more than {format_duration(at_most)}{otherwise}"

"""From estimates to a plan of probes: the machine to start on, the probes that pay, and when to stop."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from trainfare.estimator.cost.timing import MACHINE_STARTUP_PHASES, PROGRAM_STARTUP_PHASES
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.probing import Probe, ProbePlan
from trainfare.model.reason import Reason
from trainfare.recommender.names import machine_name
from trainfare.recommender.probing.next_probe import (
    MODEL_PRIOR,
    NOISE,
    MeasurementGain,
    ProbeObjective,
    ProbeOption,
    RunningTraining,
    TimeDistribution,
    best_option,
    build_covariance,
    build_objective,
    contenders,
    expected_cost,
    joint_saving,
    next_measurement,
    restrict_to,
)
from trainfare.units import SECONDS_PER_HOUR

MAX_PROBES = 6
"""Probes in one plan; later ones depend on the results of the earlier ones."""
MEASURED_SECONDS = 60.0
"""The longest time for which iterations are measured, as in a profile."""
MEASURED_ITERATIONS = 30
NINETY = NormalDist().inv_cdf(0.95)
"""Half the width of a 90 % interval, in deviations."""
DEVIATION_STEPS = tuple(step / 4 for step in range(-8, 9))
"""Possible results of the first measurement, in deviations, for which it is checked whether a probe still pays."""

MIN_RATIO = 1e-9
"""A machine that costs nothing has this ratio to any other, whose logarithm is finite."""

ProbeSeconds = Callable[[Estimate], float]


def probe_seconds(estimate: Estimate) -> float:
    """The time of a measurement on a machine that is up: start of the program, then thirty iterations or a minute."""
    before = sum(phase.seconds.value for phase in estimate.phases if phase.name in PROGRAM_STARTUP_PHASES)
    return before + min(MEASURED_SECONDS, MEASURED_ITERATIONS * estimate.iteration_seconds.value)


def time_distribution(
    estimates: Sequence[Estimate], *, seconds_of_probe: ProbeSeconds = probe_seconds
) -> TimeDistribution:
    """The distribution of the times, with the deviations of the estimates' intervals.

    The uncertainty of the number of epochs is left out, because it is the same on every machine (`epochs_deviation`).
    """
    import numpy as np

    options = [_option(estimate, seconds_of_probe) for estimate in estimates]
    works = [_working_seconds(estimate) for estimate in estimates]
    deviations = [_deviation(e, work) for e, work in zip(estimates, works, strict=True)]
    mean = np.log([work.value for work in works])
    return TimeDistribution.prior(options, mean, build_covariance(options, MODEL_PRIOR, deviations))


def epochs_deviation(estimate: Estimate) -> float:
    """The deviation of the logarithm of the number of epochs; zero if the number is certain."""
    return 0.0 if estimate.epochs_interval is None else _log_deviation(estimate.epochs_interval)


def plan_probes(
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    seconds_of_probe: ProbeSeconds = probe_seconds,
    keeps_work: bool = False,
) -> ProbePlan:
    """The plan for one estimate per machine. `keeps_work` is True if a migration continues from a checkpoint."""
    if not estimates:
        raise ValueError("there is nothing to choose from")
    found, times, objective = _contending(estimates, goal, seconds_of_probe)
    start = best_option(times, objective)
    usd, seconds = expected_cost(times, objective, start)
    kept_share = 1.0 if keeps_work else 0.0
    gains = _gains_as_expected(times, objective, start, kept_share)
    probes = tuple(_probe(found, times, gain, start, goal) for gain in gains)
    measured = [i for i in (start, *(gain.index for gain in gains)) if not times.options[i].measured]
    saved_usd, saved_seconds = joint_saving(times, objective, measured)
    return ProbePlan(
        goal=goal,
        start=_start(found[start], times.options[start]),
        probes=probes,
        stop=_stop(found, times, objective, start, kept_share, has_probes=bool(gains)),
        keeps_work=keeps_work,
        expected_usd=usd - saved_usd + sum(probe.usd for probe in probes),
        expected_seconds=seconds - saved_seconds,
        unprobed_usd=usd,
        unprobed_seconds=seconds,
    )


def next_probe(
    estimates: Sequence[Estimate],
    goal: Goal,
    *,
    reachable: Callable[[Estimate], bool] = lambda _: True,
    seconds_of_probe: ProbeSeconds = probe_seconds,
) -> Probe | None:
    """The reachable probe whose expected saving exceeds its price by most; None if no probe pays.

    No training is assumed to run: probes before the training are all paid for.
    """
    found, times, objective = _contending(estimates, goal, seconds_of_probe)
    indexes = [i for i, estimate in enumerate(found) if reachable(estimate)]
    gain = next_measurement(times, objective, reachable=indexes)
    return None if gain is None else _probe(found, times, gain, best_option(times, objective), goal)


def suggest_probes(
    estimates: Sequence[Estimate], goal: Goal, seconds_of_probe: ProbeSeconds = probe_seconds
) -> tuple[Probe, ...]:
    """Probes that would confirm a recommendation: of the best machine and its rival, of one of them, or none.

    `estimates` has one estimate per machine, best first. Empty if no measurement is expected to pay.
    """
    if len(estimates) < 2:
        return ()
    found, times, objective = _contending(estimates, goal, seconds_of_probe)
    gain = next_measurement(times, objective)
    if gain is None:
        return ()
    best = best_option(times, objective)
    probes = [_probe(found, times, gain, best, goal)]
    rival = gain.index
    if rival == best or times.options[best].measured:
        return tuple(probes)
    after = next_measurement(times.given(rival, math.exp(times.mean[rival])), objective, reachable=[best])
    if after is not None:
        probes.insert(0, _probe(found, times, after, best, goal))
    return tuple(probes)


def suggestion_reason(probes: Sequence[Probe]) -> Reason:
    """The reason that suggests these probes before a recommendation is relied on."""
    return Reason(
        topic="certainty",
        code="probes_would_decide",
        values={
            "machines": tuple(machine_name(probe.candidate.offer) for probe in probes),
            "seconds": sum(probe.seconds for probe in probes),
            "usd": sum(probe.usd for probe in probes),
        },
    )


def unmeasured_best_reason() -> Reason:
    """The reason to probe the machine expected to be best."""
    return Reason(topic="why", code="probe_unmeasured_best")


# From an estimate to an option of the probing rule


def _contending(
    estimates: Sequence[Estimate], goal: Goal, seconds_of_probe: ProbeSeconds
) -> tuple[list[Estimate], TimeDistribution, ProbeObjective]:
    """The estimates that may still win, with their distribution; the others would only take computing time."""
    every = time_distribution(estimates, seconds_of_probe=seconds_of_probe)
    objective = build_objective(goal, every, epochs_deviation=epochs_deviation(estimates[0]))
    indexes = contenders(every, objective)
    return [estimates[i] for i in indexes], restrict_to(every, indexes), objective


def _option(estimate: Estimate, seconds_of_probe: ProbeSeconds) -> ProbeOption:
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    price = candidate.usd_per_hour / SECONDS_PER_HOUR
    gpus = candidate.working_gpus_per_node
    return ProbeOption(
        machine=f"{vm_type.key} × {candidate.nodes} × {gpus} at {candidate.batch_size}",
        gpu=vm_type.gpu.name if vm_type.gpu else vm_type.provider,
        gpus=max(1, candidate.nodes * gpus),
        nodes=candidate.nodes,
        usd_per_second=price,
        start_seconds=sum(phase.seconds.value for phase in estimate.phases if phase.name in MACHINE_STARTUP_PHASES),
        probe_seconds=seconds_of_probe(estimate),
        fixed_usd=max(0.0, estimate.usd.value - price * estimate.seconds.value),
        measured=estimate.basis == "measured",
    )


def _working_seconds(estimate: Estimate) -> Interval:
    """All phases but boot and setup; they err together."""
    parts = [phase.seconds for phase in estimate.phases if phase.name not in MACHINE_STARTUP_PHASES]
    return sum(parts[1:], start=parts[0])


def _deviation(estimate: Estimate, working: Interval) -> float:
    """The deviation of the logarithm, without that of the epochs, and at least that of a measurement."""
    return math.sqrt(max(_log_deviation(working) ** 2 - epochs_deviation(estimate) ** 2, NOISE**2))


def _log_deviation(interval: Interval) -> float:
    at_ninety = interval.at_confidence(0.9)
    low = at_ninety.low or at_ninety.value**2 / at_ninety.high  # a low end of zero is replaced by the mirrored high end
    return math.log(at_ninety.high / low) / (2 * NINETY)


# From the probing rule to probes and reasons


def _gains_as_expected(
    times: TimeDistribution, objective: ProbeObjective, start: int, kept_share: float
) -> list[MeasurementGain]:
    """The measurements after the first machine, as long as every result is as expected."""
    gains: list[MeasurementGain] = []
    known = times if times.options[start].measured else times.given(start, math.exp(times.mean[start]))
    running = _running(times, start, kept_share)
    while len(gains) < MAX_PROBES and (gain := next_measurement(known, objective, running)) is not None:
        gains.append(gain)
        known = known.given(gain.index, math.exp(known.mean[gain.index]))
    return gains


def _running(times: TimeDistribution, start: int, kept_share: float) -> RunningTraining:
    return RunningTraining(option=start, done_seconds=times.options[start].probe_seconds, kept_share=kept_share)


def _start(estimate: Estimate, option: ProbeOption) -> Probe:
    seconds = 0.0 if option.measured else option.total_probe_seconds
    return Probe(
        candidate=estimate.candidate,
        seconds=seconds,
        usd=0.0,
        expected_saving_usd=0.0,
        expected_saving_seconds=0.0,
        reason=Reason(
            topic="why",
            code="probe_start",
            values={
                "machine": machine_name(estimate.candidate.offer),
                "measured": option.measured,
                "usd": estimate.usd.value,
                "seconds": estimate.seconds.value,
                "probe_seconds": seconds,
            },
        ),
    )


def _probe(found: Sequence[Estimate], times: TimeDistribution, gain: MeasurementGain, start: int, goal: Goal) -> Probe:
    option = times.options[gain.index]
    return Probe(
        candidate=found[gain.index].candidate,
        seconds=option.total_probe_seconds,
        usd=option.total_probe_seconds * option.usd_per_second,
        expected_saving_usd=gain.saving_usd,
        expected_saving_seconds=gain.saving_seconds,
        reason=_probe_reason(found, times, gain.index, start, goal),
    )


def _probe_reason(found: Sequence[Estimate], times: TimeDistribution, index: int, start: int, goal: Goal) -> Reason:
    """The expected ratio to the best machine, and the probability that the probed machine beats it nonetheless."""
    if index == start:
        return unmeasured_best_reason()
    best, probed = found[start], found[index]
    time_ratio = probed.seconds.value / best.seconds.value
    cost_ratio = probed.usd.value / best.usd.value if best.usd.value else 1.0
    ratio = max(time_ratio if goal.kind == "fastest" else cost_ratio, MIN_RATIO)
    sigma = times.covariance
    spread = math.sqrt(max(sigma[index, index] + sigma[start, start] - 2 * sigma[index, start], 1e-12))
    return Reason(
        topic="why",
        code="probe_rival",
        values={
            "best": machine_name(best.candidate.offer),
            "goal": goal.kind,
            "cost_ratio": cost_ratio,
            "time_ratio": time_ratio,
            "better_but_uncertain_limit": ratio < 1 and bool(goal.deadline_seconds or goal.budget_usd),
            "probability": NormalDist().cdf(-math.log(ratio) / spread),
        },
    )


def _stop(
    found: Sequence[Estimate],
    times: TimeDistribution,
    objective: ProbeObjective,
    start: int,
    kept_share: float,
    *,
    has_probes: bool,
) -> Reason:
    """The rule that ends the probing, from the possible results of the first machine."""
    machine = machine_name(found[start].candidate.offer)
    if times.options[start].measured:
        return Reason(topic="why", code="stop_when_no_probe_pays" if has_probes else "stop_now")
    deviation = math.sqrt(times.covariance[start, start])
    running = _running(times, start, kept_share)
    pays = [
        next_measurement(times.given(start, math.exp(times.mean[start] + z * deviation)), objective, running)
        is not None
        for z in DEVIATION_STEPS
    ]
    if not any(pays):
        return Reason(topic="why", code="stop_after_start", values={"machine": machine})
    if pays[0]:
        return Reason(topic="why", code="stop_when_no_probe_pays")
    largest = DEVIATION_STEPS[pays.index(True) - 1]
    iteration_seconds = found[start].iteration_seconds.value * math.exp(largest * deviation)
    return Reason(
        topic="why",
        code="stop_at_iteration_time",
        values={"machine": machine, "iteration_seconds": iteration_seconds, "has_probes": has_probes},
    )

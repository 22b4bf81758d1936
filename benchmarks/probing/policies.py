"""Every policy to find a machine, simulated on a job: the total cost, the cost of probes, and the machine chosen.

Ours is `recommender/probing/next_probe.py`, the code of the product. It trains while it probes; the others measure
first, in parallel if they know in advance what to measure, and then start the training on a fresh machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.probing.cherrypick import next_machine
from benchmarks.probing.problem import EPOCHS, PROBE_SECONDS, Array, Job, Problem, log_seconds_from_facts
from trainfare.recommender.probing.next_probe import (
    GPU_FACTS_PRIOR,
    MODEL_PRIOR,
    PriorDeviations,
    ProbeObjective,
    RunningTraining,
    TimeDistribution,
    best_option,
    build_covariance,
    next_measurement,
)

RANDOM_PROBES = 3


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The machine that a policy trained on, and its costs in dollars; time counts at its price."""

    trained_on: int
    total_cost: float
    probe_cost: float
    probes: int


Noise = np.random.Generator
Policy = Callable[[Job, Noise], PolicyResult]


def everywhere(job: Job, noise: Noise) -> PolicyResult:
    """A few iterations on every machine (Malta's second method)."""
    return _after_probing(job, range(len(job.work)), PROBE_SECONDS, noise)


def two_epochs(job: Job, noise: Noise) -> PolicyResult:
    """Two epochs on every machine (Malta's first method); they predict the rest exactly."""
    del noise
    duration = job.start + 2 / EPOCHS * job.work
    spent = float((job.problem.price * duration).sum() + job.problem.waiting * duration.max())
    best = int(job.cost.argmin())
    return PolicyResult(best, spent + float(job.cost[best]), spent, len(job.work))


def at_random(job: Job, noise: Noise) -> PolicyResult:
    """A few iterations on three machines chosen at random."""
    count = min(RANDOM_PROBES, len(job.work))
    return _after_probing(job, noise.choice(len(job.work), count, replace=False).tolist(), PROBE_SECONDS, noise)


def cherrypick(job: Job, noise: Noise) -> PolicyResult:
    """CherryPick: one measurement after another, so that the time of each is lost."""
    features = _features(job.problem)
    known: list[int] = []
    costs: list[float] = []
    while (index := next_machine(features, known, costs, noise)) is not None:
        known.append(index)
        costs.append(float(job.rate[index]) * (job.start + job.measure(index, noise)))
    spent = float((job.rate[known] * (job.start + PROBE_SECONDS)).sum())
    best = known[int(np.argmin(costs))]
    return PolicyResult(best, spent + float(job.cost[best]), spent, len(known))


def no_probing(job: Job, noise: Noise) -> PolicyResult:
    """No measurement: the best machine by GPU facts."""
    del noise
    guess = np.exp(log_seconds_from_facts(job.problem.machines))
    best = int((job.rate * guess).argmin())
    return PolicyResult(best, float(job.cost[best]), 0.0, 0)


def ours_by_facts(job: Job, noise: Noise) -> PolicyResult:
    """Our rule with a prior from GPU facts."""
    return _simulate(job, _facts_prior(job, noise), noise)


def ours_by_models(job: Job, noise: Noise) -> PolicyResult:
    """Our rule with a prior from GPU facts, replaced by our models after the first iterations."""
    return _simulate(job, _facts_prior(job, noise), noise, models=True)


def ours_with_profile(job: Job, noise: Noise) -> PolicyResult:
    """Our rule with a profile of the program on a machine with one GPU, chosen at random."""
    return _simulate(job, _model_prior(job, _profiled_machine(job, noise), noise), noise)


def models_without_probing(job: Job, noise: Noise) -> PolicyResult:
    """No measurement: the best machine by our models with a profile on one machine."""
    times = _model_prior(job, _profiled_machine(job, noise), noise)
    best = best_option(times, _objective(job))
    return PolicyResult(best, float(job.cost[best]), 0.0, 0)


def ours_with_deviation(own: float) -> Policy:
    """Our rule with a calibrated prior of this deviation: its errors are drawn from its own Σ."""
    prior = PriorDeviations(own=own, common=MODEL_PRIOR.common, scaling=MODEL_PRIOR.scaling)

    def policy(job: Job, noise: Noise) -> PolicyResult:
        options = job.options
        sigma = build_covariance(options, prior)
        error = noise.multivariate_normal(np.zeros(len(options)), sigma, method="cholesky")
        return _simulate(job, TimeDistribution.prior(options, np.log(job.work) + error, sigma), noise)

    return policy


def _simulate(job: Job, times: TimeDistribution, noise: Noise, *, models: bool = False) -> PolicyResult:
    """Start on the machine expected to be best, and measure others as long as that pays."""
    price, objective = job.problem.price, _objective(job)
    current = best_option(times, objective)
    measured = job.measure(current, noise)
    single = job.problem.machines[current].gpus == 1  # our models do not transfer a measurement on several GPUs
    times = _model_prior(job, current, noise, measured) if models and single else times.given(current, measured)
    done, usd, wall, probe_usd, probes = PROBE_SECONDS, price[current] * job.start, job.start, 0.0, 0
    started: int | None = None
    while True:
        running = RunningTraining(option=current, done_seconds=done)
        best = best_option(times, objective, running, started=started)
        if best != current:  # the work done there is lost
            boot = 0.0 if best == started else job.start
            usd += price[current] * done + price[best] * boot
            wall += done + boot
            current, done = best, 0.0
            if best not in times.measurements and not times.options[best].measured:  # its first iterations measure it
                times, done, started = times.given(best, job.measure(best, noise)), PROBE_SECONDS, None
                continue
            running = RunningTraining(option=current)
        gain = next_measurement(times, objective, running)
        duration = job.start + PROBE_SECONDS
        if gain is None or done + duration >= job.work[current]:
            break
        probes, started = probes + 1, gain.index
        probe_usd += price[started] * duration
        done += duration
        times = times.given(started, job.measure(started, noise))
    usd += price[current] * job.work[current]
    wall += job.work[current]
    return PolicyResult(current, float(usd + probe_usd + job.problem.waiting * wall), float(probe_usd), probes)


def _after_probing(job: Job, measured: Sequence[int], seconds: float, noise: Noise) -> PolicyResult:
    """All measurements in parallel, then the complete training on the best measured machine."""
    at = list(measured)
    duration = job.start + seconds
    spent = float(job.problem.price[at].sum() * duration + job.problem.waiting * duration)
    costs = [float(job.rate[i]) * (job.start + job.measure(i, noise)) for i in at]
    best = at[int(np.argmin(costs))]
    return PolicyResult(best, spent + float(job.cost[best]), spent, len(at))


def _objective(job: Job) -> ProbeObjective:
    return ProbeObjective(per_usd=1.0, per_second=job.problem.waiting, per_probe_usd=1.0)


def _profiled_machine(job: Job, noise: Noise) -> int:
    single = [i for i, machine in enumerate(job.problem.machines) if machine.gpus == 1]
    return int(noise.choice(single))


def _facts_prior(job: Job, noise: Noise) -> TimeDistribution:
    """The prior from GPU facts; its level is drawn with the deviation that Σ has for it."""
    options = job.options
    mean = log_seconds_from_facts(job.problem.machines)
    level = float(np.mean(np.log(job.work) - mean)) + noise.normal(0.0, GPU_FACTS_PRIOR.common)
    return TimeDistribution.prior(options, mean + level, build_covariance(options, GPU_FACTS_PRIOR))


def _model_prior(job: Job, profiled: int, noise: Noise, seconds: float | None = None) -> TimeDistribution:
    """The prior from our models, given the time of the program on one machine."""
    options = job.options
    predicted, deviations = job.problem.predict_from(profiled)
    measured = job.measure(profiled, noise) if seconds is None else seconds
    mean = np.log(predicted) + np.log(measured / predicted[profiled])
    options[profiled] = replace(options[profiled], measured=True)
    return TimeDistribution.prior(options, mean, build_covariance(options, MODEL_PRIOR, deviations.tolist()))


def _features(problem: Problem) -> Array:
    """The facts of each machine's data sheet, each scaled to the same deviation."""
    raw = np.array(
        [
            [
                np.log(m.gpu.fp32_tflops),
                np.log(m.gpu.memory_gb_per_second),
                np.log(m.gpus),
                float(m.nodes > 1),
                np.log(m.usd_per_hour),
            ]
            for m in problem.machines
        ]
    )
    scaled: Array = (raw - raw.mean(axis=0)) / np.maximum(raw.std(axis=0), 1e-9)
    return scaled

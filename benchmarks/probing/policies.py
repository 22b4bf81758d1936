"""Each way to find the machine, played on a job: what was paid in all, for probes, and where it trained.

Ours is `recommender/probing/next_probe.py`, as the product has it. It trains while it probes; the others measure first, all at
once where they know what to measure, and then start the training on a fresh machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.probing.cherrypick import next_machine
from benchmarks.probing.problem import EPOCHS, PROBE_SECONDS, Array, Job, Problem, by_facts
from trainfare.recommender.probing.next_probe import (
    GPU_FACTS,
    OUR_MODELS,
    Belief,
    Sureness,
    Underway,
    Worth,
    believed_best,
    covariance,
    next_measurement,
)

RANDOM_PROBES = 3


@dataclass(frozen=True, slots=True)
class Played:
    """In dollars, time with what it is worth."""

    trained_on: int
    paid: float
    for_probes: float
    probes: int


Noise = np.random.Generator
Policy = Callable[[Job, Noise], Played]


def everywhere(job: Job, noise: Noise) -> Played:
    """A few iterations on every machine (Malta's second method)."""
    return _after_probing(job, range(len(job.works)), PROBE_SECONDS, noise)


def two_epochs(job: Job, noise: Noise) -> Played:
    """Two epochs on every machine (his first); they tell the rest exactly."""
    del noise
    duration = job.start + 2 / EPOCHS * job.works
    spent = float((job.problem.price * duration).sum() + job.problem.waiting * duration.max())
    best = int(job.whole.argmin())
    return Played(best, spent + float(job.whole[best]), spent, len(job.works))


def at_random(job: Job, noise: Noise) -> Played:
    count = min(RANDOM_PROBES, len(job.works))
    return _after_probing(job, noise.choice(len(job.works), count, replace=False).tolist(), PROBE_SECONDS, noise)


def cherrypick(job: Job, noise: Noise) -> Played:
    """One after another, so that the time of each is lost."""
    features = _features(job.problem)
    known: list[int] = []
    costs: list[float] = []
    while (index := next_machine(features, known, costs, noise)) is not None:
        known.append(index)
        costs.append(float(job.rate[index]) * (job.start + job.shown(index, noise)))
    spent = float((job.rate[known] * (job.start + PROBE_SECONDS)).sum())
    best = known[int(np.argmin(costs))]
    return Played(best, spent + float(job.whole[best]), spent, len(known))


def no_probing(job: Job, noise: Noise) -> Played:
    """By GPU facts alone."""
    del noise
    guess = np.exp(by_facts(job.problem.machines))
    best = int((job.rate * guess).argmin())
    return Played(best, float(job.whole[best]), 0.0, 0)


def ours_by_facts(job: Job, noise: Noise) -> Played:
    return _play(job, _facts(job, noise), noise)


def ours_by_models(job: Job, noise: Noise) -> Played:
    """GPU facts until the first iterations are seen; then what our models make of them for the other machines."""
    return _play(job, _facts(job, noise), noise, models=True)


def ours_with_a_profile(job: Job, noise: Noise) -> Played:
    """The program was profiled before on one of the machines with one GPU, whichever."""
    return _play(job, _modelled(job, _profiled(job, noise), noise), noise)


def models_unprobed(job: Job, noise: Noise) -> Played:
    """The same, and nothing measured after that."""
    belief = _modelled(job, _profiled(job, noise), noise)
    best = believed_best(belief, _worth(job))
    return Played(best, float(job.whole[best]), 0.0, 0)


def ours_if_so_sure(own: float) -> Policy:
    """With a belief that errs as it says: the truth and errors drawn from Σ."""
    sureness = Sureness(own=own, common=OUR_MODELS.common, scaling=OUR_MODELS.scaling)

    def play(job: Job, noise: Noise) -> Played:
        options = job.options
        sigma = covariance(options, sureness)
        error = noise.multivariate_normal(np.zeros(len(options)), sigma, method="cholesky")
        return _play(job, Belief.of(options, np.log(job.works) + error, sigma), noise)

    return play


def _play(job: Job, belief: Belief, noise: Noise, *, models: bool = False) -> Played:
    """Start on the machine believed best, and measure others as long as that pays."""
    price, worth = job.problem.price, _worth(job)
    running = believed_best(belief, worth)
    seen = job.shown(running, noise)
    alone = job.problem.machines[running].gpus == 1  # from several GPUs our models lead nowhere
    belief = _modelled(job, running, noise, seen) if models and alone else belief.given(running, seen)
    done, usd, wall, for_probes, probes = PROBE_SECONDS, price[running] * job.start, job.start, 0.0, 0
    up: int | None = None
    while True:
        underway = Underway(running=running, done_seconds=done)
        best = believed_best(belief, worth, underway, up=up)
        if best != running:  # what was done there is lost
            boot = 0.0 if best == up else job.start
            usd += price[running] * done + price[best] * boot
            wall += done + boot
            running, done = best, 0.0
            if best not in belief.seen and not belief.options[best].measured:  # its first iterations tell, too
                belief, done, up = belief.given(best, job.shown(best, noise)), PROBE_SECONDS, None
                continue
            underway = Underway(running=running)
        gain = next_measurement(belief, worth, underway)
        duration = job.start + PROBE_SECONDS
        if gain is None or done + duration >= job.works[running]:
            break
        probes, up = probes + 1, gain.index
        for_probes += price[up] * duration
        done += duration
        belief = belief.given(up, job.shown(up, noise))
    usd += price[running] * job.works[running]
    wall += job.works[running]
    return Played(running, float(usd + for_probes + job.problem.waiting * wall), float(for_probes), probes)


def _after_probing(job: Job, measured: Sequence[int], seconds: float, noise: Noise) -> Played:
    """All at once, then the best of them from its beginning."""
    at = list(measured)
    duration = job.start + seconds
    spent = float(job.problem.price[at].sum() * duration + job.problem.waiting * duration)
    shown = [float(job.rate[i]) * (job.start + job.shown(i, noise)) for i in at]
    best = at[int(np.argmin(shown))]
    return Played(best, spent + float(job.whole[best]), spent, len(at))


def _worth(job: Job) -> Worth:
    return Worth(per_usd=1.0, per_second=job.problem.waiting, per_probe_usd=1.0)


def _profiled(job: Job, noise: Noise) -> int:
    alone = [i for i, machine in enumerate(job.problem.machines) if machine.gpus == 1]
    return int(noise.choice(alone))


def _facts(job: Job, noise: Noise) -> Belief:
    """The level is as little known as Σ says."""
    options = job.options
    mean = by_facts(job.problem.machines)
    level = float(np.mean(np.log(job.works) - mean)) + noise.normal(0.0, GPU_FACTS.common)
    return Belief.of(options, mean + level, covariance(options, GPU_FACTS))


def _modelled(job: Job, here: int, noise: Noise, seen: float | None = None) -> Belief:
    """From the program's time on one machine."""
    options = job.options
    seconds, doubts = job.problem.modelled(here)
    measured = job.shown(here, noise) if seen is None else seen
    mean = np.log(seconds) + np.log(measured / seconds[here])
    options[here] = replace(options[here], measured=True)
    return Belief.of(options, mean, covariance(options, OUR_MODELS, doubts.tolist()))


def _features(problem: Problem) -> Array:
    """What a machine is by its data sheet, each to the same scale."""
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

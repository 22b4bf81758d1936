"""The machine to measure next, if any: a measurement must be expected to save more than it costs.

The working time t of the training on each machine, in seconds without boot and setup, has the distribution

    log t ~ N(μ, Σ)
    Σ_ij = σ_c² + σ²·(0.7·[same GPU] + 0.3·[same machine]) + (s_α² + (s_α/2)²·[same placement])·ln n_i·ln n_j

with n GPUs on one machine or spread over several. `build_covariance` gives Σ for a prior from GPU facts and for a prior
from our models. If a machine is already measured, Σ is conditioned on it: the common error is then known, and the rest
correlates as the errors of our models do (0.4 between GPUs, 0.6 to 0.8 on the same GPU). If the deviation of each
machine is known, from the interval of its estimate, Σ is scaled to it. Machines that differ only in their price share
one measurement.

A measurement of machine i is log t_i with noise ν = 0.03 and updates the distribution by the Gaussian rule. From two
measurements on, the prior is widened by max(1, (3 + χ²)/(3 + m)), where χ² is the surprise of m measurements: this
corrects an overconfident prior. The expected saving of measuring i is

    saving_i = min_j L_j − E_z[ min_j L_j(μ + b·z, Σ_jj − b_j²) ],   b = Σ_:i/√(Σ_ii + ν²)

over 21 Gauss–Hermite points, where L_j is the expected loss of training on j by the goal: boot, setup and
E[t] = exp(μ + Σ_jj/2), at its price (`ProbeObjective`). The rule looks one measurement ahead: a second measurement that
the first one makes worthwhile is not counted.

The training starts on the machine with the least expected loss, so its first iterations are a free measurement, and it
goes on there while another machine is probed. A migration afterwards loses the work done so far, or keeps most of it if
there are checkpoints (`RunningTraining.kept_share`). The machine just probed is already up: a migration to it pays no
second boot.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from trainfare.model.plan import Goal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NOISE = 0.03
"""ν: the deviation of the first iterations from the rest, as a deviation of the logarithm."""
QUADRATURE_POINTS = 21
GPU_SHARE = 0.7
"""The share of σ² that machines with the same GPU have in common."""
WIDEN_FROM = 2
"""Measurements from which on the prior is widened; one cannot tell a wrong level from an overconfident prior."""
PRIOR_WEIGHT = 3.0
LATTICE_POINTS = 256
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
EXTRA_DEVIATION = 0.3
"""Added (in squares) to the deviation of machines that were not measured: overconfidence costs more than caution. It is
about the deviation that Σ of our models leaves once a machine was measured. It was tuned on the tables of `python -m
benchmarks.probing`: 0.15 to 0.4 cost the same there, and none at all a tenth more."""
MAX_CONTENDERS = 64
"""Machines that are considered; machines further down were never near the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorDeviations:
    """σ, σ_c and s_α of the formula."""

    own: float
    common: float
    scaling: float


GPU_FACTS_PRIOR = PriorDeviations(own=0.4, common=0.5, scaling=0.3)
"""The prior of μ = −ln FP32 − α·ln n, with α = 0.7 on one machine and 0.5 over several."""
MODEL_PRIOR = PriorDeviations(own=0.25, common=0.3, scaling=0.1)
"""The prior of the step-time model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOption:
    """A machine, or several of one type. Times are in seconds, prices are those of all nodes together."""

    machine: str
    """Options with the same name take the same time: type, nodes, GPUs used and batch size, but not the price."""
    gpu: str
    gpus: int = 1
    nodes: int = 1
    usd_per_second: float
    start_seconds: float
    """Boot and setup, paid once for each machine that is started."""
    probe_seconds: float
    """The measurement after that."""
    fixed_usd: float = 0.0
    """The part of the cost of the training that does not depend on its time: storage, egress."""
    measured: bool = False

    @property
    def total_probe_seconds(self) -> float:
        return self.start_seconds + self.probe_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDistribution:
    """N(μ, Σ) of log t; `measurements` are the measured values of log t in it, by the index of the option."""

    options: tuple[ProbeOption, ...]
    mean: "Array"
    covariance: "Array"
    prior_mean: "Array"
    prior_covariance: "Array"
    measurements: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def prior(cls, options: Sequence[ProbeOption], mean: "Array", covariance: "Array") -> "TimeDistribution":
        """The distribution before any measurement."""
        return cls(
            options=tuple(options), mean=mean, covariance=covariance, prior_mean=mean, prior_covariance=covariance
        )

    def given(self, index: int, seconds: float) -> "TimeDistribution":
        """The posterior after a measurement of the working time on one option."""
        import numpy as np

        measurements = {**self.measurements, index: math.log(seconds)}
        at = np.array(list(measurements))
        surprise = np.array(list(measurements.values())) - self.prior_mean[at]
        before = any(option.measured for option in self.options)
        prior = self.prior_covariance * _widening(surprise, self.prior_covariance[np.ix_(at, at)], before=before)
        gain = np.linalg.solve(prior[np.ix_(at, at)] + NOISE**2 * np.eye(len(at)), prior[at]).T
        return replace(
            self,
            measurements=measurements,
            mean=self.prior_mean + gain @ surprise,
            covariance=prior - gain @ prior[at],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeObjective:
    """The goal as a price of dollars and seconds, and its limits.

    L = per_usd·usd + per_second·seconds. The dollars of a probe count at `per_probe_usd`: if only time matters, a
    dollar counts as the seconds that it buys on the machine expected to be the fastest.
    """

    per_usd: float = 1.0
    per_second: float = 0.0
    per_probe_usd: float = 1.0
    deadline_seconds: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9
    epochs_deviation: float = 0.0
    """The deviation of the logarithm of the number of epochs, if it is uncertain: the mean is then above the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTraining:
    """The training while machines are probed: the option it runs on, for how many seconds, and the share of that work
    that a migration keeps (0 none, 1 all: checkpoints)."""

    option: int
    done_seconds: float = 0.0
    kept_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementGain:
    """The price and the expected saving of measuring one option, in the quantity of the goal."""

    index: int
    price: float
    saving: float
    saving_usd: float
    saving_seconds: float


def build_covariance(
    options: Sequence[ProbeOption], prior: PriorDeviations, deviations: Sequence[float | None] | None = None
) -> "Array":
    """Σ of the formula; `deviations` replace those of single options, None keeps that of Σ."""
    import numpy as np

    def equal(names: "Sequence[object]") -> "Array":
        known = {name: code for code, name in enumerate(dict.fromkeys(names))}
        codes = np.array([known[name] for name in names])
        same: Array = np.equal.outer(codes, codes).astype(np.float64)
        return same

    gpu, machine = equal([o.gpu for o in options]), equal([o.machine for o in options])
    placement = equal([o.nodes > 1 for o in options])
    logs = np.log([o.gpus for o in options])
    sigma = (
        prior.common**2
        + prior.own**2 * (GPU_SHARE * gpu + (1 - GPU_SHARE) * machine)
        + prior.scaling**2 * np.outer(logs, logs) * (1 + placement / 4)
    )
    measured = [i for i, option in enumerate(options) if option.measured]
    if measured:
        sigma = _conditioned(sigma, measured)
    if deviations is None:
        return sigma
    own = np.sqrt(np.diag(sigma))
    replaced = [
        s if d is None else d if o.measured else math.hypot(d, EXTRA_DEVIATION)
        for o, d, s in zip(options, deviations, own, strict=True)
    ]
    scale = np.array(replaced) / own
    scaled: Array = sigma * np.outer(scale, scale)
    return scaled


def build_objective(goal: Goal, times: TimeDistribution, *, epochs_deviation: float = 0.0) -> ProbeObjective:
    """The prices that a goal puts on dollars and seconds.

    A weighted goal is w·time/least time + (1 − w)·cost/least cost, with the least expected time and cost.
    """
    usd, seconds = _expected(times, epochs_deviation)
    weight = {"cheapest": 0.0, "fastest": 1.0}.get(goal.kind, goal.weight_time or 0.0)
    single = weight in (0.0, 1.0)
    least_usd = float(usd[usd > 0].min()) if (usd > 0).any() else 1.0
    per_usd = float(weight == 0.0) if single else (1 - weight) / least_usd
    per_second = float(weight == 1.0) if single else weight / float(seconds.min())
    fastest = times.options[int(seconds.argmin())].usd_per_second
    return ProbeObjective(
        per_usd=per_usd,
        per_second=per_second,
        per_probe_usd=max(per_usd, per_second / fastest) if fastest else per_usd,
        deadline_seconds=goal.deadline_seconds,
        budget_usd=goal.budget_usd,
        confidence=goal.confidence,
        epochs_deviation=epochs_deviation,
    )


def restrict_to(times: TimeDistribution, indexes: Sequence[int]) -> TimeDistribution:
    """The same distribution over fewer options, before anything is measured."""
    import numpy as np

    at = np.ix_(indexes, indexes)
    return TimeDistribution.prior([times.options[i] for i in indexes], times.mean[list(indexes)], times.covariance[at])


def contenders(times: TimeDistribution, objective: ProbeObjective, *, most: int = MAX_CONTENDERS) -> tuple[int, ...]:
    """The options that would win if they were three deviations faster than expected, the best in that case first."""
    import numpy as np

    losses = _ExpectedLosses(times, objective, None)
    optimistic = losses.at_times(times.mean - 3 * np.sqrt(np.diag(times.covariance)))
    expected = losses.current()
    order = [int(expected.argmin()), *(int(i) for i in np.argsort(optimistic, kind="stable"))]
    return tuple(dict.fromkeys(i for i in order if optimistic[i] <= expected.min()))[:most]


def best_option(
    times: TimeDistribution,
    objective: ProbeObjective,
    running: RunningTraining | None = None,
    *,
    started: int | None = None,
) -> int:
    """The option with the least expected loss; `started` is one whose machine is already up."""
    return int(_ExpectedLosses(times, objective, running).current(started=started).argmin())


def expected_cost(times: TimeDistribution, objective: ProbeObjective, index: int) -> tuple[float, float]:
    """The expected dollars and seconds of the complete training on one option."""
    usd, seconds = _expected(times, objective.epochs_deviation)
    return float(usd[index]), float(seconds[index])


def measurement_gains(
    times: TimeDistribution, objective: ProbeObjective, running: RunningTraining | None = None
) -> tuple[MeasurementGain, ...]:
    """The expected saving and the price of measuring each option that is not measured yet, the best first."""
    import numpy as np

    losses = _ExpectedLosses(times, objective, running)
    open_options = [i for i in range(len(times.options)) if _is_open(times, i, running)]
    if not open_options:
        return ()
    at = np.array(open_options)
    points, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_POINTS)
    weights = weights / weights.sum()
    b = times.covariance[at] / np.sqrt(np.diag(times.covariance)[at] + NOISE**2)[:, None]
    variance = np.maximum(np.diag(times.covariance) - b**2, 0.0)[:, None, :]
    means = times.mean + b[:, None, :] * points[None, :, None]
    after, usd, seconds = losses.after(at, means, variance)
    chosen = after.argmin(axis=2)[:, :, None]
    least, its_usd, its_seconds = (
        np.take_along_axis(of, chosen, axis=2)[:, :, 0] @ weights for of in (after, usd, seconds)
    )
    now = losses.current()
    best = int(now.argmin())
    prices = losses.probe_prices(at)
    found = [
        MeasurementGain(
            index=i,
            price=float(prices[k]),
            saving=max(0.0, float(now[best] - least[k])),
            saving_usd=float(losses.usd[best] - its_usd[k]),
            saving_seconds=float(losses.seconds[best] - its_seconds[k]),
        )
        for k, i in enumerate(open_options)
    ]
    return tuple(sorted(found, key=lambda gain: gain.price - gain.saving))


def next_measurement(
    times: TimeDistribution,
    objective: ProbeObjective,
    running: RunningTraining | None = None,
    *,
    reachable: Sequence[int] | None = None,
) -> MeasurementGain | None:
    """The measurement whose expected saving exceeds its price by most; None if no measurement pays."""
    found = measurement_gains(times, objective, running)
    best = next((gain for gain in found if reachable is None or gain.index in reachable), None)
    return best if best is not None and best.saving > best.price else None


def joint_saving(times: TimeDistribution, objective: ProbeObjective, indexes: Sequence[int]) -> tuple[float, float]:
    """The expected saving, in dollars and seconds, of measuring all of these options.

    It is less than the sum of the savings of each. Computed over an even lattice instead of random points.
    """
    import numpy as np

    if not indexes:
        return 0.0, 0.0
    at = np.array(indexes)
    points = _lattice(len(at))
    noisy = times.covariance[np.ix_(at, at)] + NOISE**2 * np.eye(len(at))
    b = np.linalg.solve(np.linalg.cholesky(noisy), times.covariance[at])
    variance = np.maximum(np.diag(times.covariance) - (b**2).sum(axis=0), 0.0)
    losses = _ExpectedLosses(times, objective, None)
    after, usd, seconds = losses.after(at[:0], times.mean + points @ b, variance)
    chosen = after.argmin(axis=1)[:, None]
    best = int(losses.current().argmin())
    then_usd, then_seconds = (float(np.take_along_axis(of, chosen, axis=1).mean()) for of in (usd, seconds))
    return float(losses.usd[best]) - then_usd, float(losses.seconds[best]) - then_seconds


def _lattice(dimensions: int) -> "Array":
    """Standard normal points by Richtmyer's lattice of square roots of primes; each has its opposite, so that the mean
    is zero."""
    import numpy as np
    from scipy.special import ndtri

    steps = np.arange(1, LATTICE_POINTS + 1)[:, None] * np.sqrt(PRIMES[:dimensions])[None, :]
    points = ndtri((steps % 1.0).clip(1e-6, 1 - 1e-6))
    both: Array = np.concatenate([points, -points])
    return both


def _conditioned(covariance: "Array", measured: Sequence[int]) -> "Array":
    """Σ conditioned on measurements of these options."""
    import numpy as np

    noisy = covariance[np.ix_(measured, measured)] + NOISE**2 * np.eye(len(measured))
    left: Array = covariance - covariance[:, measured] @ np.linalg.solve(noisy, covariance[measured])
    return left


def _is_open(times: TimeDistribution, index: int, running: RunningTraining | None) -> bool:
    """True if the option, or one that takes the same time, is neither measured nor running."""
    option = times.options[index]
    measured = {times.options[i].machine for i in times.measurements}
    runs = running is not None and running.option == index
    return not option.measured and option.machine not in measured and not runs


def _widening(surprise: "Array", covariance: "Array", *, before: bool) -> float:
    """max(1, (3 + χ²)/(3 + m)). If another measurement came `before`, the first of these already counts."""
    import numpy as np

    m = len(surprise)
    if m + before < WIDEN_FROM:
        return 1.0
    chi = float(surprise @ np.linalg.solve(covariance + NOISE**2 * np.eye(m), surprise))
    return max(1.0, (PRIOR_WEIGHT + chi) / (PRIOR_WEIGHT + m))


def _expected(times: TimeDistribution, epochs_deviation: float) -> tuple["Array", "Array"]:
    """The expected dollars and seconds of the training on each option."""
    import numpy as np

    start = np.array([o.start_seconds for o in times.options])
    price = np.array([o.usd_per_second for o in times.options])
    fixed = np.array([o.fixed_usd for o in times.options])
    seconds = start + np.exp(times.mean + (np.diag(times.covariance) + epochs_deviation**2) / 2)
    return price * seconds + fixed, seconds


class _ExpectedLosses:
    """The expected loss of training on each option from now on, before and after a measurement.

    If the training has run on r for d seconds and a migration keeps a share k of that work, the remaining work on r is
    E[t_r] − d, and on another option it is E[t]·(1 − k·d/E[t_r]). While i is probed, r goes on: a migration away from r
    afterwards has paid for that time without using it.
    """

    def __init__(self, times: TimeDistribution, objective: ProbeObjective, running: RunningTraining | None) -> None:
        import numpy as np

        options = times.options
        self._objective = objective
        self._running = running
        self._price = np.array([o.usd_per_second for o in options])
        self._fixed = np.array([o.fixed_usd for o in options])
        self._start = np.array([o.start_seconds for o in options])
        self._probe = np.array([o.total_probe_seconds for o in options])
        self._mean, self._variance = times.mean, np.diag(times.covariance)
        self._quantile = max(0.0, NormalDist().inv_cdf(objective.confidence))
        work = np.exp(times.mean + (self._variance + objective.epochs_deviation**2) / 2)
        self.seconds = self._remaining(work, 0.0)
        self.usd = self._usd(self.seconds)
        complete = self._loss(self._usd(self._start + work), self._start + work)
        safest = int(self._upper(times.mean, self._variance).argmin())
        self._safest_loss = float(complete[safest])

    def current(self, *, started: int | None = None) -> "Array":
        """The expected losses without another measurement; the machine of option `started` is already up."""
        seconds = self.seconds.copy()
        if started is not None and (self._running is None or started != self._running.option):
            seconds[started] -= self._start[started]
        return self._with_limits(self._loss(self._usd(seconds), seconds), self._mean, self._variance)

    def at_times(self, mean: "Array") -> "Array":
        """The losses if the logarithms of the times were exactly these."""
        import numpy as np

        seconds = self._start + np.exp(mean)
        return self._with_limits(self._loss(self._usd(seconds), seconds), mean, np.zeros_like(mean))

    def probe_prices(self, at: "NDArray[np.intp]") -> "Array":
        """The prices of probes: their dollars, and their time if no training runs meanwhile."""
        waiting = self._objective.per_second if self._running is None else 0.0
        prices: Array = (self._objective.per_probe_usd * self._price[at] + waiting) * self._probe[at]
        return prices

    def after(self, at: "NDArray[np.intp]", mean: "Array", variance: "Array") -> tuple["Array", "Array", "Array"]:
        """Losses, dollars and seconds of each option (last axis) at each point, for each measured option (first axis).

        `at` is empty if several options are measured together; their machines are then not up afterwards.
        """
        import numpy as np

        work = np.exp(mean + (variance + self._objective.epochs_deviation**2) / 2)
        probing = self._probe[at][:, None, None] if len(at) else 0.0
        seconds = self._remaining(work, probing)
        if len(at):
            seconds[np.arange(len(at)), :, at] -= self._start[at][:, None]  # its machine is up
        usd = self._usd(seconds)
        if self._running is not None:
            others = np.arange(len(self._price)) != self._running.option
            usd = usd + others * (self._price[self._running.option] * probing)
            seconds = seconds + others * probing
        return self._with_limits(self._loss(usd, seconds), mean, variance), usd, seconds

    def _remaining(self, work: "Array", probing: "Array | float") -> "Array":
        import numpy as np

        if self._running is None:
            return self._start + work
        r, k = self._running.option, self._running.kept_share
        d = np.minimum(self._running.done_seconds + probing, work[..., r : r + 1])
        seconds: Array = self._start + work * (1 - k * d / work[..., r : r + 1])
        seconds[..., r] = np.maximum(work[..., r] - self._running.done_seconds, 0.0)
        return seconds

    def _usd(self, seconds: "Array") -> "Array":
        usd: Array = self._price * seconds + self._fixed
        return usd

    def _loss(self, usd: "Array", seconds: "Array") -> "Array":
        loss: Array = self._objective.per_usd * usd + self._objective.per_second * seconds
        return loss

    def _upper(self, mean: "Array", variance: "Array") -> "Array":
        """The bounds of the seconds that hold with the confidence of the goal."""
        import numpy as np

        deviation = np.sqrt(variance + self._objective.epochs_deviation**2)
        upper: Array = self._start + np.exp(mean + self._quantile * deviation)
        return upper

    def _with_limits(self, losses: "Array", mean: "Array", variance: "Array") -> "Array":
        """An option that may exceed a limit also costs the loss of the safest option, which must then replace it."""
        deadline, budget = self._objective.deadline_seconds, self._objective.budget_usd
        if deadline is None and budget is None:
            return losses
        upper = self._upper(mean, variance)
        exceeds = (upper > (deadline or math.inf)) | (self._usd(upper) > (budget or math.inf))
        limited: Array = losses + exceeds * self._safest_loss
        return limited

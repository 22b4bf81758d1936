"""Which machine to measure next, if any: a measurement must be expected to save more than it costs.

What is believed of the seconds t that the training works on each machine, boot and setup apart:

    log t ~ N(μ, Σ)
    Σ_ij = σ_c² + σ²·(0.7·[same GPU] + 0.3·[same machine]) + (s_α² + (s_α/2)²·[same placement])·ln n_i·ln n_j

with n GPUs on one machine or spread over several. `covariance` gives it for GPU facts and for our models, and what is
left of it where a machine was measured already: what all have in common is known then, and the rest errs as alike as
our models do (0.4 between GPUs, 0.6 to 0.8 on the same one). Where each machine's own deviation is known, from the
interval of its estimate, Σ takes that scale. Machines that differ only in their price are one to a measurement.

A measurement of i is log t_i with noise ν = 0.03, and moves all that is believed by the Gaussian rule. After two the
prior is widened by max(1, (3 + χ²)/(3 + m)), χ² being what m measurements say of it: a belief that was too sure of
itself learns so. What measuring i is expected to save:

    saving_i = min_j L_j − E_z[ min_j L_j(μ + b·z, Σ_jj − b_j²) ],   b = Σ_:i/√(Σ_ii + ν²)

over 21 Gauss–Hermite points, where L_j is what training on j is expected to cost by the goal: boot, setup and
E[t] = exp(μ + Σ_jj/2), at its price (`Worth`). Only one measurement ahead: what it lets one measure next is not in it.

The training itself starts on the machine believed best, so its first iterations are a measurement for nothing, and it
goes on there while another is probed. Who then moves loses what was done, or all but a restart where there are
checkpoints (`Underway.kept`). The machine just probed is up: moving to it pays no second boot.
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
"""ν: how far the first iterations are from the rest, as a deviation of the logarithm."""
POINTS = 21
GPU_SHARE = 0.7
"""Of σ²: what machines with the same GPU err alike."""
WIDENED_FROM = 2
"""Measurements; one cannot tell a wrong level from a wrong belief."""
PRIOR_WEIGHT = 3.0
EVEN_POINTS = 256
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
DOUBT = 0.3
"""Added to the deviation of what was not measured: overconfidence costs more than caution. It is about what Σ of our
models leaves once a machine was measured. Chosen in sight of the tables of `python -m benchmarks.probing`, where 0.15
to 0.4 cost the same and none at all a tenth more."""
CONTENDERS = 64
"""Machines that are looked at: more never were near the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sureness:
    """σ, σ_c and s_α of the formula."""

    own: float
    common: float
    scaling: float


GPU_FACTS = Sureness(own=0.4, common=0.5, scaling=0.3)
"""Of μ = −ln FP32 − α·ln n, with α = 0.7 on one machine and 0.5 over several."""
OUR_MODELS = Sureness(own=0.25, common=0.3, scaling=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A machine, or several of it, as the policy sees it. Times are in seconds, prices of all nodes together."""

    machine: str
    """What is the same in two options takes the same time: type, nodes, GPUs used and batch size, not the price."""
    gpu: str
    gpus: int = 1
    nodes: int = 1
    usd_per_second: float
    start_seconds: float
    """Boot and setup, paid once for each machine that is started."""
    probe_seconds: float
    """What the measurement takes after that."""
    fixed_usd: float = 0.0
    """Of the training, however long it takes: storage, egress."""
    measured: bool = False

    @property
    def whole_probe_seconds(self) -> float:
        return self.start_seconds + self.probe_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """N(μ, Σ) of log t; `seen` are the measurements in it, by option."""

    options: tuple[Option, ...]
    mean: "Array"
    covariance: "Array"
    prior_mean: "Array"
    prior_covariance: "Array"
    seen: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Sequence[Option], mean: "Array", covariance: "Array") -> "Belief":
        return cls(
            options=tuple(options), mean=mean, covariance=covariance, prior_mean=mean, prior_covariance=covariance
        )

    def given(self, index: int, seconds: float) -> "Belief":
        """With a measurement of what the training takes on that option."""
        import numpy as np

        seen = {**self.seen, index: math.log(seconds)}
        at = np.array(list(seen))
        surprise = np.array(list(seen.values())) - self.prior_mean[at]
        before = any(option.measured for option in self.options)
        prior = self.prior_covariance * _widening(surprise, self.prior_covariance[np.ix_(at, at)], before=before)
        gain = np.linalg.solve(prior[np.ix_(at, at)] + NOISE**2 * np.eye(len(at)), prior[at]).T
        return replace(self, seen=seen, mean=self.prior_mean + gain @ surprise, covariance=prior - gain @ prior[at])


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The goal as a price of dollars and seconds, and its limits.

    L = per_usd·usd + per_second·seconds. Dollars of a probe count at `per_probe_usd`: for who wants only to be fast,
    at what a second of the machine believed fastest costs.
    """

    per_usd: float = 1.0
    per_second: float = 0.0
    per_probe_usd: float = 1.0
    latest_seconds: float | None = None
    most_usd: float | None = None
    confidence: float = 0.9
    epochs_deviation: float = 0.0
    """Of the logarithm of the number of epochs, where it is only expected: the mean is then above the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """The training while machines are probed: where it runs, since how many seconds, and what of it is kept by who
    moves it to another machine (0 nothing, 1 all: checkpoints)."""

    running: int
    done_seconds: float = 0.0
    kept: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Of measuring one option; price and saving in the goal's own quantity."""

    index: int
    price: float
    saving: float
    saving_usd: float
    saving_seconds: float


def covariance(
    options: Sequence[Option], sureness: Sureness, deviations: Sequence[float | None] | None = None
) -> "Array":
    """Σ of the formula; with `deviations` each option has its own, and None is what Σ says."""
    import numpy as np

    def alike(names: "Sequence[object]") -> "Array":
        known = {name: code for code, name in enumerate(dict.fromkeys(names))}
        codes = np.array([known[name] for name in names])
        same: Array = np.equal.outer(codes, codes).astype(np.float64)
        return same

    gpu, machine = alike([o.gpu for o in options]), alike([o.machine for o in options])
    placement = alike([o.nodes > 1 for o in options])
    logs = np.log([o.gpus for o in options])
    grown = np.outer(logs, logs)
    found = (
        sureness.common**2
        + sureness.own**2 * (GPU_SHARE * gpu + (1 - GPU_SHARE) * machine)
        + sureness.scaling**2 * grown * (1 + placement / 4)
    )
    known = [i for i, option in enumerate(options) if option.measured]
    if known:
        found = _conditioned(found, known)
    if deviations is None:
        return found
    own = np.sqrt(np.diag(found))
    wanted = [
        s if d is None else d if o.measured else math.hypot(d, DOUBT)
        for o, d, s in zip(options, deviations, own, strict=True)
    ]
    scale = np.array(wanted) / own
    scaled: Array = found * np.outer(scale, scale)
    return scaled


def worth_of(goal: Goal, belief: Belief, *, epochs_deviation: float = 0.0) -> Worth:
    """The prices that a goal puts on dollars and seconds.

    Weighted, w·time/least time + (1 − w)·cost/least cost, the least being those that are believed now.
    """
    usd, seconds = _expected(belief, epochs_deviation)
    weight = {"cheapest": 0.0, "fastest": 1.0}.get(goal.kind, goal.weight_time or 0.0)
    single = weight in (0.0, 1.0)
    per_usd = float(weight == 0.0) if single else (1 - weight) / float(usd.min())
    per_second = float(weight == 1.0) if single else weight / float(seconds.min())
    fastest = belief.options[int(seconds.argmin())].usd_per_second
    return Worth(
        per_usd=per_usd,
        per_second=per_second,
        per_probe_usd=max(per_usd, per_second / fastest),
        latest_seconds=goal.deadline_seconds,
        most_usd=goal.budget_usd,
        confidence=goal.confidence,
        epochs_deviation=epochs_deviation,
    )


def within(belief: Belief, kept: Sequence[int]) -> Belief:
    """The same belief of fewer options, before anything was measured."""
    import numpy as np

    at = np.ix_(kept, kept)
    return Belief.of([belief.options[i] for i in kept], belief.mean[list(kept)], belief.covariance[at])


def contenders(belief: Belief, worth: Worth, *, most: int = CONTENDERS) -> tuple[int, ...]:
    """Those that would win if they were three deviations better than believed, by how good they would be then."""
    import numpy as np

    ledger = _Ledger(belief, worth, None)
    lucky = ledger.losses_at(belief.mean - 3 * np.sqrt(np.diag(belief.covariance)))
    losses = ledger.losses()
    order = [int(losses.argmin()), *(int(i) for i in np.argsort(lucky, kind="stable"))]
    return tuple(dict.fromkeys(i for i in order if lucky[i] <= losses.min()))[:most]


def believed_best(belief: Belief, worth: Worth, underway: Underway | None = None, *, up: int | None = None) -> int:
    """What to train on, by what is believed now; `up` is a machine that has been started already."""
    return int(_Ledger(belief, worth, underway).losses(up=up).argmin())


def expected_bill(belief: Belief, worth: Worth, index: int) -> tuple[float, float]:
    """Dollars and seconds of the whole training there."""
    usd, seconds = _expected(belief, worth.epochs_deviation)
    return float(usd[index]), float(seconds[index])


def gains(belief: Belief, worth: Worth, underway: Underway | None = None) -> tuple[Gain, ...]:
    """What measuring each option is expected to save and costs, the best first. What was measured is left out."""
    import numpy as np

    ledger = _Ledger(belief, worth, underway)
    asked = [i for i in range(len(belief.options)) if _worth_asking(belief, i, underway)]
    if not asked:
        return ()
    at = np.array(asked)
    points, weights = np.polynomial.hermite_e.hermegauss(POINTS)
    weights = weights / weights.sum()
    pull = belief.covariance[at] / np.sqrt(np.diag(belief.covariance)[at] + NOISE**2)[:, None]
    left = np.maximum(np.diag(belief.covariance) - pull**2, 0.0)[:, None, :]
    moved = belief.mean + pull[:, None, :] * points[None, :, None]
    losses, usd, seconds = ledger.after(at, moved, left)
    chosen = losses.argmin(axis=2)[:, :, None]
    least, its_usd, its_seconds = (
        np.take_along_axis(of, chosen, axis=2)[:, :, 0] @ weights for of in (losses, usd, seconds)
    )
    now = ledger.losses()
    stays = int(now.argmin())
    prices = ledger.prices(at)
    found = [
        Gain(
            index=i,
            price=float(prices[k]),
            saving=max(0.0, float(now[stays] - least[k])),
            saving_usd=float(ledger.usd[stays] - its_usd[k]),
            saving_seconds=float(ledger.seconds[stays] - its_seconds[k]),
        )
        for k, i in enumerate(asked)
    ]
    return tuple(sorted(found, key=lambda gain: gain.price - gain.saving))


def next_measurement(
    belief: Belief, worth: Worth, underway: Underway | None = None, *, reachable: Sequence[int] | None = None
) -> Gain | None:
    """The one with the most to gain beyond its price; None where no measurement pays: stop there."""
    found = gains(belief, worth, underway)
    best = next((gain for gain in found if reachable is None or gain.index in reachable), None)
    return best if best is not None and best.saving > best.price else None


def saving_together(belief: Belief, worth: Worth, indexes: Sequence[int]) -> tuple[float, float]:
    """Dollars and seconds that measuring all of these is expected to save: what each adds to the others is less than
    it saves alone. Over evenly spread points instead of random ones."""
    import numpy as np

    if not indexes:
        return 0.0, 0.0
    at = np.array(indexes)
    spread = _spread_points(len(at))
    noisy = belief.covariance[np.ix_(at, at)] + NOISE**2 * np.eye(len(at))
    pull = np.linalg.solve(np.linalg.cholesky(noisy), belief.covariance[at])
    left = np.maximum(np.diag(belief.covariance) - (pull**2).sum(axis=0), 0.0)
    ledger = _Ledger(belief, worth, None)
    losses, usd, seconds = ledger.after(at[:0], belief.mean + spread @ pull, left)
    chosen = losses.argmin(axis=1)[:, None]
    stays = int(ledger.losses().argmin())
    then = [float(np.take_along_axis(of, chosen, axis=1).mean()) for of in (usd, seconds)]
    return float(ledger.usd[stays]) - then[0], float(ledger.seconds[stays]) - then[1]


def _spread_points(dimensions: int) -> "Array":
    """Standard normal, by Richtmyer's lattice of square roots of primes; opposite points in pairs, so that the mean is
    zero."""
    import numpy as np
    from scipy.special import ndtri

    steps = np.arange(1, EVEN_POINTS + 1)[:, None] * np.sqrt(PRIMES[:dimensions])[None, :]
    points = ndtri((steps % 1.0).clip(1e-6, 1 - 1e-6))
    both: Array = np.concatenate([points, -points])
    return both


def _conditioned(covariance: "Array", known: Sequence[int]) -> "Array":
    """What is left of Σ once these were measured."""
    import numpy as np

    noisy = covariance[np.ix_(known, known)] + NOISE**2 * np.eye(len(known))
    left: Array = covariance - covariance[:, known] @ np.linalg.solve(noisy, covariance[known])
    return left


def _worth_asking(belief: Belief, index: int, underway: Underway | None) -> bool:
    option = belief.options[index]
    known = {belief.options[i].machine for i in belief.seen}
    runs = underway is not None and underway.running == index
    return not option.measured and option.machine not in known and not runs


def _widening(surprise: "Array", covariance: "Array", *, before: bool) -> float:
    """max(1, (3 + χ²)/(3 + m)); where something was measured `before`, the first of these can already tell."""
    import numpy as np

    m = len(surprise)
    if m + before < WIDENED_FROM:
        return 1.0
    chi = float(surprise @ np.linalg.solve(covariance + NOISE**2 * np.eye(m), surprise))
    return max(1.0, (PRIOR_WEIGHT + chi) / (PRIOR_WEIGHT + m))


def _expected(belief: Belief, epochs_deviation: float) -> tuple["Array", "Array"]:
    import numpy as np

    start = np.array([o.start_seconds for o in belief.options])
    price = np.array([o.usd_per_second for o in belief.options])
    fixed = np.array([o.fixed_usd for o in belief.options])
    seconds = start + np.exp(belief.mean + (np.diag(belief.covariance) + epochs_deviation**2) / 2)
    return price * seconds + fixed, seconds


class _Ledger:
    """What training on each option is expected to cost from now on, before and after a measurement.

    Under way on r since d seconds, of which a share k is kept by who moves, r's remaining work is E[t_r] − d, and that
    of another is E[t]·(1 − k·d/E[t_r]). While i is probed r goes on: who then leaves r has paid for that in vain.
    """

    def __init__(self, belief: Belief, worth: Worth, underway: Underway | None) -> None:
        import numpy as np

        options = belief.options
        self._worth = worth
        self._underway = underway
        self._price = np.array([o.usd_per_second for o in options])
        self._fixed = np.array([o.fixed_usd for o in options])
        self._start = np.array([o.start_seconds for o in options])
        self._probe = np.array([o.whole_probe_seconds for o in options])
        self._mean, self._variance = belief.mean, np.diag(belief.covariance)
        self._sure = NormalDist().inv_cdf((1 + worth.confidence) / 2)
        works = np.exp(belief.mean + (self._variance + worth.epochs_deviation**2) / 2)
        self.seconds = self._remaining(works, 0.0)
        self.usd = self._usd(self.seconds)
        whole = self._loss(self._usd(self._start + works), self._start + works)
        self._surest = float(whole[int(self._upper(belief.mean, self._variance).argmin())])

    def losses(self, *, up: int | None = None) -> "Array":
        seconds = self.seconds.copy()
        if up is not None and (self._underway is None or up != self._underway.running):
            seconds[up] -= self._start[up]
        return self._limited(self._loss(self._usd(seconds), seconds), self._mean, self._variance)

    def losses_at(self, mean: "Array") -> "Array":
        """Were the logarithms exactly these."""
        import numpy as np

        seconds = self._start + np.exp(mean)
        return self._limited(self._loss(self._usd(seconds), seconds), mean, np.zeros_like(mean))

    def prices(self, at: "NDArray[np.intp]") -> "Array":
        """Of probes: their dollars; their time too where nothing is trained meanwhile."""
        waiting = self._worth.per_second if self._underway is None else 0.0
        prices: Array = (self._worth.per_probe_usd * self._price[at] + waiting) * self._probe[at]
        return prices

    def after(self, at: "NDArray[np.intp]", mean: "Array", variance: "Array") -> tuple["Array", "Array", "Array"]:
        """Losses, dollars and seconds of each option (last axis) at each point, for each option measured (first); of
        none where several are measured together, whose machines are not kept."""
        import numpy as np

        works = np.exp(mean + (variance + self._worth.epochs_deviation**2) / 2)
        probing = self._probe[at][:, None, None] if len(at) else 0.0
        seconds = self._remaining(works, probing)
        if len(at):
            seconds[np.arange(len(at)), :, at] -= self._start[at][:, None]  # it is up
        usd = self._usd(seconds)
        if self._underway is not None:
            left = np.arange(len(self._price)) != self._underway.running
            usd = usd + left * (self._price[self._underway.running] * probing)
            seconds = seconds + left * probing
        return self._limited(self._loss(usd, seconds), mean, variance), usd, seconds

    def _remaining(self, works: "Array", probing: "Array | float") -> "Array":
        import numpy as np

        if self._underway is None:
            return self._start + works
        r, kept = self._underway.running, self._underway.kept
        done = np.minimum(self._underway.done_seconds + probing, works[..., r : r + 1])
        seconds: Array = self._start + works * (1 - kept * done / works[..., r : r + 1])
        seconds[..., r] = np.maximum(works[..., r] - self._underway.done_seconds, 0.0)
        return seconds

    def _usd(self, seconds: "Array") -> "Array":
        usd: Array = self._price * seconds + self._fixed
        return usd

    def _loss(self, usd: "Array", seconds: "Array") -> "Array":
        loss: Array = self._worth.per_usd * usd + self._worth.per_second * seconds
        return loss

    def _upper(self, mean: "Array", variance: "Array") -> "Array":
        """Where the interval of the seconds ends, at the goal's confidence."""
        import numpy as np

        upper: Array = self._start + np.exp(mean + self._sure * np.sqrt(variance + self._worth.epochs_deviation**2))
        return upper

    def _limited(self, losses: "Array", mean: "Array", variance: "Array") -> "Array":
        """One that may break a limit is paid for in vain, and the surest on top."""
        latest, most = self._worth.latest_seconds, self._worth.most_usd
        if latest is None and most is None:
            return losses
        upper = self._upper(mean, variance)
        broken = (upper > (latest or math.inf)) | (self._usd(upper) > (most or math.inf))
        limited: Array = losses + broken * self._surest
        return limited

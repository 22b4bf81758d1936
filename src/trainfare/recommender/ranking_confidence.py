"""How likely the one of two estimates that looks better is the better one.

The logarithm of each errs normally, with the deviation that its interval has on that side, σ = ln(high/value)/z. With
d = ln(b/a), a, which looks better, is better than b with probability

    P = Φ(d/s),   s² = k² + a₊² + b₋²

where a₊ is how far a alone may rise, b₋ how far b alone may fall, and k what an error that both have does to d: where
it makes both longer and a rises by more than b, or both shorter and b falls by more than a, the worse of the two.

An error is shared where the time of an iteration is one belief: the same GPU (the same machine type where it was
measured there), basis, profile, batch size and number of GPUs. Of such a pair all that the program does is shared, and
its setup; boot where the provider is the same; interruptions never are. So two prices of one machine are told apart by
a cent, though the intervals of both are wide.

Limits: other pairs share errors too, a program that is slow everywhere or one GPU at two batch sizes. They are taken as
independent, which doubts an order too much rather than too little. Prices are taken as exact.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, score, weight_of_time
from trainfare.recommender.limits import quantile


def is_ranking_certain(a: Estimate, b: Estimate, goal: Goal, *, confidence: float | None = None, least: IdealPoint) -> bool:
    """Whether their order by the goal is right with this confidence, that of the goal unless said."""
    return likelihood(a, b, goal, least=least) >= (goal.confidence if confidence is None else confidence)


def likelihood(a: Estimate, b: Estimate, goal: Goal, *, least: IdealPoint) -> float:
    """P: from a half, where nothing tells which, to 1. Of a and b, whichever comes first."""
    apart = _phases_apart(a, b)
    better, other = sorted((_judged(e, goal, least, apart) for e in (a, b)), key=lambda one: one.value)
    d = math.log(other.value / better.value)
    rise, fall = better.up, other.down
    if _err_alike(a, b):
        k = max(0.0, better.shared_up - other.shared_up, other.shared_down - better.shared_down)
        rise, fall = better.own_up, other.own_down
    else:
        k = 0.0
    s = math.hypot(k, rise, fall)
    if not s:
        return 1.0 if d else 0.5
    return NormalDist().cdf(d / s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What the goal wants least of, with deviations of its logarithm upwards and downwards, and what share of them is
    the program's."""

    value: float
    up: float
    down: float
    program_up: float
    program_down: float

    @property
    def shared_up(self) -> float:
        return self.up * self.program_up

    @property
    def shared_down(self) -> float:
        return self.down * self.program_down if self.down < math.inf else 0.0

    @property
    def own_up(self) -> float:
        return self.up * math.sqrt(1 - self.program_up**2)

    @property
    def own_down(self) -> float:
        return self.down * math.sqrt(1 - self.program_down**2) if self.program_down < 1 else 0.0


def _phases_apart(a: Estimate, b: Estimate) -> frozenset[str]:
    """Phases that err on each machine anew."""
    providers = {e.candidate.offer.vm_type.provider for e in (a, b)}
    return frozenset({"spot rework"} if len(providers) == 1 else {"spot rework", "boot"})


def _judged(estimate: Estimate, goal: Goal, least: IdealPoint, apart: frozenset[str]) -> _Judged:
    w = weight_of_time(goal)
    value = score(estimate, w, least)
    time_share = w * estimate.seconds.value / least.seconds / value  # the rest is the cost's; both err alike
    sides = {}
    for name, deviation in (("up", _up), ("down", _down)):
        parts = ((time_share, estimate.seconds), (1 - time_share, estimate.usd))
        sides[name] = sum(share * deviation(interval) for share, interval in parts if share > 0)
    return _Judged(
        value=value,
        up=sides["up"],
        down=sides["down"],
        program_up=_program_share([(p.name in apart, p.seconds.high - p.seconds.value) for p in estimate.phases]),
        program_down=_program_share([(p.name in apart, p.seconds.value - p.seconds.low) for p in estimate.phases]),
    )


def _program_share(half_widths: list[tuple[bool, float]]) -> float:
    """Of a deviation: what the program does adds up, what errs by itself adds up as squares."""
    program = sum(width for apart, width in half_widths if not apart)
    whole = math.hypot(program, *(width for apart, width in half_widths if apart))
    return program / whole if whole else 1.0


def _up(interval: Interval) -> float:
    return math.log(interval.high / interval.value) / quantile(interval.confidence)


def _down(interval: Interval) -> float:
    if not interval.low:
        return math.inf
    return math.log(interval.value / interval.low) / quantile(interval.confidence)


def _err_alike(a: Estimate, b: Estimate) -> bool:
    return _belief(a) == _belief(b)


def _belief(estimate: Estimate) -> tuple[object, ...]:
    """What is the same here has one time of an iteration."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    measured = estimate.basis == "measured" or vm_type.gpu is None
    return (
        estimate.basis,
        estimate.profile_id,
        vm_type.key if measured or vm_type.gpu is None else vm_type.gpu.name,
        candidate.batch_size,
        candidate.nodes,
        candidate.gpus_working,
    )

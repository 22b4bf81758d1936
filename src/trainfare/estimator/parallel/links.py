"""Step time on a cluster that nobody has measured: from the step on one GPU, the gradient and facts of the links.

    T     = (G^γ + Y^γ)^(1/γ)                              γ ≥ 1: how far sending hides behind computing
    G     = alone · (1 + crowding·(q − 1)) · (1 + straggling·ln K)
    Y     = Y_in + Y_out
    Y_in  = 2(q−1)/q · S/(e·B) + 2(q−1)·latency            a ring of the q GPUs of a node, over NVLink or PCIe
    Y_out = (2(n−1)/n + pressing·2(q−1)/q/(n−1)) · S/(e·B) + 2(n−1)·latency        a ring of n nodes, over the network

K = q·n GPUs, S the bytes of the gradient, B the nominal bandwidth, e the share of it that is reached. GPUs of one node
press through the same host, on two nodes all of them through one pair: the 1/(n − 1) of `scaling`, found, not derived.
What is shared by all programs (γ, crowding, straggling, e of each kind of link, latencies, pressing) is fitted over
programs whose steps were measured on one GPU and on several. A GPU that was among them has a factor of its own on e,
pulled to 1: servers with the same GPU are wired alike. Where S is not known it is taken as the usual one for a step of
that length, S = usual · alone, and more in half precision, which computes sooner and sends as much.

One process that drives several GPUs (`DataParallel`) follows the same form with other constants: fit it apart.

Limits: all nodes are alike and their GPUs evenly spread; nothing here knows of input pipelines that starve, of
gradient compression, sharded optimisers or pipelines of stages.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainfare.estimator.parallel.link_residuals import (
    NOTHING_KNOWN,
    Residual,
    ResidualFit,
    corrected,
    fit_residuals,
    gradient_seconds,
)
from trainfare.estimator.parallel.ring import SHIPPED, Placement, RingFit, overlapped_seconds
from trainfare.model.checks import require_positive, require_text
from trainfare.model.machine import Gpu, VmType

if TYPE_CHECKING:
    import numpy as np

Link = Literal["NVLink", "PCIe", "network"]

UNKNOWN_NETWORK_GB_PER_SECOND = 1.25
"""10 Gbit/s: what most machines with a GPU have at least. Taken where the catalog does not say."""

HALF = ("float16", "bfloat16")

_LINKS: tuple[Link, ...] = ("NVLink", "PCIe", "network")
_INSIDE: tuple[Link, ...] = ("NVLink", "PCIe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStep:
    """A step measured on several GPUs, beside the step of the same program and batch of one GPU on one."""

    program: str
    family: str
    gpu: Gpu
    gpus: int
    nodes: int
    alone_seconds: float
    seconds: float
    gradient_bytes: float | None = None
    """None: not known, or `seconds` are not those of a whole step."""
    network_gb_per_second: float | None = None
    machine: str | None = None
    """Where machines with this GPU are to be told apart; else the name of the GPU."""
    half: bool = False
    """Whether it computes in half precision."""

    def __post_init__(self) -> None:
        require_text(program=self.program, family=self.family)
        require_positive(gpus=self.gpus, nodes=self.nodes, alone_seconds=self.alone_seconds, seconds=self.seconds)
        require_positive(gradient_bytes=self.gradient_bytes, network_gb_per_second=self.network_gb_per_second)
        if self.gpus < self.nodes:
            raise ValueError(f"{self.nodes} nodes need as many GPUs at least, got {self.gpus}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """What programs share, by kind of link."""

    gamma: Mapping[str, float]
    """By the slowest kind of link that is used: the network, if there is more than one node."""
    straggling: float
    pressing: float
    crowding: Mapping[str, float]
    efficiency: Mapping[str, float]
    """Share of the nominal bandwidth that is reached."""
    latency_seconds: Mapping[str, float]
    """Of one hop."""
    usual_gradient: float = 1.5
    """S over `alone` in GB/s, for a gradient that is not known, in float32; latencies are within it."""
    at_half: float = 3.0
    """How many times as much it is in half precision."""
    of_gpu: Mapping[str, float] = field(default_factory=dict)
    """`PCIe/T4`: a factor on the efficiency of GPUs that were measured."""
    one_node: ResidualFit = NOTHING_KNOWN
    several_nodes: ResidualFit = NOTHING_KNOWN
    """What the formula misses on known machines, and how far it strays; a machine goes by the name of its GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeconds:
    """A step on a cluster, its 90 % interval, and what it spends on adding up gradients."""

    seconds: float
    low: float
    high: float
    sync_seconds: float
    limited_by: Literal["computing", "links inside a node", "network"]


def link_of(gpu: Gpu) -> Link:
    """Every fabric of a vendor's own counts as NVLink. An NVLink bridge joins pairs, and a node of more has PCIe."""
    return _link_called(gpu.interconnect)


@cache
def _link_called(interconnect: str) -> Link:
    own = "pcie" not in interconnect.lower() and "bridge" not in interconnect.lower()
    return "NVLink" if own else "PCIe"


@cache
def per_gpu_batch(global_batch: float, *, gpus: int) -> float:
    """Strong scaling: the batch of all GPUs stays, and each has its share. (Weak: each GPU keeps its own batch.)"""
    require_positive(global_batch=global_batch, gpus=gpus)
    return global_batch / gpus


def cluster_seconds(
    alone_seconds: float,
    *,
    gradient_bytes: float | None,
    gpu: Gpu,
    vm_type: VmType | None = None,
    gpus_per_node: int,
    nodes: int,
    fit: ScalingFit,
    measured: RingFit | None = None,
    half: bool = False,
) -> ClusterSeconds:
    """The step on `nodes` nodes of `gpus_per_node` GPUs, from the step of one GPU at the batch that each will have.

    `alone_seconds` is the caller's to give at that batch: the batch of all over all GPUs where that stays (strong
    scaling), the batch of one GPU where that stays (weak). `measured` is the same program's own fit on few GPUs of this
    machine: it then says what is sent and how far that hides. Of several nodes it is asked only if it has seen several:
    one node told so little of them that facts did better (docs/decisions/0083). But half of what facts miss on that
    node (the anchor of `scaling`) is carried on to several: T = T_facts · (T_measured / T_facts on one node)^½.
    """
    network = vm_type.network_gb_per_second if vm_type is not None else None
    cluster = Cluster(
        gradient_bytes=gradient_bytes,
        gpu=gpu,
        network_gb_per_second=network,
        gpus_per_node=gpus_per_node,
        nodes=nodes,
        fit=fit,
        half=half,
    )
    return cluster.seconds(alone_seconds, measured)


class Cluster:
    """`cluster_seconds` for many steps of one program: what does not go by the step on one GPU is reckoned once."""

    def __init__(
        self,
        *,
        gradient_bytes: float | None,
        gpu: Gpu,
        network_gb_per_second: float | None,
        gpus_per_node: int,
        nodes: int,
        fit: ScalingFit,
        half: bool = False,
    ) -> None:
        require_positive(gpus_per_node=gpus_per_node, nodes=nodes)
        self._placement = Placement(nodes=nodes, gpus=gpus_per_node * nodes)
        self._facts = fit, gradient_bytes, gpu, network_gb_per_second, gpus_per_node, nodes, half
        self._gradient_seconds = gradient_seconds(gradient_bytes, gpu)
        self._slowed_by = _slowed_by(fit, gpu, gpus_per_node, nodes)
        self._sent = None if gradient_bytes is None else _sent(1.0, *self._facts)

    def seconds(self, alone_seconds: float, measured: RingFit | None = None) -> ClusterSeconds:
        if not 0 < alone_seconds < math.inf:
            require_positive(alone_seconds=alone_seconds)
        fit, _, gpu, _, q, n, _ = self._facts
        if q * n == 1:
            return ClusterSeconds(
                seconds=alone_seconds, low=alone_seconds, high=alone_seconds, sync_seconds=0.0, limited_by="computing"
            )
        if measured is not None and (n == 1 or measured.seen_nodes > 1):
            parts = _measured_parts(measured, alone_seconds, q, n)
        else:
            sent = self._sent or _sent(alone_seconds, *self._facts)
            crowded, straggling = self._slowed_by
            parts = _Parts(alone_seconds * crowded * straggling, *sent)
            if measured is not None:
                _, gradient_bytes, _, network, _, _, half = self._facts
                parts = parts.times(_seen_on_a_node(measured, alone_seconds, fit, gradient_bytes, gpu, network, half))
        return _answer(parts, fit, gpu.name, self._placement, self._gradient_seconds)


def seconds_of(step: ClusterStep, fit: ScalingFit, measured: RingFit | None = None) -> ClusterSeconds:
    """What the fit says of a step that was measured. `measured` is the program's own fit to steps on one node."""
    parts = _parts_of(step, fit)
    if measured is not None and step.nodes > 1:
        facts = fit, step.gradient_bytes, step.gpu, step.network_gb_per_second, step.half
        parts = parts.times(_seen_on_a_node(measured, step.alone_seconds, *facts))
    return _answer(
        parts,
        fit,
        step.machine or step.gpu.name,
        Placement(nodes=step.nodes, gpus=step.gpus),
        gradient_seconds(step.gradient_bytes, step.gpu),
    )


class _Parts(NamedTuple):
    grad: float
    inside: float
    outside: float
    gamma: float

    @property
    def sync(self) -> float:
        return self.inside + self.outside

    @property
    def seconds(self) -> float:
        return overlapped_seconds(self.grad, self.inside + self.outside, self.gamma)

    @property
    def sync_share(self) -> float:
        sync = self.inside + self.outside
        return 1 / (1 + (self.grad / sync) ** self.gamma) if sync else 0.0

    def times(self, factor: float) -> "_Parts":
        return _Parts(self.grad * factor, self.inside * factor, self.outside * factor, self.gamma)


def _answer(parts: _Parts, fit: ScalingFit, machine: str, placement: Placement, gradient: float) -> ClusterSeconds:
    told = corrected(
        parts.seconds,
        placement,
        parts.sync_share,
        machine=machine,
        gradient_seconds=gradient,
        missed=fit.one_node if placement.nodes == 1 else fit.several_nodes,
    )
    grad, inside, outside, _ = parts
    largest = max(grad, inside, outside)
    return ClusterSeconds(
        seconds=told.seconds,
        low=told.low,
        high=told.high,
        sync_seconds=inside + outside,
        limited_by=("computing" if grad == largest else "network" if outside == largest else "links inside a node"),
    )


def _measured_parts(measured: RingFit, alone: float, q: int, n: int) -> _Parts:
    everywhere = Placement(nodes=n, gpus=q * n)
    inside = measured.sync_seconds(Placement(nodes=1, gpus=q))
    sync = measured.sync_seconds(everywhere)
    grad = alone * (1 + measured.crowding * (q - 1)) * (1 + measured.straggling * math.log(q * n))
    return _Parts(grad, min(inside, sync), max(sync - inside, 0.0), measured.gamma)


def _seen_on_a_node(
    measured: RingFit,
    alone: float,
    fit: ScalingFit,
    gradient_bytes: float | None,
    gpu: Gpu,
    network_gb_per_second: float | None,
    half: bool,
) -> float:
    """(T_measured / T_facts)^anchor on the most GPUs of one node that the program was measured on."""
    q = measured.seen_on_a_node
    if q == 1:
        return 1.0
    crowded, straggling = _slowed_by(fit, gpu, q, 1)
    sent = _sent(alone, fit, gradient_bytes, gpu, network_gb_per_second, q, 1, half)
    facts = _Parts(alone * crowded * straggling, *sent)
    return float((_measured_parts(measured, alone, q, 1).seconds / facts.seconds) ** SHIPPED.anchor)


def _slowed_by(fit: ScalingFit, gpu: Gpu, q: float, n: int) -> tuple[float, float]:
    """The two factors on `alone` that make G of the formula: crowding and straggling."""
    return 1 + fit.crowding[link_of(gpu)] * (q - 1), 1 + fit.straggling * math.log(q * n)


def _sent(
    alone: float,
    fit: ScalingFit,
    gradient_bytes: float | None,
    gpu: Gpu,
    network_gb_per_second: float | None,
    q: float,
    n: int,
    half: bool,
) -> tuple[float, float, float]:
    """Y_in, Y_out and γ of the formula; `alone` counts only where the gradient is not known."""
    inside = link_of(gpu)

    def transfer(link: Link, gb_per_second: float) -> tuple[float, float]:
        """S/(e·B) and the latency of a hop."""
        reached = fit.efficiency[link] * fit.of_gpu.get(f"{link}/{gpu.name}", 1.0) * gb_per_second
        if gradient_bytes is None:
            return fit.usual_gradient * (fit.at_half if half else 1.0) * alone / reached, 0.0
        return gradient_bytes / (reached * 1e9), fit.latency_seconds[link]

    within, hop = transfer(inside, gpu.interconnect_gb_per_second)
    y_in = 2 * (q - 1) / q * within + 2 * (q - 1) * hop
    if n == 1:
        return y_in, 0.0, fit.gamma[inside]
    across, hop = transfer("network", network_gb_per_second or UNKNOWN_NETWORK_GB_PER_SECOND)
    y_out = 2 * across * ((n - 1) / n + fit.pressing * (q - 1) / q / (n - 1)) + 2 * (n - 1) * hop
    return y_in, y_out, fit.gamma["network"]


def _parts_of(step: ClusterStep, fit: ScalingFit) -> _Parts:
    q, n, network = step.gpus / step.nodes, step.nodes, step.network_gb_per_second
    sent = _sent(step.alone_seconds, fit, step.gradient_bytes, step.gpu, network, q, n, step.half)
    crowded, straggling = _slowed_by(fit, step.gpu, q, n)
    return _Parts(step.alone_seconds * crowded * straggling, *sent)


_PRIOR = {
    "gamma NVLink": 1.5,
    "gamma PCIe": 1.5,
    "gamma network": 1.5,
    "straggling": 0.01,
    "pressing": 1.0,
    "crowding NVLink": 0.01,
    "crowding PCIe": 0.01,
    "efficiency NVLink": 0.2,
    "efficiency PCIe": 0.15,
    "efficiency network": 0.2,
    "latency NVLink": 3e-5,
    "latency PCIe": 1e-4,
    "latency network": 5e-4,
    "usual gradient": 1.0,
    "at half": 2.0,
}
"""Where nothing is measured, and, held loosely, where something is: orders of magnitude, not findings."""

_PULL = 0.02
_PULL_OF_GPU = 0.02
"""In units of the mean squared log error: how hard a coefficient is held to its prior, and a GPU's factor to 1."""

_MOST_STEPS = 40
"""Of a program on a GPU: the rest would only repeat."""


def fit_links(steps: Sequence[ClusterStep], *, folds: int = 5) -> ScalingFit:
    """IdealPoint squares of log T, each program weighing the same, robust to a few wild steps; then what that misses.

    Misses and intervals come from families that were left out of a fit, in `folds` turns.
    """
    several = [step for step in steps if step.gpus > 1]
    if not several:
        raise ValueError("steps of one GPU alone say nothing of several: add a step on two at least")
    return _with_misses(_fit(several), several, folds)


def _fit(steps: Sequence[ClusterStep]) -> ScalingFit:
    import numpy as np
    from scipy.optimize import least_squares

    columns = _Columns.of(_thinned(steps))
    names = columns.names[:-1]
    start = np.array([_free(name, _PRIOR.get(name, 1.0)) for name in names])
    pulls = _SCALE * np.sqrt([_PULL if name in _PRIOR else _PULL_OF_GPU for name in names])
    gammas = np.array([name.startswith("gamma") for name in names])

    def coefficients(theta: "np.ndarray") -> "np.ndarray":
        found = np.exp(np.clip(theta, -30, 30))
        return np.append(np.where(gammas, np.minimum(1 + found, 10), found), 1.0)

    def residuals(theta: "np.ndarray") -> "np.ndarray":
        missed = (columns.log_of(coefficients(theta)) - columns.log_seconds) / _SCALE
        # soft_l1 by hand, so that the pulls stay quadratic
        robust = np.sign(missed) * np.sqrt(2 * (np.sqrt(1 + missed**2) - 1)) * _SCALE
        return np.concatenate([columns.weights * robust, pulls * (theta - start)])

    found = least_squares(residuals, start, method="lm", max_nfev=60 * len(start), ftol=1e-6, xtol=1e-6)
    return _as_fit(dict(zip(names, coefficients(found.x).tolist(), strict=False)))


def _free(name: str, value: float) -> float:
    """A number that may be anything: the logarithm, for γ of what is above 1."""
    return math.log(value - 1 if name.startswith("gamma") else value)


_CALM = 4.0
"""Of a step that is all computing the interval is half as wide, in logs, as of one that is all sending."""

_NONE = "none"

_SCALE = 0.1
"""A log error beyond this counts linearly."""


def _as_fit(found: Mapping[str, float]) -> ScalingFit:
    def by_link(what: str, links: Sequence[str]) -> dict[str, float]:
        return {link: found[f"{what} {link}"] for link in links}

    return ScalingFit(
        gamma=by_link("gamma", _LINKS),
        straggling=found["straggling"],
        pressing=found["pressing"],
        crowding=by_link("crowding", _INSIDE),
        efficiency=by_link("efficiency", _LINKS),
        latency_seconds=by_link("latency", _LINKS),
        usual_gradient=found["usual gradient"],
        at_half=found["at half"],
        of_gpu={name: value for name, value in found.items() if "/" in name},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The steps as arrays; `seconds_of` is the same formula for one of them."""

    names: Sequence[str]
    """Of the coefficients, and one that is none."""
    places: Mapping[str, "np.ndarray"]
    """Of each step's own coefficient among them."""
    alone: "np.ndarray"
    gradient: "np.ndarray"
    """0 where it is not known."""
    b_in: "np.ndarray"
    b_out: "np.ndarray"
    q: "np.ndarray"
    n: "np.ndarray"
    half: "np.ndarray"
    log_seconds: "np.ndarray"
    weights: "np.ndarray"

    @staticmethod
    def of(steps: Sequence[ClusterStep]) -> "_Columns":
        import numpy as np

        def column(values: Sequence[float]) -> "np.ndarray":
            return np.array(values, dtype=float)

        rows: Counter[tuple[str, str]] = Counter((step.program, step.gpu.name) for step in steps)
        alike = {
            f"{link}/{step.gpu.name}"
            for step in steps
            for link in ((link_of(step.gpu), "network") if step.nodes > 1 else (link_of(step.gpu),))
            if step.gradient_bytes is not None
        }
        # The last is no coefficient: 1, for steps that have no factor of their own
        names = [*_PRIOR, *sorted(alike), _NONE]
        place = {name: i for i, name in enumerate(names)}
        wanted = {
            **{what: [f"{what} {link_of(s.gpu)}" for s in steps] for what in ("crowding", "efficiency", "latency")},
            "gamma": ["gamma network" if s.nodes > 1 else f"gamma {link_of(s.gpu)}" for s in steps],
            "own": [f"{link_of(step.gpu)}/{step.gpu.name}" for step in steps],
            "own network": [f"network/{step.gpu.name}" for step in steps],
        }
        return _Columns(
            names=names,
            places={
                what: np.array([place.get(name, len(place) - 1) for name in found]) for what, found in wanted.items()
            },
            alone=column([step.alone_seconds for step in steps]),
            gradient=column([step.gradient_bytes or 0.0 for step in steps]),
            b_in=column([step.gpu.interconnect_gb_per_second * 1e9 for step in steps]),
            b_out=column([(step.network_gb_per_second or UNKNOWN_NETWORK_GB_PER_SECOND) * 1e9 for step in steps]),
            q=column([step.gpus / step.nodes for step in steps]),
            n=column([step.nodes for step in steps]),
            half=np.array([step.half for step in steps]),
            log_seconds=np.log([step.seconds for step in steps]),
            weights=column([1 / math.sqrt(rows[step.program, step.gpu.name] * len(rows)) for step in steps]),
        )

    def log_of(self, coefficients: "np.ndarray") -> "np.ndarray":
        import numpy as np

        c = dict(zip(self.names, coefficients, strict=True))
        of = {what: coefficients[places] for what, places in self.places.items()}
        known, q, n = self.gradient > 0, self.q, self.n
        usual = c["usual gradient"] * 1e9 * np.where(self.half, c["at half"], 1.0) * self.alone
        sent = np.where(known, self.gradient, usual)
        t_in = sent / (of["efficiency"] * of["own"] * self.b_in)
        t_out = sent / (c["efficiency network"] * of["own network"] * self.b_out)
        grad = self.alone * (1 + of["crowding"] * (q - 1)) * (1 + c["straggling"] * np.log(q * n))
        y_in = 2 * (q - 1) / q * t_in + 2 * (q - 1) * known * of["latency"]
        pressed = np.where(n > 1, c["pressing"] * (q - 1) / q / np.maximum(n - 1, 1), 0.0)
        y = y_in + 2 * t_out * ((n - 1) / n + pressed) + 2 * (n - 1) * known * c["latency network"]
        longer, shorter = np.maximum(grad, y), np.minimum(grad, y)
        told: np.ndarray = np.log(longer) + np.log1p((shorter / longer) ** of["gamma"]) / of["gamma"]
        return told


def _thinned(steps: Sequence[ClusterStep]) -> list[ClusterStep]:
    """Evenly picked from each program and GPU, in their order."""
    by_program: dict[tuple[str, str], list[ClusterStep]] = defaultdict(list)
    for step in steps:
        by_program[step.program, step.gpu.name].append(step)
    return [own[i] for own in by_program.values() for i in range(0, len(own), -(-len(own) // _MOST_STEPS))]


def _with_misses(fit: ScalingFit, steps: Sequence[ClusterStep], folds: int) -> ScalingFit:
    families = sorted({step.family for step in steps})
    misses: list[Residual] = []
    for fold in range(min(folds, len(families)) if len(families) > 1 else 0):
        left_out = set(families[fold::folds])
        without = _fit([step for step in steps if step.family not in left_out])
        misses += [_miss(step, without) for step in steps if step.family in left_out]
    return replace(
        fit,
        one_node=fit_residuals([miss for miss in misses if miss.placement.nodes == 1], pulls=(), calm=_CALM),
        several_nodes=fit_residuals([miss for miss in misses if miss.placement.nodes > 1], pulls=(), calm=_CALM),
    )


def _miss(step: ClusterStep, fit: ScalingFit) -> Residual:
    parts = _parts_of(step, fit)
    return Residual(
        program=step.program,
        family=step.family,
        machine=step.machine or step.gpu.name,
        placement=Placement(nodes=step.nodes, gpus=step.gpus),
        sync_share=parts.sync_share,
        gradient_share=gradient_seconds(step.gradient_bytes, step.gpu) / parts.seconds,
        log_miss=math.log(step.seconds / parts.seconds),
    )

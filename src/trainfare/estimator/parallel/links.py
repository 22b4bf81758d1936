"""Step time on a cluster that was not measured, from the step on one GPU, the gradient and facts of the links.

    T     = (G^γ + Y^γ)^(1/γ)                              γ ≥ 1: the overlap of sending and computing
    G     = t₁ · (1 + crowding·(q − 1)) · (1 + straggling·ln K)
    Y     = Y_in + Y_out
    Y_in  = 2(q−1)/q · S/(e·B) + 2(q−1)·latency            a ring of the q GPUs of a node, over NVLink or PCIe
    Y_out = (2(n−1)/n + pressing·2(q−1)/q/(n−1)) · S/(e·B) + 2(n−1)·latency        a ring of n nodes, over the network

with t₁ the step on one GPU, K = q·n GPUs, S the bytes of the gradient, B the nominal bandwidth and e the share of it
that is reached. The GPUs of one node share the network link of their host; the 1/(n − 1) is empirical, as in `ring.py`.
The parameters that all programs share (γ, crowding, straggling, e of each kind of link, latencies, pressing) are fitted
to programs whose steps were measured on one GPU and on several. A GPU among them has its own factor on e, regularised
to 1, because servers with the same GPU are wired in the same way. Where S is not known it is the typical one for a step
of that length, S = typical · t₁, and more in half precision, which computes faster and sends as much.

One process that drives several GPUs (`DataParallel`) has the same form with other constants and needs its own fit.

Limits: all nodes are equal and their GPUs evenly spread; input pipelines that starve, gradient compression, sharded
optimisers and pipeline parallelism are not modelled.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainfare.estimator.parallel.link_residuals import (
    MAX_CORRECTION,
    NO_CORRECTIONS,
    PlacementResidual,
    Residual,
    ResidualFit,
    fit_residuals,
    gradient_seconds,
)
from trainfare.estimator.parallel.ring import DEFAULT_RING_SETTINGS, GpuPlacement, RingFit, overlapped_seconds
from trainfare.model.checks import require_positive, require_text
from trainfare.model.machine import Gpu, VmType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Link = Literal["NVLink", "PCIe", "network"]

UNKNOWN_NETWORK_GB_PER_SECOND = 1.25
"""10 Gbit/s, which most machines with a GPU have at least; used where the catalog does not state it."""

HALF_DTYPES = ("float16", "bfloat16")

_LINKS: tuple[Link, ...] = ("NVLink", "PCIe", "network")
_INSIDE: tuple[Link, ...] = ("NVLink", "PCIe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStep:
    """A step measured on several GPUs, and the step of the same program on one GPU at the same batch per GPU."""

    program: str
    family: str
    gpu: Gpu
    gpus: int
    nodes: int
    single_gpu_seconds: float
    seconds: float
    gradient_bytes: float | None = None
    """The value is None if it is not known, or if `seconds` are not those of a complete step."""
    network_gb_per_second: float | None = None
    machine: str | None = None
    """Distinguishes machines with the same GPU; by default the name of the GPU."""
    half: bool = False
    """True for a program that computes in half precision."""

    def __post_init__(self) -> None:
        require_text(program=self.program, family=self.family)
        require_positive(gpus=self.gpus, nodes=self.nodes)
        require_positive(single_gpu_seconds=self.single_gpu_seconds, seconds=self.seconds)
        require_positive(gradient_bytes=self.gradient_bytes, network_gb_per_second=self.network_gb_per_second)
        if self.gpus < self.nodes:
            raise ValueError(f"{self.nodes} nodes need at least as many GPUs, got {self.gpus}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """The parameters that all programs share, by kind of link."""

    gamma: Mapping[str, float]
    """By the slowest kind of link in use: the network, if there is more than one node."""
    straggling: float
    pressing: float
    crowding: Mapping[str, float]
    efficiency: Mapping[str, float]
    """Share of the nominal bandwidth that is reached."""
    latency_seconds: Mapping[str, float]
    """Latency of one hop."""
    typical_gradient: float = 1.5
    """S over t₁ in GB/s in float32, for a gradient that is not known; it includes latencies."""
    half_factor: float = 3.0
    """The factor on it in half precision."""
    gpu_factors: Mapping[str, float] = field(default_factory=dict)
    """A factor on the efficiency of GPUs that were measured, by a key such as `PCIe/T4`."""
    one_node: ResidualFit = NO_CORRECTIONS
    several_nodes: ResidualFit = NO_CORRECTIONS
    """Corrections on known machines, and the interval; a machine has the name of its GPU."""

    def residual(self, machine: str, placement: GpuPlacement) -> PlacementResidual:
        """The correction of a machine at a placement."""
        return (self.one_node if placement.nodes == 1 else self.several_nodes).at(machine, placement)


class ClusterSeconds(NamedTuple):
    """A step on a cluster, its 90% interval, and the time of adding up gradients."""

    seconds: float
    low: float
    high: float
    sync_seconds: float
    limited_by: Literal["computing", "links inside a node", "network"]


def link_of(gpu: Gpu) -> Link:
    """The kind of link between GPUs of a node.

    A vendor's own fabric counts as NVLink. An NVLink bridge joins only pairs, so a larger node uses PCIe.
    """
    return _link_called(gpu.interconnect)


@cache
def _link_called(interconnect: str) -> Link:
    own = "pcie" not in interconnect.lower() and "bridge" not in interconnect.lower()
    return "NVLink" if own else "PCIe"


def cluster_seconds(
    single_gpu_seconds: float,
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

    `single_gpu_seconds` is the time at that batch: the global batch over all GPUs under strong scaling, the batch of
    one GPU under weak scaling. `measured` is the program's own fit on few GPUs of this machine; it then gives the time
    of sending and its overlap. It is used for several nodes only if it was fitted to several: one node predicts them
    so badly that facts did better (docs/decisions/0083). But half of the error of facts on that node (the anchor of
    `ring.py`) is applied to several nodes: T = T_facts · (T_measured / T_facts on one node)^½.
    """
    network = vm_type.network_gb_per_second if vm_type is not None else None
    cluster = ClusterPredictor(
        gradient_bytes=gradient_bytes,
        gpu=gpu,
        network_gb_per_second=network,
        gpus_per_node=gpus_per_node,
        nodes=nodes,
        fit=fit,
        half=half,
    )
    return cluster.seconds(single_gpu_seconds, measured)


class ClusterPredictor:
    """`cluster_seconds` for many steps of one program; terms without the step on one GPU are computed once."""

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
        placement = GpuPlacement(nodes=nodes, gpus=gpus_per_node * nodes)
        self._residual = fit.residual(gpu.name, placement)
        self._facts = _ClusterFacts(fit, gradient_bytes, gpu, network_gb_per_second, gpus_per_node, nodes, half)
        self._gradient_seconds = gradient_seconds(gradient_bytes, gpu)
        self._slowdown = self._facts.slowdown()
        self._sync_terms = None if gradient_bytes is None else self._facts.sync_terms(1.0)

    def terms(self) -> tuple[float, ...]:
        """The numbers of `cluster_steps`: G/t₁; Y_in + Y_out, γ, and 1 if that sum is one of t₁ = 1; the residual."""
        crowding, straggling = self._slowdown
        inside, outside, gamma = self._sync_terms or self._facts.sync_terms(1.0)
        grows = float(self._sync_terms is None)
        return crowding * straggling, inside + outside, gamma, grows, *self._residual, self._gradient_seconds

    def seconds(self, single_gpu_seconds: float, measured: RingFit | None = None) -> ClusterSeconds:
        if not 0 < single_gpu_seconds < math.inf:
            require_positive(single_gpu_seconds=single_gpu_seconds)
        t1, facts = single_gpu_seconds, self._facts
        if facts.q * facts.n == 1:
            return ClusterSeconds(seconds=t1, low=t1, high=t1, sync_seconds=0.0, limited_by="computing")
        if measured is not None and (facts.n == 1 or measured.max_measured_nodes > 1):
            parts = _measured_parts(measured, t1, facts.q, facts.n)
        else:
            terms = self._sync_terms or facts.sync_terms(t1)
            crowding, straggling = self._slowdown
            parts = _StepParts(t1 * crowding * straggling, *terms)
            if measured is not None:
                parts = parts.scaled(_one_node_correction(measured, t1, facts))
        return _corrected(parts, self._residual, self._gradient_seconds)


def cluster_steps(
    single_gpu_seconds: "Floats", clusters: Sequence[ClusterPredictor]
) -> "tuple[Floats, Floats, Floats]":
    """`ClusterPredictor.seconds` of many clusters of several GPUs, without rings that were measured: the seconds, and
    the low and the high ends."""
    import numpy as np

    numbers = np.array([cluster.terms() for cluster in clusters]).reshape(-1, 9).T
    slowdown, sync, gamma, grows, on_sync, on_gradient, spread, base_width, gradient = numbers
    grad, sync = single_gpu_seconds * slowdown, sync * np.where(grows, single_gpu_seconds, 1.0)
    longer, shorter = np.maximum(grad, sync), np.minimum(grad, sync)
    bare = longer * (1 + (shorter / longer) ** gamma) ** (1 / gamma)
    share = np.where(sync > 0, 1 / (1 + (grad / np.where(sync > 0, sync, 1.0)) ** gamma), 0.0)
    correction = np.clip(on_sync * share + on_gradient * gradient / bare, -MAX_CORRECTION, MAX_CORRECTION)
    seconds, factor = bare * np.exp(correction), np.exp(spread * (base_width + share) / (base_width + 1))
    return seconds, seconds / factor, seconds * factor


def predict_cluster_step(step: ClusterStep, fit: ScalingFit, measured: RingFit | None = None) -> ClusterSeconds:
    """The prediction for a step that was measured. `measured` is the program's own fit to steps on one node."""
    facts = _step_facts(step, fit)
    parts = facts.parts(step.single_gpu_seconds)
    if measured is not None and step.nodes > 1:
        parts = parts.scaled(_one_node_correction(measured, step.single_gpu_seconds, facts))
    residual = fit.residual(step.machine or step.gpu.name, GpuPlacement(nodes=step.nodes, gpus=step.gpus))
    return _corrected(parts, residual, gradient_seconds(step.gradient_bytes, step.gpu))


class _StepParts(NamedTuple):
    """G, Y_in, Y_out and γ of the formula."""

    grad: float
    inside: float
    outside: float
    gamma: float

    @property
    def seconds(self) -> float:
        return overlapped_seconds(self.grad, self.inside + self.outside, self.gamma)

    @property
    def sync_share(self) -> float:
        """The elasticity of the step to the time of sending."""
        sync = self.inside + self.outside
        return 1 / (1 + (self.grad / sync) ** self.gamma) if sync else 0.0

    def scaled(self, factor: float) -> "_StepParts":
        return _StepParts(self.grad * factor, self.inside * factor, self.outside * factor, self.gamma)


class _ClusterFacts(NamedTuple):
    """Everything that the formula needs but the step on one GPU."""

    fit: ScalingFit
    gradient_bytes: float | None
    gpu: Gpu
    network_gb_per_second: float | None
    q: float
    n: int
    half: bool

    def parts(self, single_gpu_seconds: float) -> _StepParts:
        crowding, straggling = self.slowdown()
        return _StepParts(single_gpu_seconds * crowding * straggling, *self.sync_terms(single_gpu_seconds))

    def slowdown(self) -> tuple[float, float]:
        """The two factors of G/t₁ in the formula: crowding and straggling."""
        crowding = 1 + self.fit.crowding[link_of(self.gpu)] * (self.q - 1)
        return crowding, 1 + self.fit.straggling * math.log(self.q * self.n)

    def sync_terms(self, single_gpu_seconds: float) -> tuple[float, float, float]:
        """Y_in, Y_out and γ of the formula; `single_gpu_seconds` counts only where the gradient is not known."""
        fit, q, n, inside = self.fit, self.q, self.n, link_of(self.gpu)
        within, hop = self._transfer(inside, self.gpu.interconnect_gb_per_second, single_gpu_seconds)
        y_in = 2 * (q - 1) / q * within + 2 * (q - 1) * hop
        if n == 1:
            return y_in, 0.0, fit.gamma[inside]
        network = self.network_gb_per_second or UNKNOWN_NETWORK_GB_PER_SECOND
        across, hop = self._transfer("network", network, single_gpu_seconds)
        y_out = 2 * across * ((n - 1) / n + fit.pressing * (q - 1) / q / (n - 1)) + 2 * (n - 1) * hop
        return y_in, y_out, fit.gamma["network"]

    def _transfer(self, link: Link, gb_per_second: float, single_gpu_seconds: float) -> tuple[float, float]:
        """S/(e·B) and the latency of a hop."""
        fit = self.fit
        reached = fit.efficiency[link] * fit.gpu_factors.get(f"{link}/{self.gpu.name}", 1.0) * gb_per_second
        if self.gradient_bytes is None:
            typical = fit.typical_gradient * (fit.half_factor if self.half else 1.0)
            return typical * single_gpu_seconds / reached, 0.0
        return self.gradient_bytes / (reached * 1e9), fit.latency_seconds[link]


def _step_facts(step: ClusterStep, fit: ScalingFit) -> _ClusterFacts:
    q = step.gpus / step.nodes
    return _ClusterFacts(fit, step.gradient_bytes, step.gpu, step.network_gb_per_second, q, step.nodes, step.half)


def _corrected(parts: _StepParts, residual: PlacementResidual, gradient: float) -> ClusterSeconds:
    step = residual.correct(parts.seconds, parts.sync_share, gradient)
    grad, inside, outside, _ = parts
    largest = max(grad, inside, outside)
    return ClusterSeconds(
        seconds=step.seconds,
        low=step.low,
        high=step.high,
        sync_seconds=inside + outside,
        limited_by=("computing" if grad == largest else "network" if outside == largest else "links inside a node"),
    )


def _measured_parts(measured: RingFit, single_gpu_seconds: float, q: float, n: int) -> _StepParts:
    gpus_on_node = round(q)
    everywhere = GpuPlacement(nodes=n, gpus=gpus_on_node * n)
    inside = measured.sync_seconds(GpuPlacement(nodes=1, gpus=gpus_on_node))
    sync = measured.sync_seconds(everywhere)
    gradient = single_gpu_seconds * (1 + measured.crowding * (q - 1)) * (1 + measured.straggling * math.log(q * n))
    return _StepParts(gradient, min(inside, sync), max(sync - inside, 0.0), measured.gamma)


def _one_node_correction(measured: RingFit, single_gpu_seconds: float, facts: _ClusterFacts) -> float:
    """(T_measured / T_facts)^anchor on the largest number of GPUs of one node on which the program was measured."""
    q = measured.max_gpus_on_one_node
    if q == 1:
        return 1.0
    by_facts = facts._replace(q=q, n=1).parts(single_gpu_seconds).seconds
    by_measurement = _measured_parts(measured, single_gpu_seconds, q, 1).seconds
    return float((by_measurement / by_facts) ** DEFAULT_RING_SETTINGS.anchor)


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
    "typical gradient": 1.0,
    "half factor": 2.0,
}
"""Orders of magnitude, to which the fit is weakly regularised."""

_PENALTY = 0.02
_PENALTY_OF_GPU = 0.02
"""Weights of the distance of a coefficient from its prior, and of a GPU's factor from 1, in units of the mean squared
log error."""

_MAX_STEPS = 40
"""Steps of one program on one GPU that are used; more would be redundant."""


def fit_links(steps: Sequence[ClusterStep], *, folds: int = 5) -> ScalingFit:
    """Robust least squares of log T, each program weighing the same, then the residuals of left-out families.

    Residuals and intervals come from families that were left out of the fit, in `folds` turns.
    """
    several = [step for step in steps if step.gpus > 1]
    if not several:
        raise ValueError("steps on one GPU do not predict several: add a step on at least two GPUs")
    return _with_residuals(_fit(several), several, folds)


def _fit(steps: Sequence[ClusterStep]) -> ScalingFit:
    import numpy as np
    from scipy.optimize import least_squares

    columns = _StepColumns.of(_thinned(steps))
    names = columns.names[:-1]
    start = np.array([_unbounded(name, _PRIOR.get(name, 1.0)) for name in names])
    penalties = _OUTLIER * np.sqrt([_PENALTY if name in _PRIOR else _PENALTY_OF_GPU for name in names])
    gammas = np.array([name.startswith("gamma") for name in names])

    def coefficients(theta: "np.ndarray") -> "np.ndarray":
        values = np.exp(np.clip(theta, -30, 30))
        return np.append(np.where(gammas, np.minimum(1 + values, 10), values), 1.0)

    def residuals(theta: "np.ndarray") -> "np.ndarray":
        errors = (columns.log_step(coefficients(theta)) - columns.log_seconds) / _OUTLIER
        # The soft-l1 loss of the errors alone, so that the penalties stay quadratic.
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1)) * _OUTLIER
        return np.concatenate([columns.weights * robust, penalties * (theta - start)])

    result = least_squares(residuals, start, method="lm", max_nfev=60 * len(start), ftol=1e-6, xtol=1e-6)
    return _as_fit(dict(zip(names, coefficients(result.x).tolist(), strict=False)))


def _unbounded(name: str, value: float) -> float:
    """The parameter of the fit for a coefficient: its logarithm, or that of γ − 1."""
    return math.log(value - 1 if name.startswith("gamma") else value)


_BASE_WIDTH = 4.0
"""`ResidualFit.base_width`: the interval of a step that only computes is 80% as wide, in logs, as that of one that only
sends."""

_NONE = "none"

_OUTLIER = 0.1
"""A log error above this counts linearly."""


def _as_fit(values: Mapping[str, float]) -> ScalingFit:
    def by_link(what: str, links: Sequence[str]) -> dict[str, float]:
        return {link: values[f"{what} {link}"] for link in links}

    return ScalingFit(
        gamma=by_link("gamma", _LINKS),
        straggling=values["straggling"],
        pressing=values["pressing"],
        crowding=by_link("crowding", _INSIDE),
        efficiency=by_link("efficiency", _LINKS),
        latency_seconds=by_link("latency", _LINKS),
        typical_gradient=values["typical gradient"],
        half_factor=values["half factor"],
        gpu_factors={name: value for name, value in values.items() if "/" in name},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepColumns:
    """Steps as arrays; `log_step` is the formula of `predict_cluster_step` for all of them."""

    names: Sequence[str]
    """Names of the coefficients, and a last one for steps without a factor of their own."""
    places: Mapping[str, "np.ndarray"]
    """The index of each step's own coefficient in `names`, by its role."""
    on_one_gpu: "np.ndarray"
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
    def of(steps: Sequence[ClusterStep]) -> "_StepColumns":
        import numpy as np

        def column(values: Sequence[float]) -> "np.ndarray":
            return np.array(values, dtype=float)

        rows: Counter[tuple[str, str]] = Counter((step.program, step.gpu.name) for step in steps)
        gpu_factors = {
            f"{link}/{step.gpu.name}"
            for step in steps
            for link in ((link_of(step.gpu), "network") if step.nodes > 1 else (link_of(step.gpu),))
            if step.gradient_bytes is not None
        }
        # The last is always 1, for steps without a factor of their own.
        names = [*_PRIOR, *sorted(gpu_factors), _NONE]
        place = {name: i for i, name in enumerate(names)}
        by_role = {
            **{what: [f"{what} {link_of(s.gpu)}" for s in steps] for what in ("crowding", "efficiency", "latency")},
            "gamma": ["gamma network" if s.nodes > 1 else f"gamma {link_of(s.gpu)}" for s in steps],
            "own": [f"{link_of(step.gpu)}/{step.gpu.name}" for step in steps],
            "own network": [f"network/{step.gpu.name}" for step in steps],
        }
        return _StepColumns(
            names=names,
            places={
                role: np.array([place.get(name, len(place) - 1) for name in wanted]) for role, wanted in by_role.items()
            },
            on_one_gpu=column([step.single_gpu_seconds for step in steps]),
            gradient=column([step.gradient_bytes or 0.0 for step in steps]),
            b_in=column([step.gpu.interconnect_gb_per_second * 1e9 for step in steps]),
            b_out=column([(step.network_gb_per_second or UNKNOWN_NETWORK_GB_PER_SECOND) * 1e9 for step in steps]),
            q=column([step.gpus / step.nodes for step in steps]),
            n=column([step.nodes for step in steps]),
            half=np.array([step.half for step in steps]),
            log_seconds=np.log([step.seconds for step in steps]),
            weights=column([1 / math.sqrt(rows[step.program, step.gpu.name] * len(rows)) for step in steps]),
        )

    def log_step(self, coefficients: "np.ndarray") -> "np.ndarray":
        import numpy as np

        c = dict(zip(self.names, coefficients, strict=True))
        of = {role: coefficients[places] for role, places in self.places.items()}
        known, q, n = self.gradient > 0, self.q, self.n
        typical = c["typical gradient"] * 1e9 * np.where(self.half, c["half factor"], 1.0) * self.on_one_gpu
        sent = np.where(known, self.gradient, typical)
        t_in = sent / (of["efficiency"] * of["own"] * self.b_in)
        t_out = sent / (c["efficiency network"] * of["own network"] * self.b_out)
        grad = self.on_one_gpu * (1 + of["crowding"] * (q - 1)) * (1 + c["straggling"] * np.log(q * n))
        y_in = 2 * (q - 1) / q * t_in + 2 * (q - 1) * known * of["latency"]
        pressed = np.where(n > 1, c["pressing"] * (q - 1) / q / np.maximum(n - 1, 1), 0.0)
        y = y_in + 2 * t_out * ((n - 1) / n + pressed) + 2 * (n - 1) * known * c["latency network"]
        longer, shorter = np.maximum(grad, y), np.minimum(grad, y)
        log_seconds: np.ndarray = np.log(longer) + np.log1p((shorter / longer) ** of["gamma"]) / of["gamma"]
        return log_seconds


def _thinned(steps: Sequence[ClusterStep]) -> list[ClusterStep]:
    """At most `_MAX_STEPS` steps of each program and GPU, evenly spaced in their order."""
    by_program: dict[tuple[str, str], list[ClusterStep]] = defaultdict(list)
    for step in steps:
        by_program[step.program, step.gpu.name].append(step)
    return [own[i] for own in by_program.values() for i in range(0, len(own), -(-len(own) // _MAX_STEPS))]


def _with_residuals(fit: ScalingFit, steps: Sequence[ClusterStep], folds: int) -> ScalingFit:
    families = sorted({step.family for step in steps})
    residuals: list[Residual] = []
    for fold in range(min(folds, len(families)) if len(families) > 1 else 0):
        left_out = set(families[fold::folds])
        without = _fit([step for step in steps if step.family not in left_out])
        residuals += [_step_residual(step, without) for step in steps if step.family in left_out]
    one_node = [residual for residual in residuals if residual.placement.nodes == 1]
    several_nodes = [residual for residual in residuals if residual.placement.nodes > 1]
    return replace(
        fit,
        one_node=fit_residuals(one_node, penalties=(), base_width=_BASE_WIDTH),
        several_nodes=fit_residuals(several_nodes, penalties=(), base_width=_BASE_WIDTH),
    )


def _step_residual(step: ClusterStep, fit: ScalingFit) -> Residual:
    parts = _step_facts(step, fit).parts(step.single_gpu_seconds)
    return Residual(
        program=step.program,
        family=step.family,
        machine=step.machine or step.gpu.name,
        placement=GpuPlacement(nodes=step.nodes, gpus=step.gpus),
        sync_share=parts.sync_share,
        gradient_share=gradient_seconds(step.gradient_bytes, step.gpu) / parts.seconds,
        log_residual=math.log(step.seconds / parts.seconds),
    )

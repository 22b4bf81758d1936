"""Time of one iteration on one GPU, from the operations that it launches: physics first, fitted near its prior.

    D = Σ_j c_j · x_j · e_(gpu, sort of j)          the device; x_j of `kernels.py`
    H = h · Σ_k a_k · launches_k                    the host, which launches every kernel
    t = max((D^γ + H^γ)^(1/γ) · exp(ρ), roofline)   they overlap: the slower one decides

c_j is how much slower real kernels are than their arithmetic or their traffic; e what a GPU reaches of its nominal
figures, for memory, tensor cores and ordinary cores apart; h the time of a launch on a host. All of them have a
prior, and what is fitted is the factor θ on it:

    minimise Σ_i w_i (log t_i − log y_i)² + Σ_k λ_k² (θ_k − 1)²,  θ ≥ 0

by non-negative least squares on the line through the last point, with Huber's weights w. Kernels that are rare in
what was measured so stay at their prior, and a GPU that was not measured has e = 1. ρ is what programs alike in
their shares of kernels missed by, by kernel ridge; it fades to 0 far from all of them and never passes ±0.25 (twice
that on a GPU whose own programs are known).

Limits: kernels of PyTorch with cuDNN, tensors in channels-first order. Networks compiled into fused kernels, and
frameworks that choose other kernels, are only as well known as their operations resemble these.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.fitting.conformal import conformal_factor, typical_factor
from trainfare.estimator.gpu.kernels import (
    FEATURES,
    HOST,
    HOST_PRIORS,
    IS_COMPUTE,
    PRIORS,
    SLOWER,
    IterationWork,
    Rates,
    features,
    iteration_work,
    roofline,
)
from trainfare.model.estimate import Bottleneck
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation

Array = NDArray[np.float64]
Places = NDArray[np.int64]

LAUNCH_SECONDS: Final = 12e-6
"""Prior: what PyTorch needs to launch a kernel from Python."""
OVERLAP: Final = 1.5
"""γ."""

KERNEL_PENALTY: Final = 0.3
"""λ of the coefficients; next those of what a GPU reaches, of a host, and of all hosts. Chosen in sight of the data."""
REACH_PENALTY: Final = 0.5
HOST_PENALTY: Final = 0.4
LAUNCH_PENALTY: Final = 0.05
HUBER: Final = 0.08
ROUNDS: Final = 8

RESIDUAL_LENGTH: Final = 0.09
ON_ONE_GPU: Final = 0.3
"""The length where few programs on one GPU must speak for all."""
RESIDUAL_NOISE: Final = 0.3
MOST_RESIDUAL: Final = 0.25
MOST_LEARNT: Final = 0.3
NEAR: Final = math.exp(-(0.12**2) / (2 * RESIDUAL_LENGTH**2))
"""As near as this, with shares that lie 0.12 apart, a program is as well known as a relative of a measured one."""
UNFAMILIAR: Final = 0.1
ALIKE: Final = 0.8
"""So much of what is missed on one GPU is missed on another."""
ENOUGH_PROGRAMS: Final = 9
"""From here on nine tenths of them, and one to spare, are fewer than all."""
FOLDS: Final = 10
FAMILIAR_SHARE: Final = 0.03
"""A feature that was nowhere more of the time than this has no measurements behind it."""

# Sorts of features that a GPU may reach more or less of.
_MEMORY, _TENSOR, _ORDINARY, _OWN = range(4)
_SORTS: Final = np.array(
    [
        _OWN
        if f.kind in ("launches", "upload") or f.name in SLOWER
        else _MEMORY
        if not f.compute
        else _ORDINARY
        if f.name.endswith("on ordinary cores") or f.name.startswith("depthwise")
        else _TENSOR
        for f in FEATURES
    ]
)

_EFFECTIVE: Final = {"Kepler": (0.8, 0.5)}
"""Of bandwidth and of arithmetic, what an architecture reaches at most: Kepler's cores wait for one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSeconds:
    """What operators of one class take, to explain a prediction."""

    kind: str
    seconds: float
    limited_by: Literal["compute", "memory bandwidth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """One iteration on one GPU."""

    seconds: float
    classes: tuple[ClassSeconds, ...]
    """The longest first."""
    device_seconds: float
    host_seconds: float
    """What the host needs to launch everything: the iteration is not faster."""
    limited_by: Bottleneck
    unfamiliar: float
    """The share of device time in operators that no measurement stands behind."""
    near: float = 0.0
    """From 0 to 1: how much a program that was measured resembles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualKernel:
    """ρ = Σ_a weight_a · exp(−‖s − s_a‖² / 2ℓ²), s the roots of the shares of features at their priors.

    Shares are written in hundredths, without those that are 0 everywhere.
    """

    features: tuple[str, ...] = ()
    shares: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    length: float = RESIDUAL_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEfficiency:
    """e of a measured GPU, and h of its host."""

    memory: float = 1.0
    tensor: float = 1.0
    ordinary: float = 1.0
    launch_seconds: float
    factor_known_family: float | None = None
    """As in the fit, by the rows of this GPU alone."""
    factor_new_program: float | None = None
    residuals: ResidualKernel = ResidualKernel()
    """What programs that were measured on this GPU later are off by there, beyond those of the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicsFit:
    """What was fitted, and how far off it is."""

    coefficients: Mapping[str, float]
    """By feature."""
    launches: Mapping[str, float]
    """a, by what is launched."""
    launch_seconds: float
    """h of a host that nobody measured."""
    gpus: Mapping[str, GpuEfficiency] = field(default_factory=dict)
    familiar: tuple[str, ...] = ()
    """Features that were measured."""
    residuals: ResidualKernel = ResidualKernel()
    factor_known_family: float = 1.5
    """Up and down, 90 % of the programs that resemble one that was measured, on a GPU that was."""
    factor_new_program: float = 1.5
    """The same of those that resemble none, their family not measured."""
    factor_new_gpu: float = 2.0
    """The same on a GPU that was not, as far off as nine tenths of those that were left out, each weighing the same."""
    factor_gpu_after_one: float = 1.7
    """The same after one other program was measured there; and after ten."""
    factor_gpu_after_ten: float = 1.5


# The features and the least seconds of an iteration on a GPU.


@dataclass(frozen=True, slots=True)
class _Rows:
    """Measured iterations as columns."""

    x: Array
    least: Array
    launches: Array
    seconds: Array
    gpu: Places
    gpus: tuple[str, ...]
    host: Places
    """Which machine."""
    hosts: tuple[tuple[str, str | None], ...]
    weight: Array
    family: tuple[str, ...]
    program: tuple[str, ...]
    network: tuple[Hashable, ...]
    """The same for rows of one program in one dtype at one batch size."""

    @classmethod
    def of(cls, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> "_Rows":
        """Each GPU of several machines counts as one."""
        names = tuple(sorted({row.gpu for row in rows}))
        rates = Rates.of([_as_reached(gpus[name]) for name in names])
        place = {name: i for i, name in enumerate(names)}
        hosts = tuple(sorted({(row.gpu, row.machine) for row in rows}, key=str))
        machines: dict[str, int] = defaultdict(int)
        for gpu, _ in hosts:
            machines[gpu] += 1
        known: dict[int, tuple[IterationWork, Array, Array]] = {}
        x, least, launches = [], [], []
        for row in rows:
            if id(row.operations) not in known:
                work = iteration_work(row.operations)
                known[id(row.operations)] = work, features(work, rates), roofline(work, rates)
            work, its_x, its_least = known[id(row.operations)]
            x.append(its_x[place[row.gpu]])
            least.append(its_least[place[row.gpu]])
            launches.append(work.launches)
        return cls(
            x=np.array(x).reshape(len(rows), len(FEATURES)),
            least=np.array(least),
            launches=np.array(launches).reshape(len(rows), len(HOST)),
            seconds=np.array([row.seconds for row in rows]),
            gpu=np.array([place[row.gpu] for row in rows], dtype=np.int64),
            gpus=names,
            host=np.array([hosts.index((row.gpu, row.machine)) for row in rows], dtype=np.int64),
            hosts=hosts,
            weight=np.array([1 / machines[row.gpu] for row in rows]),
            family=tuple(row.family for row in rows),
            program=tuple(row.program for row in rows),
            network=tuple((row.source, row.program, row.dtype, row.batch_size) for row in rows),
        )

    def only(self, chosen: NDArray[np.bool_]) -> "_Rows":
        places = np.flatnonzero(chosen)
        return _Rows(
            self.x[places],
            self.least[places],
            self.launches[places],
            self.seconds[places],
            self.gpu[places],
            self.gpus,
            self.host[places],
            self.hosts,
            self.weight[places],
            tuple(self.family[i] for i in places),
            tuple(self.program[i] for i in places),
            tuple(self.network[i] for i in places),
        )


def _as_reached(gpu: Gpu) -> Gpu:
    memory, arithmetic = _EFFECTIVE.get(gpu.architecture, (1.0, 1.0))
    if memory == arithmetic == 1.0:
        return gpu
    return replace(
        gpu, memory_gb_per_second=gpu.memory_gb_per_second * memory, fp32_tflops=gpu.fp32_tflops * arithmetic
    )


# All that is fitted, as factors on its prior: of coefficients, of what each GPU reaches (three each), of launches on
# its host, and of launches on all hosts.


@dataclass(frozen=True, slots=True)
class _Factors:
    kernels: Array
    launches: Array
    reach: Array
    """By GPU and sort; the last column is always 1."""
    host: Array
    launch: float

    @classmethod
    def prior(cls, rows: _Rows) -> "_Factors":
        return cls(
            np.ones(len(FEATURES)), np.ones(len(HOST)), np.ones((len(rows.gpus), 4)), np.ones(len(rows.hosts)), 1.0
        )

    def flat(self) -> Array:
        return np.concatenate([self.kernels, self.launches, self.reach[:, :3].ravel(), self.host, [self.launch]])

    @classmethod
    def from_flat(cls, flat: Array, rows: _Rows) -> "_Factors":
        gpus = len(rows.gpus)
        ends = np.cumsum([len(FEATURES), len(HOST), 3 * gpus, len(rows.hosts)])
        kernels, launches, reached, host, launch = np.split(flat, ends)
        reach = np.ones((gpus, 4))
        reach[:, :3] = reached.reshape(gpus, 3)
        return cls(kernels, launches, reach, host, float(launch[0]))


def _parts(rows: _Rows, factors: _Factors) -> tuple[Array, Array]:
    """Device time by feature, and host time by launch."""
    device = rows.x * PRIORS * factors.kernels * factors.reach[rows.gpu][:, _SORTS]
    host = rows.launches * HOST_PRIORS * factors.launches * factors.host[rows.host][:, None]
    return device, LAUNCH_SECONDS * factors.launch * host


def _together(device: Array, host: Array) -> Array:
    return np.asarray((device**OVERLAP + host**OVERLAP) ** (1 / OVERLAP))


def _slopes(rows: _Rows, factors: _Factors) -> tuple[Array, Array]:
    """log t, and its derivatives by everything that is fitted, in the order of `flat`."""
    parts, launched = _parts(rows, factors)
    device, host = parts.sum(axis=1), launched.sum(axis=1)
    t = _together(device, host)
    of_device = (device / t) ** OVERLAP
    of_host = 1 - of_device
    by_kernel = parts * (of_device / device)[:, None]
    by_launch = launched * (of_host / host)[:, None]
    each = np.arange(len(t))
    by_reach = np.zeros((len(t), len(rows.gpus), 3))
    for sort in (_MEMORY, _TENSOR, _ORDINARY):
        by_reach[each, rows.gpu, sort] = by_kernel[:, np.equal(_SORTS, sort)].sum(axis=1)
    by_host = np.zeros((len(t), len(rows.hosts)))
    by_host[each, rows.host] = of_host
    relative = np.hstack([by_kernel, by_launch, by_reach.reshape(len(t), -1), by_host, of_host[:, None]])
    return np.log(t), relative / np.maximum(factors.flat(), 1e-9)


def _penalties(rows: _Rows) -> Array:
    counts = len(FEATURES), len(HOST), 3 * len(rows.gpus), len(rows.hosts), 1
    weights = KERNEL_PENALTY, KERNEL_PENALTY, REACH_PENALTY, HOST_PENALTY, LAUNCH_PENALTY
    return np.repeat(weights, counts)


def _solve(rows: _Rows, start: _Factors, *, kernels_too: bool = True) -> _Factors:
    """Gauss and Newton's method, each step by non-negative least squares."""
    from scipy.optimize import nnls

    penalty = _penalties(rows)
    free = np.ones(len(penalty), dtype=bool)
    if not kernels_too:
        free[: len(FEATURES) + len(HOST)] = False
        free[-1] = False
    flat, log_seconds = start.flat(), np.log(rows.seconds)
    for _ in range(ROUNDS):
        # A factor at 0 has no slope by itself: from a little above it sees where to go.
        flat[free] = np.maximum(flat[free], 1e-3)
        log_t, slopes = _slopes(rows, _Factors.from_flat(flat, rows))
        missed = log_seconds - log_t
        root = np.sqrt(rows.weight * np.minimum(1.0, HUBER / np.maximum(np.abs(missed), 1e-9)))
        target = missed + slopes[:, free] @ flat[free]
        left = np.vstack([slopes[:, free] * root[:, None], np.diag(penalty[free])])
        right = np.concatenate([target * root, penalty[free]])
        step, _ = nnls(left, right, maxiter=20 * left.shape[1])
        # At most twice or half: the line is only true nearby.
        flat[free] = np.clip(step, flat[free] / 2, np.maximum(flat[free] * 2, 0.05))
    return _Factors.from_flat(flat, rows)


def _as_fit(rows: _Rows, factors: _Factors) -> PhysicsFit:
    parts, _ = _parts(rows, factors)
    most = (parts / parts.sum(axis=1, keepdims=True)).max(axis=0) if len(parts) else np.zeros(len(FEATURES))
    launch = LAUNCH_SECONDS * factors.launch
    return PhysicsFit(
        coefficients={f.name: float(c) for f, c in zip(FEATURES, PRIORS * factors.kernels, strict=True)},
        launches={f.name: float(a) for f, a in zip(HOST, HOST_PRIORS * factors.launches, strict=True)},
        launch_seconds=launch,
        gpus={
            name: GpuEfficiency(
                memory=float(factors.reach[i, _MEMORY]),
                tensor=float(factors.reach[i, _TENSOR]),
                ordinary=float(factors.reach[i, _ORDINARY]),
                launch_seconds=launch * float(np.mean(factors.host[np.unique(rows.host[rows.gpu == i])])),
            )
            for i, name in enumerate(rows.gpus)
            if (rows.gpu == i).any()
        },
        familiar=tuple(f.name for f, share in zip(FEATURES, most, strict=True) if share >= FAMILIAR_SHARE),
    )


def _shares(x: Array) -> Array:
    at_prior = x * PRIORS
    return np.asarray(np.sqrt(at_prior / np.maximum(at_prior.sum(axis=1, keepdims=True), 1e-300)))


def _nearness(some: Array, others: Array, length: float) -> Array:
    square = (some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * some @ others.T
    return np.asarray(np.exp(-np.maximum(square, 0.0) / (2 * length**2)))


def _ridge(shares: Array, target: Array, length: float) -> tuple[ResidualKernel, Array]:
    """Beside them the inverse of the kernel with its noise, which tells what is foretold without any of them."""
    hundredths = np.rint(100 * shares)
    used = np.asarray(hundredths.any(axis=0))
    near = _nearness(hundredths[:, used] / 100, hundredths[:, used] / 100, length)
    inverse = np.asarray(np.linalg.inv(near + RESIDUAL_NOISE * np.eye(len(target))), dtype=np.float64)
    weights = inverse @ target
    found = ResidualKernel(
        features=tuple(f.name for f, one in zip(FEATURES, used.tolist(), strict=True) if one),
        shares=tuple(tuple(int(value) for value in row) for row in hundredths[:, used]),
        weights=tuple(round(float(weight), 4) for weight in weights),
        length=length,
    )
    return found, inverse


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Row by row, its program or its family being left out of what is learnt of residuals."""

    missed: Array
    """log y/t, with the ρ that the others tell."""
    near: NDArray[np.bool_]
    """Whether one of the others resembles it."""


def _learnt(table: _Rows, missed: Array) -> tuple[ResidualKernel, _LeftOut, _LeftOut]:
    """From what was missed with the family left out; a program on several GPUs is one, with their mean.

    Beside them what is still missed of each row without its own program, and without its whole family: an interval
    is right only if its errors are those of what will answer, ρ included.
    """
    by_network: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(table.network):
        by_network[key].append(i)
    places = list(by_network.values())
    all_shares = _shares(table.x)
    shares = np.array([all_shares[own].mean(axis=0) for own in places])
    target = np.clip([missed[own].mean() for own in places], -MOST_LEARNT, MOST_LEARNT)
    found, inverse = _ridge(shares, target, RESIDUAL_LENGTH)
    alike = _nearness(shares, np.rint(100 * shares) / 100, RESIDUAL_LENGTH)

    def without(groups: Sequence[str]) -> _LeftOut:
        """A group is foretold y − A⁻¹·(w of the group) by the others, A its block of the inverse."""
        of = np.array([groups[own[0]] for own in places])
        left, near = missed.copy(), np.zeros(len(missed), dtype=bool)
        for group in dict.fromkeys(of.tolist()):
            inside = np.flatnonzero(of == group)
            told = target[inside] - np.linalg.solve(inverse[np.ix_(inside, inside)], inverse[inside] @ target)
            nearest = alike[inside][:, of != group].max(axis=1, initial=0.0)
            for place, rho, nearness in zip(inside.tolist(), told, nearest, strict=True):
                left[places[place]] -= np.clip(rho, -MOST_RESIDUAL, MOST_RESIDUAL)
                near[places[place]] = nearness >= NEAR
        return _LeftOut(left, near)

    return found, without(table.program), without(table.family)


def _residual(x: Array, residuals: ResidualKernel) -> tuple[Array, Array]:
    """ρ, and the nearness to the nearest program; one a row."""
    return _Anchors(residuals).residual(x)


class _Anchors:
    """The programs of ResidualKernel as arrays."""

    def __init__(self, residuals: ResidualKernel) -> None:
        self.weights = np.array(residuals.weights)
        self.length = residuals.length
        self.shares = np.zeros((len(residuals.shares), len(FEATURES)))
        if residuals.weights:
            self.shares[:, [_COLUMN[name] for name in residuals.features]] = np.array(residuals.shares) / 100

    def residual(self, x: Array) -> tuple[Array, Array]:
        if not len(self.weights):
            return np.zeros(len(x)), np.zeros(len(x))
        near = _nearness(_shares(x), self.shares, self.length)
        return np.clip(near @ self.weights, -MOST_RESIDUAL, MOST_RESIDUAL), near.max(axis=1)


_COLUMN: Final = {feature.name: place for place, feature in enumerate(FEATURES)}


def fit_physics(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> PhysicsFit:
    """Rows of one GPU, with operations, of GPUs that are known; others are passed over."""
    usable = [row for row in rows if row.gpus == 1 and row.operations and row.gpu in gpus]
    if not usable:
        raise ValueError("no measured iteration of one known GPU has its operations")
    table = _Rows.of(usable, gpus)
    return _fit_table(table)


def _fit_table(table: _Rows) -> PhysicsFit:
    prior = _Factors.prior(table)
    whole = _solve(table, prior)
    fit = _as_fit(table, whole)
    missed = _out_of_fold(table, whole)
    residuals, relatives_known, family_unknown = _learnt(table, missed)
    everywhere = np.ones(len(missed), dtype=bool)
    far = _of_programs(table, family_unknown, everywhere & ~family_unknown.near)
    far = far or conformal_factor(family_unknown.missed.tolist(), table.program)
    fit = replace(
        fit,
        residuals=residuals,
        gpus={
            name: replace(
                reach,
                factor_known_family=_of_programs(table, relatives_known, own & relatives_known.near),
                factor_new_program=_of_programs(table, family_unknown, own & ~family_unknown.near),
            )
            for name, reach in fit.gpus.items()
            for own in [table.gpu == table.gpus.index(name)]
        },
        factor_known_family=_of_programs(table, relatives_known, everywhere & relatives_known.near) or far,
        factor_new_program=far,
    )
    if len(table.gpus) > 1:
        none, one, ten = (_of_gpus(table, missed) for missed in _left_out_gpus(table, whole))
        fit = replace(fit, factor_new_gpu=none, factor_gpu_after_one=one, factor_gpu_after_ten=ten)
    return fit


def _of_programs(table: _Rows, left_out: _LeftOut, chosen: NDArray[np.bool_]) -> float | None:
    """An interval is a program's, so each weighs the same; that relatives err alike is in what is left out. None of so
    few that the worst would decide."""
    places = np.flatnonzero(chosen)
    programs = [table.program[i] for i in places]
    if len(set(programs)) < ENOUGH_PROGRAMS:
        return None
    return conformal_factor(left_out.missed[places].tolist(), programs)


def _of_gpus(table: _Rows, missed: Array) -> float:
    told = np.flatnonzero(np.isfinite(missed))
    return typical_factor(missed[told].tolist(), table.gpu[told].tolist()) if len(told) else 1.0


def _folds(groups: Sequence[Hashable], count: int) -> Places:
    """Whole groups, the largest first, each to the fold that has least."""
    sizes: dict[Hashable, int] = defaultdict(int)
    for group in groups:
        sizes[group] += 1
    filled = [0] * count
    of: dict[Hashable, int] = {}
    for group in sorted(sizes, key=lambda group: (-sizes[group], str(group))):
        of[group] = filled.index(min(filled))
        filled[of[group]] += sizes[group]
    return np.array([of[group] for group in groups], dtype=np.int64)


def _out_of_fold(table: _Rows, start: _Factors) -> Array:
    """log y/t of each row, its family being left out."""
    missed = np.zeros(len(table.seconds))
    fold = _folds(table.family, FOLDS)
    for one in sorted(set(fold.tolist())):
        inside = fold == one
        factors = _Factors.prior(table) if inside.all() else _solve(table.only(~inside), start)
        missed[inside] = _missed(table.only(inside), factors)
    return missed


def _missed(rows: _Rows, factors: _Factors) -> Array:
    parts, host = _parts(rows, factors)
    t = np.maximum(_together(parts.sum(axis=1), host.sum(axis=1)), rows.least)
    return np.asarray(np.log(rows.seconds / t))


def _left_out_gpus(table: _Rows, start: _Factors) -> tuple[Array, Array, Array]:
    """log y/t of each row, its GPU being left out; with one and with ten programs on it given, NaN for these."""
    missed = np.full((3, len(table.seconds)), np.nan)
    for gpu in range(len(table.gpus)):
        inside = table.gpu == gpu
        if inside.all():
            continue
        factors = _solve(table.only(~inside), start)
        factors.reach[gpu, :3] = 1.0
        factors.host[table.host[inside]] = 1.0
        for k, given in enumerate((0, 1, 10)):
            for host in np.unique(table.host[inside]):
                places = np.flatnonzero(table.host == host)
                # Spread over the programs in the order of their names, whatever their times.
                chosen = places[np.linspace(0, len(places) - 1, given).astype(int)] if given else places[:0]
                known = np.isin(np.arange(len(table.seconds)), chosen)
                found = _solve(table.only(known), factors, kernels_too=False) if given else factors
                rest = (table.host == host) & ~known
                missed[k, rest] = _missed(table.only(rest), found)
                if given:
                    own = _on_one_gpu(table.only(known), _missed(table.only(known), found))
                    missed[k, rest] -= _residual(table.x[rest], own)[0]
    return missed[0], missed[1], missed[2]


def with_measurements(fit: PhysicsFit, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> PhysicsFit:
    """The same coefficients, and what the GPUs of these rows reach: one program on a GPU tells most of its host."""
    usable = [row for row in rows if row.gpus == 1 and row.operations and row.gpu in gpus]
    if not usable:
        return fit
    table = _Rows.of(usable, gpus)
    start = _Factors(
        kernels=np.array([fit.coefficients[f.name] for f in FEATURES]) / PRIORS,
        launches=np.array([fit.launches[f.name] for f in HOST]) / HOST_PRIORS,
        reach=np.ones((len(table.gpus), 4)),
        host=np.ones(len(table.hosts)),
        launch=fit.launch_seconds / LAUNCH_SECONDS,
    )
    factors = _solve(table, start, kernels_too=False)
    found = dict(_as_fit(table, factors).gpus)
    still = _missed(table, factors) - _residual(table.x, fit.residuals)[0]
    for place, name in enumerate(table.gpus):
        inside = table.gpu == place
        found[name] = replace(found[name], residuals=_on_one_gpu(table.only(inside), still[inside]))
    return replace(fit, gpus={**fit.gpus, **found})


def _on_one_gpu(rows: _Rows, missed: Array) -> ResidualKernel:
    return _ridge(_shares(rows.x), np.clip(missed, -2 * MOST_LEARNT, 2 * MOST_LEARNT), ON_ONE_GPU)[0]


def step_seconds(operations: Sequence[Operation], gpus: Sequence[Gpu], fit: PhysicsFit) -> tuple[StepSeconds, ...]:
    """One iteration on each GPU; of one that was not measured by its nominal figures."""
    return StepModel(gpus, fit).seconds(operations) if gpus else ()


class StepModel:
    """`step_seconds` for many sets of operations: what the GPUs and the fit say is gathered once."""

    def __init__(self, gpus: Sequence[Gpu], fit: PhysicsFit) -> None:
        own = [fit.gpus.get(gpu.name, GpuEfficiency(launch_seconds=fit.launch_seconds)) for gpu in gpus]
        self._rates = Rates.of([_as_reached(gpu) for gpu in gpus])
        self._reach = np.array([(one.memory, one.tensor, one.ordinary, 1.0) for one in own])[:, _SORTS]
        self._launch_seconds = np.array([one.launch_seconds for one in own])
        self._coefficients = np.array([fit.coefficients.get(f.name, f.prior) for f in FEATURES])
        self._launches = np.array([fit.launches.get(f.name, f.prior) for f in HOST])
        self._unknown = np.array([f.name not in fit.familiar for f in FEATURES])
        self._anchors = _Anchors(fit.residuals)
        self._own_anchors = {i: _Anchors(one.residuals) for i, one in enumerate(own) if one.residuals.weights}

    def seconds(self, operations: Sequence[Operation]) -> tuple[StepSeconds, ...]:
        """One iteration on each GPU."""
        work = iteration_work(operations)
        x, least = features(work, self._rates), roofline(work, self._rates)
        parts = x * self._coefficients * self._reach
        host = self._launch_seconds * float(work.launches @ self._launches)
        device = parts.sum(axis=1)
        missed, near = self._anchors.residual(x)
        for i, anchors in self._own_anchors.items():
            missed[i] += anchors.residual(x[i : i + 1])[0][0]
        seconds = np.maximum(_together(device, host) * np.exp(missed), least)
        columns = (seconds.tolist(), device.tolist(), host.tolist(), near.tolist())
        return tuple(
            StepSeconds(
                seconds=t,
                classes=_classes(part),
                device_seconds=on_device,
                host_seconds=on_host,
                limited_by=_limit(part, on_host),
                unfamiliar=float(part[self._unknown].sum()) / on_device if on_device > 0 else 0.0,
                near=nearness,
            )
            for part, t, on_device, on_host, nearness in zip(parts, *columns, strict=True)
        )


def scaled_seconds(step: StepSeconds, measured: Sequence[tuple[StepSeconds, float]]) -> float:
    """The same program was measured on other GPUs: what was foretold there, and the seconds that it took.

    What the model missed by there it mostly misses by here, in the median of them.
    """
    if not measured:
        return step.seconds
    return step.seconds * math.exp(ALIKE * median(math.log(true / other.seconds) for other, true in measured))


def interval_factor(step: StepSeconds, gpu: str, fit: PhysicsFit) -> float:
    """Truth lies within seconds ÷ factor and seconds × factor, nine times in ten.

    Wider for a GPU that was not measured, less wide for a program that resembles one that was; both doubts add up in
    squares. And wider by the share of time in operators that nobody measured.
    """
    reach = fit.gpus.get(gpu)
    if reach is None:
        program = math.log(fit.factor_known_family if step.near >= NEAR else fit.factor_new_program)
        factor = math.exp(math.hypot(math.log(fit.factor_new_gpu), program))
    elif step.near >= NEAR:
        factor = reach.factor_known_family or fit.factor_known_family
    else:
        factor = reach.factor_new_program or fit.factor_new_program
    return factor * (1 + step.unfamiliar) if step.unfamiliar > UNFAMILIAR else factor


_IN_CLASSES: Final = [
    (place, feature.kind, feature.compute)
    for place, feature in enumerate(FEATURES)
    if feature.kind not in ("launches", "upload")
]


def _classes(parts: Array) -> tuple[ClassSeconds, ...]:
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    part = parts.tolist()
    for place, kind, compute in _IN_CLASSES:
        seconds[kind][compute] += part[place]
    found = [
        ClassSeconds(
            kind=kind, seconds=memory + compute, limited_by="compute" if compute > memory else "memory bandwidth"
        )
        for kind, (memory, compute) in seconds.items()
        if memory + compute > 0
    ]
    return tuple(sorted(found, key=lambda one: -one.seconds))


_IS_GAP: Final = np.equal(_SORTS, _OWN)


def _limit(parts: Array, host: float) -> Bottleneck:
    device, gaps = float(parts.sum()), float(parts[_IS_GAP].sum())
    if host > device or gaps > device / 2:
        return "launches"
    compute = float(parts[IS_COMPUTE].sum())
    return "compute" if compute > device - gaps - compute else "memory bandwidth"

"""Fits the coefficients of `physics.py` to measured iterations.

Every coefficient has a prior, and the factor θ on it is fitted:

    minimise Σ_i w_i (log t_i − log y_i)² + Σ_k λ_k² (θ_k − 1)²,  θ ≥ 0

by non-negative least squares on the tangent at the last point, with Huber's weights w. Kernels that are rare in the
measurements so stay at their prior. The residual ρ is fitted afterwards, by kernel ridge regression on errors of
programs whose family was held out.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfare.estimator.fitting.conformal import conformal_factor, typical_factor
from trainfare.estimator.gpu.kernels import (
    FEATURES,
    HOST,
    HOST_PRIORS,
    PRIORS,
    GpuRates,
    IterationWork,
    features,
    iteration_work,
    roofline,
)
from trainfare.estimator.gpu.physics import (
    MAX_RESIDUAL,
    MEMORY_SORT,
    ORDINARY_SORT,
    OVERLAP,
    RESIDUAL_LENGTH,
    SIMILAR,
    SORTS,
    TENSOR_SORT,
    Array,
    GpuEfficiency,
    PhysicsFit,
    ResidualKernel,
    ResidualModel,
    effective_gpu,
    overlapped,
    root_shares,
    share_similarity,
)
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

Indices = NDArray[np.int64]

LAUNCH_SECONDS: Final = 12e-6
"""Prior of h: the time PyTorch needs to launch a kernel from Python."""

KERNEL_PENALTY: Final = 0.3
"""λ of the coefficients; below, those of a GPU's efficiency, of a host, and of all hosts. All were chosen with
knowledge of the data."""
EFFICIENCY_PENALTY: Final = 0.5
HOST_PENALTY: Final = 0.4
LAUNCH_PENALTY: Final = 0.05
HUBER: Final = 0.08
ROUNDS: Final = 8

SINGLE_GPU_LENGTH: Final = 0.3
"""The residual length where few programs on one GPU must represent all programs."""
RESIDUAL_NOISE: Final = 0.3
MAX_TARGET: Final = 0.3
"""Errors are clipped to this before ρ is fitted to them."""
MIN_PROGRAMS: Final = 9
"""With fewer programs, the 90% quantile would be the worst of them."""
FOLDS: Final = 10
FAMILIAR_SHARE: Final = 0.03
"""A feature whose share of the time was smaller in every measured program counts as not measured."""


@dataclass(frozen=True, slots=True)
class _IterationRows:
    """Measured iterations as columns, with their features and rooflines on their GPUs."""

    x: Array
    roofline: Array
    launches: Array
    seconds: Array
    gpu: Indices
    gpus: tuple[str, ...]
    host: Indices
    """The index of the machine in `hosts`."""
    hosts: tuple[tuple[str, str | None], ...]
    weight: Array
    family: tuple[str, ...]
    program: tuple[str, ...]
    network: tuple[Hashable, ...]
    """Equal for rows of one program in one dtype at one batch size."""

    @classmethod
    def build(cls, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> "_IterationRows":
        """A GPU that several machines had counts as one: its rows share the weight."""
        names = tuple(sorted({row.gpu for row in rows}))
        rates = GpuRates.of([effective_gpu(gpus[name]) for name in names])
        index = {name: i for i, name in enumerate(names)}
        hosts = tuple(sorted({(row.gpu, row.machine) for row in rows}, key=str))
        machines: dict[str, int] = defaultdict(int)
        for gpu, _ in hosts:
            machines[gpu] += 1
        known: dict[int, tuple[IterationWork, Array, Array]] = {}
        x, lower_bounds, launches = [], [], []
        for row in rows:
            if id(row.operations) not in known:
                work = iteration_work(row.operations)
                known[id(row.operations)] = work, features(work, rates), roofline(work, rates)
            work, row_features, row_roofline = known[id(row.operations)]
            x.append(row_features[index[row.gpu]])
            lower_bounds.append(row_roofline[index[row.gpu]])
            launches.append(work.launches)
        return cls(
            x=np.array(x).reshape(len(rows), len(FEATURES)),
            roofline=np.array(lower_bounds),
            launches=np.array(launches).reshape(len(rows), len(HOST)),
            seconds=np.array([row.seconds for row in rows]),
            gpu=np.array([index[row.gpu] for row in rows], dtype=np.int64),
            gpus=names,
            host=np.array([hosts.index((row.gpu, row.machine)) for row in rows], dtype=np.int64),
            hosts=hosts,
            weight=np.array([1 / machines[row.gpu] for row in rows]),
            family=tuple(row.family for row in rows),
            program=tuple(row.program for row in rows),
            network=tuple((row.source, row.program, row.dtype, row.batch_size) for row in rows),
        )

    def select(self, chosen: NDArray[np.bool_]) -> "_IterationRows":
        indices = np.flatnonzero(chosen)
        return _IterationRows(
            self.x[indices],
            self.roofline[indices],
            self.launches[indices],
            self.seconds[indices],
            self.gpu[indices],
            self.gpus,
            self.host[indices],
            self.hosts,
            self.weight[indices],
            tuple(self.family[i] for i in indices),
            tuple(self.program[i] for i in indices),
            tuple(self.network[i] for i in indices),
        )


@dataclass(frozen=True, slots=True)
class _Factors:
    """Everything that is fitted, as factors on its prior."""

    kernels: Array
    launches: Array
    efficiency: Array
    """By GPU and sort of feature; the last column is always 1."""
    host: Array
    launch: float

    @classmethod
    def prior(cls, rows: _IterationRows) -> "_Factors":
        return cls(
            np.ones(len(FEATURES)), np.ones(len(HOST)), np.ones((len(rows.gpus), 4)), np.ones(len(rows.hosts)), 1.0
        )

    def flat(self) -> Array:
        return np.concatenate([self.kernels, self.launches, self.efficiency[:, :3].ravel(), self.host, [self.launch]])

    @classmethod
    def from_flat(cls, flat: Array, rows: _IterationRows) -> "_Factors":
        gpus = len(rows.gpus)
        ends = np.cumsum([len(FEATURES), len(HOST), 3 * gpus, len(rows.hosts)])
        kernels, launches, by_gpu, host, launch = np.split(flat, ends)
        efficiency = np.ones((gpus, 4))
        efficiency[:, :3] = by_gpu.reshape(gpus, 3)
        return cls(kernels, launches, efficiency, host, float(launch[0]))


def fit_physics(rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> PhysicsFit:
    """The fit to rows of one known GPU with operations; other rows are ignored."""
    usable = [row for row in rows if row.gpus == 1 and row.operations and row.gpu in gpus]
    if not usable:
        raise ValueError("no measured iteration of one known GPU has its operations")
    return _fit_rows(_IterationRows.build(usable, gpus))


def with_measurements(fit: PhysicsFit, rows: Sequence[MeasuredIteration], gpus: Mapping[str, Gpu]) -> PhysicsFit:
    """The same coefficients, with the efficiency of the GPUs of these rows: one program on a GPU shows most of its
    host's launch time."""
    usable = [row for row in rows if row.gpus == 1 and row.operations and row.gpu in gpus]
    if not usable:
        return fit
    table = _IterationRows.build(usable, gpus)
    start = _Factors(
        kernels=np.array([fit.coefficients[f.name] for f in FEATURES]) / PRIORS,
        launches=np.array([fit.launches[f.name] for f in HOST]) / HOST_PRIORS,
        efficiency=np.ones((len(table.gpus), 4)),
        host=np.ones(len(table.hosts)),
        launch=fit.launch_seconds / LAUNCH_SECONDS,
    )
    factors = _solve(table, start, fit_kernels=False)
    measured = dict(_to_fit(table, factors).gpus)
    errors = _log_errors(table, factors) - ResidualModel(fit.residuals).evaluate(table.x)[0]
    for index, name in enumerate(table.gpus):
        own = table.gpu == index
        measured[name] = replace(measured[name], residuals=_single_gpu_residuals(table.select(own), errors[own]))
    return replace(fit, gpus={**fit.gpus, **measured})


# The coefficients


def _parts(rows: _IterationRows, factors: _Factors) -> tuple[Array, Array]:
    """Device time by feature, and host time by launch."""
    device = rows.x * PRIORS * factors.kernels * factors.efficiency[rows.gpu][:, SORTS]
    host = rows.launches * HOST_PRIORS * factors.launches * factors.host[rows.host][:, None]
    return device, LAUNCH_SECONDS * factors.launch * host


def _log_gradient(rows: _IterationRows, factors: _Factors) -> tuple[Array, Array]:
    """log t, and its derivatives by every fitted factor, in the order of `flat`."""
    parts, launched = _parts(rows, factors)
    device, host = parts.sum(axis=1), launched.sum(axis=1)
    t = overlapped(device, host)
    device_share = (device / t) ** OVERLAP
    host_share = 1 - device_share
    by_kernel = parts * (device_share / device)[:, None]
    by_launch = launched * (host_share / host)[:, None]
    each = np.arange(len(t))
    by_efficiency = np.zeros((len(t), len(rows.gpus), 3))
    for sort in (MEMORY_SORT, TENSOR_SORT, ORDINARY_SORT):
        by_efficiency[each, rows.gpu, sort] = by_kernel[:, np.equal(SORTS, sort)].sum(axis=1)
    by_host = np.zeros((len(t), len(rows.hosts)))
    by_host[each, rows.host] = host_share
    relative = np.hstack([by_kernel, by_launch, by_efficiency.reshape(len(t), -1), by_host, host_share[:, None]])
    return np.log(t), relative / np.maximum(factors.flat(), 1e-9)


def _penalties(rows: _IterationRows) -> Array:
    counts = len(FEATURES), len(HOST), 3 * len(rows.gpus), len(rows.hosts), 1
    weights = KERNEL_PENALTY, KERNEL_PENALTY, EFFICIENCY_PENALTY, HOST_PENALTY, LAUNCH_PENALTY
    return np.repeat(weights, counts)


def _solve(rows: _IterationRows, start: _Factors, *, fit_kernels: bool = True) -> _Factors:
    """Gauss-Newton, each step by non-negative least squares; without `fit_kernels` only GPUs and hosts are fitted."""
    from scipy.optimize import nnls

    penalty = _penalties(rows)
    free = np.ones(len(penalty), dtype=bool)
    if not fit_kernels:
        free[: len(FEATURES) + len(HOST)] = False
        free[-1] = False
    flat, log_seconds = start.flat(), np.log(rows.seconds)
    for _ in range(ROUNDS):
        # A factor of 0 has no gradient of its own: start slightly above it.
        flat[free] = np.maximum(flat[free], 1e-3)
        log_t, gradient = _log_gradient(rows, _Factors.from_flat(flat, rows))
        error = log_seconds - log_t
        root = np.sqrt(rows.weight * np.minimum(1.0, HUBER / np.maximum(np.abs(error), 1e-9)))
        target = error + gradient[:, free] @ flat[free]
        left = np.vstack([gradient[:, free] * root[:, None], np.diag(penalty[free])])
        right = np.concatenate([target * root, penalty[free]])
        step, _ = nnls(left, right, maxiter=20 * left.shape[1])
        # At most twice or half: the tangent is only accurate nearby.
        flat[free] = np.clip(step, flat[free] / 2, np.maximum(flat[free] * 2, 0.05))
    return _Factors.from_flat(flat, rows)


def _to_fit(rows: _IterationRows, factors: _Factors) -> PhysicsFit:
    parts, _ = _parts(rows, factors)
    max_share = (parts / parts.sum(axis=1, keepdims=True)).max(axis=0) if len(parts) else np.zeros(len(FEATURES))
    launch = LAUNCH_SECONDS * factors.launch
    return PhysicsFit(
        coefficients={f.name: float(c) for f, c in zip(FEATURES, PRIORS * factors.kernels, strict=True)},
        launches={f.name: float(a) for f, a in zip(HOST, HOST_PRIORS * factors.launches, strict=True)},
        launch_seconds=launch,
        gpus={
            name: GpuEfficiency(
                memory=float(factors.efficiency[i, MEMORY_SORT]),
                tensor=float(factors.efficiency[i, TENSOR_SORT]),
                ordinary=float(factors.efficiency[i, ORDINARY_SORT]),
                launch_seconds=launch * float(np.mean(factors.host[np.unique(rows.host[rows.gpu == i])])),
            )
            for i, name in enumerate(rows.gpus)
            if (rows.gpu == i).any()
        },
        familiar=tuple(f.name for f, share in zip(FEATURES, max_share, strict=True) if share >= FAMILIAR_SHARE),
    )


def _log_errors(rows: _IterationRows, factors: _Factors) -> Array:
    """log y/t of each row, without ρ."""
    parts, host = _parts(rows, factors)
    t = np.maximum(overlapped(parts.sum(axis=1), host.sum(axis=1)), rows.roofline)
    return np.asarray(np.log(rows.seconds / t))


# The residuals


def _fit_residual_kernel(shares: Array, target: Array, length: float) -> tuple[ResidualKernel, Array]:
    """The kernel ridge regression, and the inverse of its kernel matrix with noise, from which predictions with rows
    held out follow."""
    hundredths = np.rint(100 * shares)
    used = np.asarray(hundredths.any(axis=0))
    similarity = share_similarity(hundredths[:, used] / 100, hundredths[:, used] / 100, length)
    inverse = np.asarray(np.linalg.inv(similarity + RESIDUAL_NOISE * np.eye(len(target))), dtype=np.float64)
    weights = inverse @ target
    kernel = ResidualKernel(
        features=tuple(f.name for f, one in zip(FEATURES, used.tolist(), strict=True) if one),
        shares=tuple(tuple(int(value) for value in row) for row in hundredths[:, used]),
        weights=tuple(round(float(weight), 4) for weight in weights),
        length=length,
    )
    return kernel, inverse


@dataclass(frozen=True, slots=True)
class _HeldOutErrors:
    """For each row, with its program or its family held out of the residuals."""

    errors: Array
    """log y/t, with the ρ of the other programs."""
    similar: NDArray[np.bool_]
    """True for each program that another program is similar to."""


def _fit_residuals(table: _IterationRows, errors: Array) -> tuple[ResidualKernel, _HeldOutErrors, _HeldOutErrors]:
    """The residuals fitted to `errors`, which have the family held out; a program on several GPUs counts once, with
    their mean error.

    Also the errors of each row without its own program, and without its whole family: an interval is right only if its
    errors are those of the complete prediction, ρ included.
    """
    by_network: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(table.network):
        by_network[key].append(i)
    rows_of = list(by_network.values())
    all_shares = root_shares(table.x)
    shares = np.array([all_shares[own].mean(axis=0) for own in rows_of])
    target = np.clip([errors[own].mean() for own in rows_of], -MAX_TARGET, MAX_TARGET)
    kernel, inverse = _fit_residual_kernel(shares, target, RESIDUAL_LENGTH)
    similarity = share_similarity(shares, np.rint(100 * shares) / 100, RESIDUAL_LENGTH)

    def without(groups: Sequence[str]) -> _HeldOutErrors:
        """The others predict y − A⁻¹·(w of the group) for a group, with A its block of the inverse."""
        group_of = np.array([groups[own[0]] for own in rows_of])
        remaining, similar = errors.copy(), np.zeros(len(errors), dtype=bool)
        for group in dict.fromkeys(group_of.tolist()):
            inside = np.flatnonzero(group_of == group)
            predicted = target[inside] - np.linalg.solve(inverse[np.ix_(inside, inside)], inverse[inside] @ target)
            nearest = similarity[inside][:, group_of != group].max(axis=1, initial=0.0)
            for index, rho, nearness in zip(inside.tolist(), predicted, nearest, strict=True):
                remaining[rows_of[index]] -= np.clip(rho, -MAX_RESIDUAL, MAX_RESIDUAL)
                similar[rows_of[index]] = nearness >= SIMILAR
        return _HeldOutErrors(remaining, similar)

    return kernel, without(table.program), without(table.family)


def _single_gpu_residuals(rows: _IterationRows, errors: Array) -> ResidualKernel:
    target = np.clip(errors, -2 * MAX_TARGET, 2 * MAX_TARGET)
    return _fit_residual_kernel(root_shares(rows.x), target, SINGLE_GPU_LENGTH)[0]


# The fit with its intervals


def _fit_rows(table: _IterationRows) -> PhysicsFit:
    factors = _solve(table, _Factors.prior(table))
    fit = _to_fit(table, factors)
    errors = _family_held_out_errors(table, factors)
    residuals, program_held_out, family_held_out = _fit_residuals(table, errors)
    everywhere = np.ones(len(errors), dtype=bool)
    new_program = _program_factor(table, family_held_out, everywhere & ~family_held_out.similar)
    new_program = new_program or conformal_factor(family_held_out.errors.tolist(), table.program)
    known_family = _program_factor(table, program_held_out, everywhere & program_held_out.similar)
    fit = replace(
        fit,
        residuals=residuals,
        gpus={
            name: replace(
                efficiency,
                factor_known_family=_program_factor(table, program_held_out, own & program_held_out.similar),
                factor_new_program=_program_factor(table, family_held_out, own & ~family_held_out.similar),
            )
            for name, efficiency in fit.gpus.items()
            for own in [table.gpu == table.gpus.index(name)]
        },
        factor_known_family=known_family or new_program,
        factor_new_program=new_program,
    )
    if len(table.gpus) > 1:
        none, one, ten = (_gpu_factor(table, errors) for errors in _gpu_held_out_errors(table, factors))
        fit = replace(fit, factor_new_gpu=none, factor_gpu_after_one=one, factor_gpu_after_ten=ten)
    return fit


def _program_factor(table: _IterationRows, held_out: _HeldOutErrors, chosen: NDArray[np.bool_]) -> float | None:
    """The factor of the 90% interval over the chosen rows, each program weighing the same; None with fewer than
    MIN_PROGRAMS programs. That relatives err alike is already in the held-out errors."""
    indices = np.flatnonzero(chosen)
    programs = [table.program[i] for i in indices]
    if len(set(programs)) < MIN_PROGRAMS:
        return None
    return conformal_factor(held_out.errors[indices].tolist(), programs)


def _gpu_factor(table: _IterationRows, errors: Array) -> float:
    known = np.flatnonzero(np.isfinite(errors))
    return typical_factor(errors[known].tolist(), table.gpu[known].tolist()) if len(known) else 1.0


def _assign_folds(groups: Sequence[Hashable], count: int) -> Indices:
    """The fold of each row: groups stay together, the largest first, each in the fold with the fewest rows."""
    sizes: dict[Hashable, int] = defaultdict(int)
    for group in groups:
        sizes[group] += 1
    filled = [0] * count
    fold_of: dict[Hashable, int] = {}
    for group in sorted(sizes, key=lambda group: (-sizes[group], str(group))):
        fold_of[group] = filled.index(min(filled))
        filled[fold_of[group]] += sizes[group]
    return np.array([fold_of[group] for group in groups], dtype=np.int64)


def _family_held_out_errors(table: _IterationRows, start: _Factors) -> Array:
    """log y/t of each row, from a fit without its family."""
    errors = np.zeros(len(table.seconds))
    fold = _assign_folds(table.family, FOLDS)
    for one in sorted(set(fold.tolist())):
        inside = fold == one
        factors = _Factors.prior(table) if inside.all() else _solve(table.select(~inside), start)
        errors[inside] = _log_errors(table.select(inside), factors)
    return errors


def _gpu_held_out_errors(table: _IterationRows, start: _Factors) -> tuple[Array, Array, Array]:
    """log y/t of each row, from fits without its GPU; then with one and with ten programs on it given, whose own rows
    are NaN."""
    errors = np.full((3, len(table.seconds)), np.nan)
    for gpu in range(len(table.gpus)):
        inside = table.gpu == gpu
        if inside.all():
            continue
        factors = _solve(table.select(~inside), start)
        factors.efficiency[gpu, :3] = 1.0
        factors.host[table.host[inside]] = 1.0
        for k, given in enumerate((0, 1, 10)):
            for host in np.unique(table.host[inside]):
                rows = np.flatnonzero(table.host == host)
                # Spread over the programs in the order of their names, whatever their times.
                chosen = rows[np.linspace(0, len(rows) - 1, given).astype(int)] if given else rows[:0]
                known = np.isin(np.arange(len(table.seconds)), chosen)
                found = _solve(table.select(known), factors, fit_kernels=False) if given else factors
                rest = (table.host == host) & ~known
                errors[k, rest] = _log_errors(table.select(rest), found)
                if given:
                    own = _single_gpu_residuals(table.select(known), _log_errors(table.select(known), found))
                    errors[k, rest] -= ResidualModel(own).evaluate(table.x[rest])[0]
    return errors[0], errors[1], errors[2]

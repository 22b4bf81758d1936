"""Queues generated from a seed by the rule of Jahani et al. 2019.

Their rule: 10 jobs per node; a job's deadline is its submission + U(1, 3) × its shortest time; lateness costs
2·U(0.0015, 0.0075) $/s; five instances per setting (five seeds); submissions with exponential gaps (in later slides
integer seconds, Poisson, with a mean of 30 or 45 s); six Azure VM types, and three servers of their own.

They measured the times of jobs. From four of their instances (200 different jobs, `10-100-0` and `10-100-1`) follow

    t(g GPUs) = b · f_GPU / g^α        exactly; α the same on both GPUs of a job
    α   ~ U(0.6, 0.95)                 observed 0.602 – 0.950; Kolmogorov-Smirnov p = 0.70
    b   ~ log-uniform, 2 to 50 hours   on one M60; p = 0.45 on the M60, 0.58 on the mean of both GPUs
    f   = e^N(m, 0.185), by job and GPU; the times on K80 and M60 differ by a factor e^N(0.166, 0.261), p = 0.38

"high" and "low" are one queue: the gaps of "low" are four times as long. Let load = Σ_j min_k frac_k·t_jk / (N · time),
the least fraction of all nodes that the jobs need: "high" has 1.00 and 0.95 (a mean gap of 1319 and 1205 s on ten
nodes), "low" 0.25 and 0.24.

Prediction errors, users, gangs and spot are not theirs and only serve to try policies. Each has random numbers of its
own: the same seed without them gives the same queue.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainfare.model.checks import require_not_negative, require_positive
from trainfare.model.queue import Instance, Job, NodeType, Slot, single_node_slots
from trainfare.scheduler.tables import slot_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

AZURE = (
    NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.56),
    NodeType(name="NC12", gpu="K80", gpus=2, usd_per_hour=1.13),
    NodeType(name="NC24", gpu="K80", gpus=4, usd_per_hour=2.25),
    NodeType(name="NV6", gpu="M60", gpus=1, usd_per_hour=0.62),
    NodeType(name="NV12", gpu="M60", gpus=2, usd_per_hour=1.24),
    NodeType(name="NV24", gpu="M60", gpus=4, usd_per_hour=2.48),
)
IN_HOUSE = (
    NodeType(name="In-house server 1", gpu="Quadro P600", gpus=2, usd_per_hour=0.11),
    NodeType(name="In-house server 2", gpu="GTX 1080Ti", gpus=8, usd_per_hour=1.13),
    NodeType(name="In-house server 3", gpu="Quadro P600", gpus=8, usd_per_hour=0.44),
)
"""Jahani et al. 2019, prices of their time."""

LOG_TIME = {"M60": 0.0, "K80": 0.166, "Quadro P600": math.log(4.82 / 1.19), "GTX 1080Ti": math.log(4.82 / 11.3)}
"""m = log of the typical time on one GPU relative to the M60. K80 from the instances, which do not cover the others:
those from their nominal TFLOPS in float32 (NVIDIA's data sheets). A GPU that is not listed is as fast as an M60."""

BASE_HOURS = (2.0, 50.0)
LOG_FACTOR = 0.185
"""0.261/√2: the difference of two GPUs has two of these terms."""
POWER = (0.6, 0.95)
SLACK = (1.0, 3.0)
HALF_LATE_USD_PER_SECOND = (0.0015, 0.0075)
JOBS_PER_NODE = 10
GANG_POWER = 0.9
"""On n nodes a job is n^(0.9·α) times as fast as on one, because the network costs time. An assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSetting:
    """The parameters of a generated queue: nodes, jobs, rate of submissions, and additions to the papers' rule."""

    nodes: int
    jobs: int | None = None
    """The number of jobs; None means 10 per node."""
    load: float = 1.0
    """The least fraction of all nodes that is needed while jobs are submitted; it determines the mean gap."""
    mean_gap_seconds: float | None = None
    """The mean time between two submissions; None: from the load."""
    arrivals: Literal["exponential", "poisson"] = "exponential"
    """The distribution of the gaps: poisson gives integer seconds close to the mean."""
    types: tuple[NodeType, ...] = AZURE
    log_error: float = 0.0
    """The standard deviation of log(true/predicted) over jobs. Deadlines follow the predictions."""
    users: int = 0
    """The number of users among whom the jobs are divided at random."""
    quota_gpus: int | None = None
    """The quota of each user."""
    gang_nodes: tuple[int, ...] = ()
    """The numbers of complete nodes of the largest type of each GPU that a job can take as a gang."""
    spot_discount: float = 0.0
    """If positive, every type also exists on spot, cheaper by this fraction, and is reclaimed."""
    spot_reclaims_per_hour: float = 0.05

    def __post_init__(self) -> None:
        require_positive(nodes=self.nodes, load=self.load, mean_gap_seconds=self.mean_gap_seconds)
        require_not_negative(jobs=self.jobs, log_error=self.log_error, users=self.users, quota_gpus=self.quota_gpus)
        require_positive(spot_reclaims_per_hour=self.spot_reclaims_per_hour)
        if not 0 <= self.spot_discount < 1:
            raise ValueError(f"spot_discount must lie between 0 and 1, got {self.spot_discount}")
        if any(nodes < 2 for nodes in self.gang_nodes):
            raise ValueError(f"a gang has at least two nodes, got {self.gang_nodes}")


def generate(setting: QueueSetting, seed: int) -> Instance:
    """The queue of that setting and seed; the same for every call."""
    count = JOBS_PER_NODE * setting.nodes if setting.jobs is None else setting.jobs
    types = (*setting.types, *_spot_types(setting))
    slots = single_node_slots(types) + _gangs(setting, types)
    instance = Instance(types=types, slots=slots, jobs=(), quotas=_quotas(setting))
    if not count:
        return instance
    seconds = _seconds(types, slots, count, _rng(seed, 0))
    submitted = _submissions(setting, instance, seconds, _rng(seed, 1))
    due, late, users = _rng(seed, 2), _rng(seed, 3), _rng(seed, 4)
    shortest = seconds[:, [slot.nodes == 1 for slot in slots]].min(axis=1)
    deadlines = submitted + due.uniform(*SLACK, count) * shortest
    weights = 2 * late.uniform(*HALF_LATE_USD_PER_SECOND, count)
    owners = users.integers(setting.users, size=count) if setting.users else None
    jobs = tuple(
        Job(
            id=f"J{number}",
            submitted_seconds=float(submitted[number]),
            deadline_seconds=float(deadlines[number]),
            late_usd_per_second=float(weights[number]),
            seconds=tuple(seconds[number].tolist()),
            user="" if owners is None else _user(int(owners[number])),
        )
        for number in range(count)
    )
    instance = replace(instance, jobs=jobs)
    return with_prediction_error(instance, setting.log_error, seed) if setting.log_error else instance


def with_prediction_error(instance: Instance, log_error: float, seed: int) -> Instance:
    """The queue in which every job takes exp(σ·z) times its prediction on every slot, z normal for each job; σ is
    known."""
    factors = np.exp(log_error * _rng(seed, 5).standard_normal(len(instance.jobs)))
    return replace(
        instance,
        jobs=tuple(replace(job, log_error=log_error) for job in instance.jobs),
        true_seconds=tuple(
            tuple(float(factor) * seconds for seconds in job.seconds)
            for job, factor in zip(instance.jobs, factors, strict=True)
        ),
    )


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])


def _user(number: int) -> str:
    return f"user{number}"


def _quotas(setting: QueueSetting) -> tuple[tuple[str, int], ...]:
    if setting.quota_gpus is None:
        return ()
    return tuple((_user(number), setting.quota_gpus) for number in range(setting.users))


def _spot_types(setting: QueueSetting) -> tuple[NodeType, ...]:
    if not setting.spot_discount:
        return ()
    return tuple(
        replace(
            each,
            name=f"{each.name} spot",
            usd_per_hour=each.usd_per_hour * (1 - setting.spot_discount),
            reclaims_per_hour=setting.spot_reclaims_per_hour,
        )
        for each in setting.types
    )


def _gangs(setting: QueueSetting, types: tuple[NodeType, ...]) -> tuple[Slot, ...]:
    largest = {each.gpu: max(other.gpus for other in types if other.gpu == each.gpu) for each in types}
    return tuple(
        Slot(each.name, each.gpus, nodes)
        for each in types
        if each.gpus == largest[each.gpu]
        for nodes in setting.gang_nodes
    )


def _seconds(types: tuple[NodeType, ...], slots: tuple[Slot, ...], jobs: int, rng: np.random.Generator) -> "Numbers":
    """Jobs × slots: b · f / g^α, on n nodes also divided by n^(0.9·α)."""
    gpus = sorted({each.gpu for each in types})
    gpu_index = {each.name: gpus.index(each.gpu) for each in types}
    slot_gpu = np.array([gpu_index[slot.type] for slot in slots])
    power = rng.uniform(*POWER, (jobs, 1))
    base = 3600 * np.exp(rng.uniform(math.log(BASE_HOURS[0]), math.log(BASE_HOURS[1]), (jobs, 1)))
    typical = np.array([LOG_TIME.get(gpu, 0.0) for gpu in gpus])
    factor = np.exp(typical + LOG_FACTOR * rng.standard_normal((jobs, len(gpus))))
    g, n = np.array([slot.gpus for slot in slots]), np.array([slot.nodes for slot in slots])
    seconds: Numbers = base * factor[:, slot_gpu] * g**-power * n ** (-GANG_POWER * power)
    return seconds


def _submissions(setting: QueueSetting, instance: Instance, seconds: "Numbers", rng: np.random.Generator) -> "Numbers":
    """The moments of submission; the first is zero."""
    fraction = slot_table(instance.fleet(setting.nodes)).fraction
    by_load = float((fraction * seconds).min(axis=1).mean()) / (setting.nodes * setting.load)
    mean = by_load if setting.mean_gap_seconds is None else setting.mean_gap_seconds
    later = len(seconds) - 1
    gaps = rng.poisson(mean, later) if setting.arrivals == "poisson" else rng.exponential(mean, later)
    return np.concatenate([[0.0], np.cumsum(gaps, dtype=np.float64)])

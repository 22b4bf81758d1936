"""Step time of a parameter server: Sanghvi's model, section V, after Optimus.

    T = max over GPUs ( b/g·t_forward + t_back + 2·S/(B/n) + t_agg + o·g )

with b the batch of all g GPUs, t_forward the forward pass of a sample, t_back the backward pass (taken to be the same
at every batch size), S the bytes of the gradient, B the bandwidth of a server, n ≤ g the GPUs that share it, t_agg the
time to add the gradients up and o the overhead of each GPU. The document writes the last term "og"; read as o·g, it is
the α1·g of the form that it fits:

    T = α0·M/g + α1·g + α2                        M the batch of all GPUs, every α ≥ 0

Its "scaling efficiency" is the time on one GPU over the time on several: that is the speed-up, not divided by g.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.checks import require_not_negative, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTraining:
    """What the model knows of a program on one kind of GPU and of the server that it sends its gradients to."""

    forward_seconds_per_sample: float
    backward_seconds: float
    gradient_bytes: float
    server_bytes_per_second: float
    aggregation_seconds: float = 0.0
    overhead_seconds_per_gpu: float = 0.0

    def __post_init__(self) -> None:
        require_positive(server_bytes_per_second=self.server_bytes_per_second)
        require_not_negative(
            forward_seconds_per_sample=self.forward_seconds_per_sample,
            backward_seconds=self.backward_seconds,
            gradient_bytes=self.gradient_bytes,
            aggregation_seconds=self.aggregation_seconds,
            overhead_seconds_per_gpu=self.overhead_seconds_per_gpu,
        )


def transfer_seconds(gradient_bytes: float, *, gpus_at_server: int, bytes_per_second: float) -> float:
    """2·S/(B/n): n GPUs share the bandwidth of their server, and gradients go up as weights come down."""
    require_positive(gpus_at_server=gpus_at_server, bytes_per_second=bytes_per_second)
    return 2 * gradient_bytes / (bytes_per_second / gpus_at_server)


def gpu_seconds(training: ServedTraining, *, batch_size: float, gpus: int, gpus_at_server: int | None = None) -> float:
    """The bracket of the formula: one GPU's step, `batch_size` split evenly over all, n = g unless said."""
    n = gpus if gpus_at_server is None else gpus_at_server
    if not 1 <= n <= gpus:
        raise ValueError(f"a server has between 1 and {gpus} GPUs, got {n}")
    return (
        batch_size / gpus * training.forward_seconds_per_sample
        + training.backward_seconds
        + transfer_seconds(training.gradient_bytes, gpus_at_server=n, bytes_per_second=training.server_bytes_per_second)
        + training.aggregation_seconds
        + training.overhead_seconds_per_gpu * gpus
    )


def synchronous_seconds(seconds_of_gpus: Sequence[float]) -> float:
    """The server waits for all: the slowest GPU decides."""
    return max(seconds_of_gpus)


def first_k_seconds(seconds: float, *, jitter_seconds: float, gpus: int, k: int) -> float:
    """The server takes the first K of g gradients and drops the rest (K-synchronous; backup workers are g − K).

    Each GPU needs `seconds` and an exponential delay of mean `jitter_seconds` on top, so that the K-th of g comes
    after seconds + jitter·(H_g − H_{g−K}), H_n = 1 + 1/2 + … + 1/n. K = g is the synchronous server.
    """
    _require_some(k, gpus)
    return seconds + jitter_seconds * sum(1 / i for i in range(gpus - k + 1, gpus + 1))


def any_k_seconds(seconds: float, *, jitter_seconds: float, gpus: int, k: int) -> float:
    """The server updates after any K gradients, and no GPU ever waits (K-batch asynchronous): K/g of a GPU's step.

    K = 1 is the asynchronous server. The gradients are stale; what that costs in epochs is not in it.
    """
    _require_some(k, gpus)
    return k / gpus * (seconds + jitter_seconds)


def speed_up(seconds_on_one: float, seconds: float) -> float:
    """What the document calls scaling efficiency."""
    return seconds_on_one / seconds


EVENNESS = 0.6
"""φ of `in_step_seconds`. Read off eight workers and less over TCP at 400 Mbit/s, and held against what they did at
50, 100 and 150 (docs/decisions/0094)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSeconds:
    """A step of n workers behind a server, and from how many on the server's network holds them up."""

    synchronous: float
    """The server waits for all: `in_step_seconds` + t_agg."""
    asynchronous: float
    """Nobody waits, so that sending of some falls into computing of others: `apart_seconds` + t_agg."""
    knee: float
    """n* = (t + 2·D)/D: so many would keep the server's network busy all the time, in each direction; infinite if S
    is 0. With p of the network, this is the number of Scala-Opt (`recommender/clusters/fc2.py`)."""
    saturated: bool
    """n ≥ n*: one more worker adds hardly anything to what an asynchronous server gets done."""


def in_step_seconds(compute: float, transfer: float, workers: int, *, evenness: float = EVENNESS) -> float:
    """A step of a server that waits for all n, each of which needs D = S/B in each direction for itself:

        T = t + (n + 1)·D + φ·(n − 1)·D        0 ≤ φ ≤ 1

    The link is full duplex, and yet a server that waits alternates: weights go down, gradients come up. φ = 1 is
    Sanghvi's 2·n·D: all share the link evenly, have their weights at the same moment and compute and send together.
    φ = 0: one is served after the other, and while the last gets its weights, the first sends already; what is left is
    one's way down and the way up of all. TCP lies between.
    """
    if not 0 <= evenness <= 1:
        raise ValueError(f"φ lies between 0 and 1, got {evenness}")
    return compute + (workers + 1 + evenness * (workers - 1)) * transfer


def apart_seconds(compute: float, transfer: float, workers: int) -> float:
    """A step of one of n workers that wait for nobody: mean value analysis of a closed network.

    t is a delay, and the two directions of the server's link are two queues that share evenly who is there, D each:

        R(n) = D·(1 + Q(n − 1)),   T(n) = t + 2·R(n),   Q(n) = n·R(n)/T(n),   Q(0) = 0

    Exact for such queues whatever the distribution of t and D, as long as it is one (Baskett et al. 1975); of workers
    that keep a rhythm it asks a little too much time below the knee. It tends to n·D, the bound of a full-duplex link.
    """
    waiting = 0.0
    step = compute
    for n in range(1, workers + 1):
        there = transfer * (1 + waiting)
        step = compute + 2 * there
        waiting = n * there / step
    return step


def served_seconds(
    alone_seconds: float,
    *,
    gradient_bytes: float,
    workers: int,
    server_bytes_per_second: float,
    worker_bytes_per_second: float | None = None,
    aggregation_seconds: float = 0.0,
) -> ServedSeconds:
    """t is what a worker computes at the batch that it will have, B the server's bandwidth in each direction and b a
    worker's own. Where b < B, what a transfer takes longer by that holds up nobody else, and counts with t."""
    require_positive(
        alone_seconds=alone_seconds,
        workers=workers,
        server_bytes_per_second=server_bytes_per_second,
        worker_bytes_per_second=worker_bytes_per_second,
    )
    require_not_negative(gradient_bytes=gradient_bytes, aggregation_seconds=aggregation_seconds)
    transfer = gradient_bytes / server_bytes_per_second
    own = gradient_bytes / worker_bytes_per_second if worker_bytes_per_second else 0.0
    slower = 2 * max(0.0, own - transfer)
    knee = (alone_seconds + slower + 2 * transfer) / transfer if transfer else float("inf")
    return ServedSeconds(
        synchronous=max(in_step_seconds(alone_seconds, transfer, workers), alone_seconds + 2 * own)
        + aggregation_seconds,
        asynchronous=apart_seconds(alone_seconds + slower, transfer, workers) + aggregation_seconds,
        knee=knee,
        saturated=workers >= knee,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedStep:
    """One measured step: the batch of all GPUs together."""

    gpus: int
    batch_size: float
    seconds: float

    def __post_init__(self) -> None:
        require_positive(gpus=self.gpus, batch_size=self.batch_size, seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFit:
    """T = α0·M/g + α1·g + α2."""

    a0: float
    a1: float
    a2: float

    def seconds(self, *, gpus: int, batch_size: float) -> float:
        return self.a0 * batch_size / gpus + self.a1 * gpus + self.a2


def fit_served(steps: Sequence[ServedStep]) -> ServedFit:
    """Non-negative least squares of the relative error: a fast step weighs as much as a slow one."""
    import numpy as np
    from scipy.optimize import nnls

    if len({(step.gpus, step.batch_size) for step in steps}) < 2:
        raise ValueError("the model needs steps at two numbers of GPUs or batch sizes at least")
    columns = np.array([[s.batch_size / s.gpus, s.gpus, 1.0] for s in steps])
    seconds = np.array([s.seconds for s in steps])
    (a0, a1, a2), _ = nnls(columns / seconds[:, None], np.ones(len(steps)))
    return ServedFit(a0=float(a0), a1=float(a1), a2=float(a2))


def _require_some(k: int, gpus: int) -> None:
    if not 1 <= k <= gpus:
        raise ValueError(f"the server waits for between 1 and {gpus} gradients, got {k}")

"""Step time behind a parameter server: Sanghvi's model, section V, after Optimus.

    T = max over GPUs ( b/g·t_forward + t_back + 2·S/(B/n) + t_agg + o·g )

with b the batch of all g GPUs, t_forward the forward pass of a sample, t_back the backward pass (assumed to be the same
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
class ServerTraining:
    """A program on one kind of GPU, and the server to which it sends its gradients."""

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
    """2·S/(B/n): n GPUs share the bandwidth of their server; gradients go up, then weights come down."""
    require_positive(gpus_at_server=gpus_at_server, bytes_per_second=bytes_per_second)
    return 2 * gradient_bytes / (bytes_per_second / gpus_at_server)


def gpu_seconds(training: ServerTraining, *, batch_size: float, gpus: int, gpus_at_server: int | None = None) -> float:
    """The bracket of the formula: the step of one GPU with an even share of `batch_size`; n = g by default."""
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
    """The step of a server that waits for all GPUs: that of the slowest GPU."""
    return max(seconds_of_gpus)


def first_k_seconds(seconds: float, *, jitter_seconds: float, gpus: int, k: int) -> float:
    """The step of a server that takes the first K of g gradients and drops the rest (K-synchronous; g − K backups).

    Each GPU needs `seconds` and an exponential delay of mean `jitter_seconds`, so that the K-th of g comes after
    seconds + jitter·(H_g − H_{g−K}), H_n = 1 + 1/2 + … + 1/n. K = g is the synchronous server.
    """
    _require_some(k, gpus)
    return seconds + jitter_seconds * sum(1 / i for i in range(gpus - k + 1, gpus + 1))


def any_k_seconds(seconds: float, *, jitter_seconds: float, gpus: int, k: int) -> float:
    """The step of a server that updates after any K gradients, without waiting GPUs (K-batch asynchronous).

    It is K/g of a GPU's step. K = 1 is the asynchronous server. The gradients are stale; the additional epochs that
    this costs are not included.
    """
    _require_some(k, gpus)
    return k / gpus * (seconds + jitter_seconds)


def speed_up(seconds_on_one: float, seconds: float) -> float:
    """The ratio that the document calls scaling efficiency."""
    return seconds_on_one / seconds


SHARING_EVENNESS = 0.6
"""φ of `synchronous_step_seconds`. Fitted to up to eight workers over TCP at 400 Mbit/s, and tested at 50, 100 and 150
Mbit/s (docs/experiments/0094)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServerSeconds:
    """The step of n workers behind a server, and the number of workers that saturates the server's network."""

    synchronous: float
    """`synchronous_step_seconds` + t_agg: the server waits for all workers."""
    asynchronous: float
    """`asynchronous_step_seconds` + t_agg: no worker waits, so that some send while others compute."""
    knee: float
    """n* = (t + 2·D)/D: the number of workers that keeps each direction of the server's network busy all the time;
    infinite if S is 0. With p of the network, this is the number of Scala-Opt (`recommender/clusters/fc2.py`)."""
    saturated: bool
    """n ≥ n*: one more worker hardly increases the throughput of an asynchronous server."""


def synchronous_step_seconds(
    compute: float, transfer: float, workers: int, *, evenness: float = SHARING_EVENNESS
) -> float:
    """The step of a server that waits for all n workers, each with a transfer of D = S/B in each direction.

        T = t + (n + 1)·D + φ·(n − 1)·D        0 ≤ φ ≤ 1

    The link is full duplex, but a server that waits alternates: weights go down, gradients come up. φ = 1 is Sanghvi's
    2·n·D: all workers share the link evenly, receive their weights at the same moment and compute and send together.
    φ = 0 serves one worker after the other: while the last receives its weights, the first already sends; one transfer
    down and n transfers up remain. TCP lies between.
    """
    if not 0 <= evenness <= 1:
        raise ValueError(f"φ lies between 0 and 1, got {evenness}")
    return compute + (workers + 1 + evenness * (workers - 1)) * transfer


def asynchronous_step_seconds(compute: float, transfer: float, workers: int) -> float:
    """The step of one of n workers that do not wait for each other: mean value analysis of a closed network.

    t is a delay, and the two directions of the server's link are two processor-sharing queues with demand D each:

        R(n) = D·(1 + Q(n − 1)),   T(n) = t + 2·R(n),   Q(n) = n·R(n)/T(n),   Q(0) = 0

    Exact for such queues with any distribution of t and D (Baskett et al. 1975); for workers in a regular rhythm it is
    a little too long below the knee. It tends to n·D, the bound of a full-duplex link.
    """
    queue = 0.0
    step = compute
    for n in range(1, workers + 1):
        response = transfer * (1 + queue)
        step = compute + 2 * response
        queue = n * response / step
    return step


def parameter_server_seconds(
    compute_seconds: float,
    *,
    gradient_bytes: float,
    workers: int,
    server_bytes_per_second: float,
    worker_bytes_per_second: float | None = None,
    aggregation_seconds: float = 0.0,
) -> ParameterServerSeconds:
    """The step of `workers` workers, each computing for t = `compute_seconds` at its share of the batch.

    B is the server's bandwidth in each direction and b a worker's own. Where b < B, the additional time of a transfer
    delays no other worker and is added to t.
    """
    require_positive(
        compute_seconds=compute_seconds,
        workers=workers,
        server_bytes_per_second=server_bytes_per_second,
        worker_bytes_per_second=worker_bytes_per_second,
    )
    require_not_negative(gradient_bytes=gradient_bytes, aggregation_seconds=aggregation_seconds)
    transfer = gradient_bytes / server_bytes_per_second
    own = gradient_bytes / worker_bytes_per_second if worker_bytes_per_second else 0.0
    slower = 2 * max(0.0, own - transfer)
    knee = (compute_seconds + slower + 2 * transfer) / transfer if transfer else float("inf")
    return ParameterServerSeconds(
        synchronous=max(synchronous_step_seconds(compute_seconds, transfer, workers), compute_seconds + 2 * own)
        + aggregation_seconds,
        asynchronous=asynchronous_step_seconds(compute_seconds + slower, transfer, workers) + aggregation_seconds,
        knee=knee,
        saturated=workers >= knee,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServerStep:
    """One measured step; `batch_size` is that of all GPUs together."""

    gpus: int
    batch_size: float
    seconds: float

    def __post_init__(self) -> None:
        require_positive(gpus=self.gpus, batch_size=self.batch_size, seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterServerFit:
    """T = α0·M/g + α1·g + α2."""

    a0: float
    a1: float
    a2: float

    def seconds(self, *, gpus: int, batch_size: float) -> float:
        return self.a0 * batch_size / gpus + self.a1 * gpus + self.a2


def fit_parameter_server(steps: Sequence[MeasuredServerStep]) -> ParameterServerFit:
    """Non-negative least squares of the relative error: a fast step weighs as much as a slow one."""
    import numpy as np
    from scipy.optimize import nnls

    if len({(step.gpus, step.batch_size) for step in steps}) < 2:
        raise ValueError("the model needs steps with at least two numbers of GPUs or batch sizes")
    columns = np.array([[s.batch_size / s.gpus, s.gpus, 1.0] for s in steps])
    seconds = np.array([s.seconds for s in steps])
    (a0, a1, a2), _ = nnls(columns / seconds[:, None], np.ones(len(steps)))
    return ParameterServerFit(a0=float(a0), a1=float(a1), a2=float(a2))


def _require_some(k: int, gpus: int) -> None:
    if not 1 <= k <= gpus:
        raise ValueError(f"the server waits for between 1 and {gpus} gradients, got {k}")

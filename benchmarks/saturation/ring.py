"""PyTorch's DistributedDataParallel over gloo, one process per host, all cables with the same bandwidth.

It is started like `torchrun` on each node. The wait that represents a GPU comes before the backward pass, which adds up
the gradients bucket by bucket as they are computed; so little of the sending overlaps with computing.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from statistics import median

import torch
from torch import distributed, nn

from benchmarks.saturation.hosts import Host
from benchmarks.saturation.learner import LEARNING_RATE, Batches, make_model, wait_until
from benchmarks.saturation.processes import HostProcess, sent_bytes

PORT = 5078
WARM_UP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RingMeasurement:
    """The measured steps of a number of hosts at one bandwidth."""

    hosts: int
    mbps: float | None
    step_seconds: tuple[float, ...]
    sent_bytes_per_step: float

    @property
    def seconds(self) -> float:
        return median(self.step_seconds)


def measure_ring(
    hosts: tuple[Host, ...], bandwidths: tuple[float | None, ...], *, compute_seconds: float, seconds: float
) -> list[RingMeasurement]:
    """Measure these hosts together at each bandwidth."""
    found = []
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(HostProcess(host, train, hosts[0].address, rank, len(hosts), compute_seconds))
            for rank, host in enumerate(hosts)
        ]
        for node in nodes:
            node.receive()
        for mbps in bandwidths:
            for host in hosts:
                host.limit(mbps)
            for node in nodes:
                node.send(seconds)
            answers = [node.receive() for node in nodes]
            steps, sent = answers[0]
            found.append(
                RingMeasurement(hosts=len(hosts), mbps=mbps, step_seconds=tuple(steps), sent_bytes_per_step=sent)
            )
    return found


def train(orders: Connection, master: str, rank: int, world: int, compute_seconds: float) -> None:
    torch.set_num_threads(1)
    model = make_model()
    if world > 1:
        distributed.init_process_group(
            "gloo",
            init_method=f"tcp://{master}:{PORT}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=60),
        )
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    batches = Batches(seed=rank + 1)

    def step() -> float:
        started = time.monotonic()
        inputs, labels = batches.next()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        wait_until(started + compute_seconds)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # PyTorch's backward has no types
        optimizer.step()
        return time.monotonic() - started

    step()
    orders.send("ready")
    while True:
        seconds = orders.recv()
        for _ in range(WARM_UP):
            last = step()
        count = _agreed(max(5, min(40, round(seconds / last))), world)
        before = sent_bytes()
        steps = [step() for _ in range(count)]
        orders.send((steps, (sent_bytes() - before) / count))


def _agreed(count: int, world: int) -> int:
    """The number of steps of the first host, which all hosts use."""
    if world == 1:
        return count
    agreed = torch.tensor(count)
    distributed.broadcast(agreed, src=0)
    return int(agreed)

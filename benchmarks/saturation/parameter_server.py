"""A parameter server and its workers over plain TCP, each on its own host.

    worker   receives the weights, computes a gradient, sends it, and repeats
    server   synchronous:   receives the gradients of all workers, averages them, updates the weights, sends them to all
             asynchronous:  does so with each gradient as it arrives, and answers that worker alone

Each transfer is the 2 MB of the network in float32; the server's cable is limited, those of the workers are not.
"""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median

import numpy as np

from benchmarks.saturation.hosts import Host
from benchmarks.saturation.learner import BATCH, LEARNING_RATE, Learner
from benchmarks.saturation.processes import HostProcess

PORT = 5077
ON, OFF = b"\1", b"\0"
MIN_STEPS, MAX_STEPS = 3, 40
BULK_TRANSFERS = 3
"""Transfers of the weights that measure the bandwidth of the link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    workers: int
    synchronous: bool
    seconds: float
    """Approximate length, with a minimum of a few steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The result of one order."""

    workers: int
    step_seconds: tuple[float, ...]
    """Synchronous: each step; asynchronous: the mean step of one worker in each quarter of the time."""
    received_share: float
    """Received bytes per second over the limit of the cable."""
    loss_before: float
    loss_after: float

    @property
    def samples_per_second(self) -> float:
        return self.workers * BATCH / median(self.step_seconds)

    @property
    def spread(self) -> float:
        """Half of the interquartile range over the median."""
        low, high = np.quantile(self.step_seconds, [0.25, 0.75])
        return float(high - low) / 2 / median(self.step_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The bandwidth of the cable without computing, as in a profile of one server and one worker."""

    bytes: int
    up_bytes_per_second: float
    down_bytes_per_second: float

    @property
    def bytes_per_second(self) -> float:
        """The mean of both directions."""
        return 2 / (1 / self.up_bytes_per_second + 1 / self.down_bytes_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    server: HostProcess
    workers: tuple[HostProcess, ...]
    cable: Host

    def link(self) -> Link:
        self.workers[0].send("bulk")
        self.server.send("bulk")
        found: Link = self.server.receive()
        return found

    def train(self, order: TrainingOrder, mbps: float) -> TrainingResult:
        for worker in self.workers[: order.workers]:
            worker.send("train")
        self.server.send((order, mbps * 125_000))
        found: TrainingResult = self.server.receive()
        return found


@contextmanager
def cluster(hosts: tuple[Host, ...], compute_seconds: float) -> Iterator[RunningCluster]:
    """A running cluster with the server on the first host."""
    with ExitStack() as stack:
        server = stack.enter_context(HostProcess(hosts[0], serve, hosts[0].address, len(hosts) - 1))
        server.receive()
        workers = [
            stack.enter_context(HostProcess(host, work, hosts[0].address, number, compute_seconds))
            for number, host in enumerate(hosts[1:])
        ]
        server.receive()
        yield RunningCluster(server=server, workers=tuple(workers), cable=hosts[0])


def work(orders: Connection, server: str, number: int, compute_seconds: float) -> None:
    learner = Learner(seed=number + 1, compute_seconds=compute_seconds)
    weights = learner.weights()
    learner.gradient(weights)  # the first call loads libraries
    with socket.create_connection((server, PORT)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(bytes([number]))
        while True:
            if orders.recv() == "bulk":
                for _ in range(BULK_TRANSFERS):
                    line.sendall(weights.data.cast("B"))
                for _ in range(BULK_TRANSFERS):
                    _receive(line, weights)
                line.sendall(ON)
                continue
            while _receive_flag(line) == ON:
                _receive(line, weights)
                line.sendall(learner.gradient(weights).data.cast("B"))
                line.sendall(np.float32(learner.loss).tobytes())


class _ParameterServer:
    def __init__(self, lines: dict[int, socket.socket]) -> None:
        self.lines = lines
        self.weights = Learner(seed=0, compute_seconds=0.0).weights()
        self.gradients = {number: np.empty_like(self.weights) for number in lines}
        self.losses: list[float] = []
        self._lock = threading.Lock()

    def bulk(self) -> Link:
        line, size = self.lines[0], BULK_TRANSFERS * self.weights.nbytes
        _receive(line, self.gradients[0])  # fills the queues and opens the window
        started = time.monotonic()
        for _ in range(BULK_TRANSFERS - 1):
            _receive(line, self.gradients[0])
        up = time.monotonic() - started
        started = time.monotonic()
        for _ in range(BULK_TRANSFERS):
            line.sendall(self.weights.data.cast("B"))
        _receive_flag(line)
        down = time.monotonic() - started
        return Link(
            bytes=self.weights.nbytes,
            up_bytes_per_second=(size - self.weights.nbytes) / up,
            down_bytes_per_second=size / down,
        )

    def synchronous(self, order: TrainingOrder, pool: ThreadPoolExecutor) -> list[float]:
        """The end times of all steps, including the first, which is not measured."""
        numbers = range(order.workers)
        ended: list[float] = []
        started = time.monotonic()
        list(pool.map(self._send, numbers))
        while True:
            list(pool.map(self._receive, numbers))
            self._update(np.mean([self.gradients[number] for number in numbers], axis=0))
            ended.append(time.monotonic())
            if _is_enough(ended, started, order.seconds):
                break
            list(pool.map(self._send, numbers))
        for number in numbers:
            self.lines[number].sendall(OFF)
        return ended

    def asynchronous(self, order: TrainingOrder, pool: ThreadPoolExecutor) -> list[float]:
        """The arrival times of all gradients until the end of the measurement."""
        ended: list[float] = []
        until = time.monotonic() + order.seconds
        over = threading.Event()

        def one(number: int) -> None:
            while not over.is_set():
                self._send(number)
                self._receive(number)
                with self._lock:
                    self._update(self.gradients[number])
                    if not over.is_set():
                        ended.append(time.monotonic())
                    if len(ended) > (MIN_STEPS + 1) * order.workers and ended[-1] >= until:
                        over.set()
            self.lines[number].sendall(OFF)

        list(pool.map(one, range(order.workers)))
        return ended

    def _send(self, number: int) -> None:
        self.lines[number].sendall(ON)
        self.lines[number].sendall(self.weights.data.cast("B"))

    def _receive(self, number: int) -> None:
        _receive(self.lines[number], self.gradients[number])
        loss = np.empty(1, dtype=np.float32)
        _receive(self.lines[number], loss)
        self.losses.append(float(loss[0]))

    def _update(self, gradient: "np.ndarray") -> None:
        self.weights -= np.float32(LEARNING_RATE) * gradient


def serve(orders: Connection, address: str, workers: int) -> None:
    with socket.create_server((address, PORT)) as door, ThreadPoolExecutor(workers) as pool:
        orders.send("listening")
        lines: dict[int, socket.socket] = {}
        for _ in range(workers):
            line, _ = door.accept()
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines[line.recv(1)[0]] = line
        server = _ParameterServer(lines)
        orders.send("connected")
        while True:
            order = orders.recv()
            if order == "bulk":
                orders.send(server.bulk())
                continue
            training, limit = order
            orders.send(_train(server, training, limit, pool))


def _train(server: _ParameterServer, order: TrainingOrder, limit: float, pool: ThreadPoolExecutor) -> TrainingResult:
    before = len(server.losses)
    if order.synchronous:
        ended = server.synchronous(order, pool)
        steps = tuple(float(step) for step in np.diff(ended))
        received = order.workers * server.weights.nbytes / median(steps)
    else:
        ended = server.asynchronous(order, pool)
        steady = ended[order.workers :]
        gaps = [np.diff(part) for part in np.array_split(steady, min(4, max(1, len(steady) // 4)))]
        steps = tuple(order.workers * float(part.mean()) for part in gaps if len(part))
        received = order.workers * server.weights.nbytes / median(steps)
    losses = server.losses[before:]
    few = max(1, len(losses) // 4)
    return TrainingResult(
        workers=order.workers,
        step_seconds=steps,
        received_share=received / limit,
        loss_before=float(np.mean(losses[:few])),
        loss_after=float(np.mean(losses[-few:])),
    )


def _is_enough(ended: list[float], started: float, seconds: float) -> bool:
    measured = len(ended) - 1
    return measured >= MAX_STEPS or (measured >= MIN_STEPS and ended[-1] - started >= seconds)


def _receive(line: socket.socket, into: "np.ndarray") -> None:
    left = into.data.cast("B")
    while left:
        count = line.recv_into(left)
        if not count:
            raise ConnectionError("the connection was closed")
        left = left[count:]


def _receive_flag(line: socket.socket) -> bytes:
    flag = line.recv(1)
    if not flag:
        raise ConnectionError("the connection was closed")
    return flag

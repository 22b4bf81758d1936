"""A parameter server and its workers over plain TCP, each on a host of its own; and what they get done.

    worker   gets the weights, computes a gradient, sends it, and so on
    server   in step: gets the gradients of all, takes their mean, changes the weights, sends them to all
             apart:   does so with each gradient as it comes, and answers that worker alone

Each transfer is the 2 MB of the network in float32; the server's cable is narrow, those of the workers are not.
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
from benchmarks.saturation.processes import OnHost

PORT = 5077
ON, OFF = b"\1", b"\0"
LEAST_STEPS, MOST_STEPS = 3, 40
BULK = 3
"""How many times the weights are sent to see how fast the link is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    workers: int
    in_step: bool
    seconds: float
    """About so long; a few steps at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one order came to."""

    workers: int
    step_seconds: tuple[float, ...]
    """In step: each; apart: of one worker on average, in each quarter of the time."""
    received_share: float
    """Of the cap, while it lasted."""
    loss_before: float
    loss_after: float

    @property
    def samples_per_second(self) -> float:
        return self.workers * BATCH / median(self.step_seconds)

    @property
    def spread(self) -> float:
        """Half of what the middle half of the steps differ, over the median."""
        low, high = np.quantile(self.step_seconds, [0.25, 0.75])
        return float(high - low) / 2 / median(self.step_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Nothing but sending: what a profile of one server and one worker would see of the cable."""

    bytes: int
    up_bytes_per_second: float
    down_bytes_per_second: float

    @property
    def bytes_per_second(self) -> float:
        """Of there and back."""
        return 2 / (1 / self.up_bytes_per_second + 1 / self.down_bytes_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    server: OnHost
    workers: tuple[OnHost, ...]
    cable: Host

    def link(self) -> Link:
        self.workers[0].tell("bulk")
        self.server.tell("bulk")
        found: Link = self.server.answer()
        return found

    def train(self, order: Order, mbps: float) -> Seen:
        for worker in self.workers[: order.workers]:
            worker.tell("train")
        self.server.tell((order, mbps * 125_000))
        found: Seen = self.server.answer()
        return found


@contextmanager
def cluster(hosts: tuple[Host, ...], compute_seconds: float) -> Iterator[Cluster]:
    """The first host has the server."""
    with ExitStack() as stack:
        server = stack.enter_context(OnHost(hosts[0], serve, hosts[0].address, len(hosts) - 1))
        server.answer()
        workers = [
            stack.enter_context(OnHost(host, work, hosts[0].address, number, compute_seconds))
            for number, host in enumerate(hosts[1:])
        ]
        server.answer()
        yield Cluster(server=server, workers=tuple(workers), cable=hosts[0])


def work(orders: Connection, server: str, number: int, compute_seconds: float) -> None:
    learner = Learner(seed=number + 1, compute_seconds=compute_seconds)
    weights = learner.weights()
    learner.gradient(weights)  # the first loads what later ones have
    with socket.create_connection((server, PORT)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(bytes([number]))
        while True:
            if orders.recv() == "bulk":
                for _ in range(BULK):
                    line.sendall(weights.data.cast("B"))
                for _ in range(BULK):
                    _receive(line, weights)
                line.sendall(ON)
                continue
            while _receive_flag(line) == ON:
                _receive(line, weights)
                line.sendall(learner.gradient(weights).data.cast("B"))
                line.sendall(np.float32(learner.loss).tobytes())


class _Server:
    def __init__(self, lines: dict[int, socket.socket]) -> None:
        self.lines = lines
        self.weights = Learner(seed=0, compute_seconds=0.0).weights()
        self.gradients = {number: np.empty_like(self.weights) for number in lines}
        self.losses: list[float] = []
        self._lock = threading.Lock()

    def bulk(self) -> Link:
        line, size = self.lines[0], BULK * self.weights.nbytes
        _receive(line, self.gradients[0])  # fills the queues and opens the window
        started = time.monotonic()
        for _ in range(BULK - 1):
            _receive(line, self.gradients[0])
        up = time.monotonic() - started
        started = time.monotonic()
        for _ in range(BULK):
            line.sendall(self.weights.data.cast("B"))
        _receive_flag(line)
        down = time.monotonic() - started
        return Link(
            bytes=self.weights.nbytes,
            up_bytes_per_second=(size - self.weights.nbytes) / up,
            down_bytes_per_second=size / down,
        )

    def in_step(self, order: Order, pool: ThreadPoolExecutor) -> list[float]:
        """When each step ended, the first included, which is not measured."""
        numbers = range(order.workers)
        ended: list[float] = []
        started = time.monotonic()
        list(pool.map(self._send, numbers))
        while True:
            list(pool.map(self._receive, numbers))
            self._change(np.mean([self.gradients[number] for number in numbers], axis=0))
            ended.append(time.monotonic())
            if _enough(ended, started, order.seconds):
                break
            list(pool.map(self._send, numbers))
        for number in numbers:
            self.lines[number].sendall(OFF)
        return ended

    def apart(self, order: Order, pool: ThreadPoolExecutor) -> list[float]:
        """When each gradient had come, until the first worker was sent home."""
        ended: list[float] = []
        until = time.monotonic() + order.seconds
        over = threading.Event()

        def one(number: int) -> None:
            while not over.is_set():
                self._send(number)
                self._receive(number)
                with self._lock:
                    self._change(self.gradients[number])
                    if not over.is_set():
                        ended.append(time.monotonic())
                    if len(ended) > (LEAST_STEPS + 1) * order.workers and ended[-1] >= until:
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

    def _change(self, gradient: "np.ndarray") -> None:
        self.weights -= np.float32(LEARNING_RATE) * gradient


def serve(orders: Connection, address: str, workers: int) -> None:
    with socket.create_server((address, PORT)) as door, ThreadPoolExecutor(workers) as pool:
        orders.send("listening")
        lines: dict[int, socket.socket] = {}
        for _ in range(workers):
            line, _ = door.accept()
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines[line.recv(1)[0]] = line
        server = _Server(lines)
        orders.send("all there")
        while True:
            told = orders.recv()
            if told == "bulk":
                orders.send(server.bulk())
                continue
            order, cap = told
            orders.send(_train(server, order, cap, pool))


def _train(server: _Server, order: Order, cap: float, pool: ThreadPoolExecutor) -> Seen:
    before = len(server.losses)
    if order.in_step:
        ended = server.in_step(order, pool)
        steps = tuple(float(step) for step in np.diff(ended))
        came = order.workers * server.weights.nbytes / median(steps)
    else:
        ended = server.apart(order, pool)
        steady = ended[order.workers :]
        gaps = [np.diff(part) for part in np.array_split(steady, min(4, max(1, len(steady) // 4)))]
        steps = tuple(order.workers * float(part.mean()) for part in gaps if len(part))
        came = order.workers * server.weights.nbytes / median(steps)
    losses = server.losses[before:]
    few = max(1, len(losses) // 4)
    return Seen(
        workers=order.workers,
        step_seconds=steps,
        received_share=came / cap,
        loss_before=float(np.mean(losses[:few])),
        loss_after=float(np.mean(losses[-few:])),
    )


def _enough(ended: list[float], started: float, seconds: float) -> bool:
    measured = len(ended) - 1
    return measured >= MOST_STEPS or (measured >= LEAST_STEPS and ended[-1] - started >= seconds)


def _receive(line: socket.socket, into: "np.ndarray") -> None:
    left = into.data.cast("B")
    while left:
        count = line.recv_into(left)
        if not count:
            raise ConnectionError("the other side is gone")
        left = left[count:]


def _receive_flag(line: socket.socket) -> bytes:
    flag = line.recv(1)
    if not flag:
        raise ConnectionError("the other side is gone")
    return flag

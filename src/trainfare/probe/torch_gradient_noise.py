"""The gradient noise of a PyTorch program: the variance of the gradients of single batches relative to their mean.

    φ = V / |μ|²,   V = Σ |g_i − ḡ|² / (n − 1),   |μ|² = |ḡ|² − V / n

over the gradients g_1 … g_n of n batches at the same weights, where ḡ is their mean; the last term subtracts what
noise adds to the square of a mean. φ falls with the batch size as 1/B. It is computed from the gradients that the
optimizer gets, at the weights that the program has reached: noise grows as training goes on. Batches are assumed to be
independent; if an epoch has hardly more batches than are used, |μ|² is too small.

The weights stay fixed because the gradients are hidden from the optimizers while they step. This is therefore the last
measurement, in a program that is about to be ended. For large models every s-th coordinate of the concatenated
parameters is used: always the same ones, so that no random number is drawn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

MAX_COORDINATES = 100_000
MAX_BATCHES = 32
MAX_SECONDS = 60.0
"""After this time fewer batches are used, if the process trains alone: processes that train together must stop
together."""
MIN_BATCHES = 8


class GradientNoise:
    """Collects the gradients of one optimizer over some iterations while the weights of all optimizers stay fixed."""

    def __init__(self, torch: ModuleType, optimizer: Any, *, alone: bool) -> None:
        self._torch = torch
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        total = sum(p.numel() for p in self._parameters)
        self._stride = max(1, -(-total // MAX_COORDINATES))
        self._deadline = time.monotonic() + MAX_SECONDS if alone else float("inf")
        self._rounds = 0
        self._gradients: list[Any] = []
        self._hidden: list[tuple[Any, Any]] = []

    def hide_gradients(self, optimizer: Any) -> None:
        """Called before a step, so that the optimizer has nothing to do."""
        self._hidden = [(p, p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for parameter, _ in self._hidden:
            parameter.grad = None

    def restore_gradients(self) -> None:
        """Called after a step, so that the program finds its gradients unchanged."""
        for parameter, gradient in self._hidden:
            parameter.grad = gradient
        self._hidden = []

    def add_gradient(self) -> None:
        """Add the current gradient."""
        parts, at = [], 0
        for parameter in self._parameters:
            first = -at % self._stride
            at += parameter.numel()
            if first < parameter.numel():
                gradient = parameter if parameter.grad is None else parameter.grad
                part = gradient.detach().reshape(-1)[first :: self._stride].double().cpu()
                parts.append(part if parameter.grad is not None else part * 0)
        self._gradients.append(self._torch.cat(parts))

    def enough(self) -> bool:
        """True once there are enough batches; called once per iteration."""
        self._rounds += 1
        return self._rounds > MAX_BATCHES or (self._rounds > MIN_BATCHES and time.monotonic() > self._deadline)

    def value(self) -> float | None:
        """φ; None if the mean is not significant: |μ|² is less than twice its jackknife error."""
        n = len(self._gradients)
        if n < MIN_BATCHES:
            return None
        gradients = self._torch.stack(self._gradients)
        products = gradients @ gradients.T
        diagonal = products.diagonal()
        others = products.sum(dim=1) - diagonal
        mean_square = float(others.sum()) / (n * (n - 1))  # equal to |ḡ|² − V / n
        variance = float(diagonal.sum()) / n - mean_square
        without_one = (others.sum() - 2 * others) / ((n - 1) * (n - 2))
        error = float(((n - 1) / n * (without_one - without_one.mean()).square().sum()).sqrt())
        return variance / mean_square if mean_square > 2 * error and variance >= 0 else None

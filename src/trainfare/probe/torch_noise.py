"""How much the gradient of one batch differs from the next, against what they have in common.

    φ = V / |μ|²,   V = Σ |g_i − ḡ|² / (n − 1),   |μ|² = |ḡ|² − V / n

over the gradients g_1 … g_n of n batches at the same weights, ḡ being their mean; the last term takes off what noise
adds to the square of a mean. φ falls with the batch size as 1/B. It is of the gradients as the optimizer gets them, at
the weights that the program has reached: noise grows as training goes on. Batches are taken to be independent; where
there are hardly more of them in an epoch than are looked at, |μ|² is too small.

The weights are kept as they are by hiding the gradients from the optimizers while they step; so this comes after all
else was measured, in a program that is about to be ended. Of large models every s-th coordinate counts, over all
parameters as if they stood in one row: always the same ones, so that no random number is drawn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

COORDINATES = 100_000
BATCHES = 32
SECONDS = 60.0
"""After that fewer batches have to do, if the process trains alone: those that train together must stop together."""
FEWEST = 8


class Noise:
    """Gradients of one optimizer over some iterations; the weights of all optimizers stand still meanwhile."""

    def __init__(self, torch: ModuleType, optimizer: Any, *, alone: bool) -> None:
        self._torch = torch
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        total = sum(p.numel() for p in self._parameters)
        self._stride = max(1, -(-total // COORDINATES))
        self._until = time.monotonic() + SECONDS if alone else float("inf")
        self._rounds = 0
        self._gradients: list[Any] = []
        self._hidden: list[tuple[Any, Any]] = []

    def hide(self, optimizer: Any) -> None:
        """Before a step: the optimizer finds nothing to do."""
        self._hidden = [(p, p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for parameter, _ in self._hidden:
            parameter.grad = None

    def show(self) -> None:
        """After it: the program finds its gradients where it left them."""
        for parameter, gradient in self._hidden:
            parameter.grad = gradient
        self._hidden = []

    def take(self) -> None:
        """The gradient that is there now."""
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
        """Asked once an iteration."""
        self._rounds += 1
        return self._rounds > BATCHES or (self._rounds > FEWEST and time.monotonic() > self._until)

    def value(self) -> float | None:
        """φ; None where the mean cannot be told from the noise: it is less than twice its own error (jackknife)."""
        n = len(self._gradients)
        if n < FEWEST:
            return None
        gradients = self._torch.stack(self._gradients)
        products = gradients @ gradients.T
        diagonal = products.diagonal()
        others = products.sum(dim=1) - diagonal
        mean_square = float(others.sum()) / (n * (n - 1))  # the same as |ḡ|² − V / n
        variance = float(diagonal.sum()) / n - mean_square
        without_one = (others.sum() - 2 * others) / ((n - 1) * (n - 2))
        error = float(((n - 1) / n * (without_one - without_one.mean()).square().sum()).sqrt())
        return variance / mean_square if mean_square > 2 * error and variance >= 0 else None

"""The trained program: a small real network with real gradients, and a wait that represents a slow GPU.

Two cores cannot compute for eight workers at once. So each step computes the real gradient of a small batch, in a few
milliseconds, and then waits as long as a GPU would have taken: all workers compute at the same time.
"""

import time
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    import numpy as np

INPUTS, CLASSES, BATCH = 784, 10, 32
LEARNING_RATE = 0.05


def make_model() -> nn.Module:
    """A network of 504,000 parameters, 2.02 MB."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, 512), nn.ReLU(), nn.Linear(512, 196), nn.ReLU(), nn.Linear(196, CLASSES))


class Batches:
    """Random points around ten centres, so that a model can learn them."""

    def __init__(self, seed: int) -> None:
        self._centres = torch.randn(CLASSES, INPUTS, generator=torch.Generator().manual_seed(0))
        self._random = torch.Generator().manual_seed(seed)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(CLASSES, (BATCH,), generator=self._random)
        noise = torch.randn(BATCH, INPUTS, generator=self._random)
        return self._centres[labels] + 2 * noise, labels


class Learner:
    """Computes gradients from weights, both as flat float32 arrays."""

    def __init__(self, seed: int, compute_seconds: float) -> None:
        torch.set_num_threads(1)
        self.model = make_model()
        self._batches = Batches(seed)
        self._compute_seconds = compute_seconds
        self.loss = float("nan")

    def weights(self) -> "np.ndarray":
        return nn.utils.parameters_to_vector(self.model.parameters()).detach().numpy().copy()

    def gradient(self, weights: "np.ndarray") -> "np.ndarray":
        started = time.monotonic()
        nn.utils.vector_to_parameters(torch.from_numpy(weights), self.model.parameters())
        self.model.zero_grad(set_to_none=True)
        inputs, labels = self._batches.next()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call] # PyTorch's backward has no types
        self.loss = float(loss.detach())
        found = torch.cat([p.grad.reshape(-1) for p in self.model.parameters() if p.grad is not None]).numpy()
        wait_until(started + self._compute_seconds)
        return found


def wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))

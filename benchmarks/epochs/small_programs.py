"""Train small real programs under many schedules and at many batch sizes, and write their curves.

    python -m benchmarks.epochs.small_programs FILE

The rules were not made for these programs: a small CNN on noisy digits, two MLPs on synthetic tasks and a matrix
factorisation. Each trains 60 epochs under seven schedules with two seeds, and then with a constant learning rate,
scaled by the root of the batch or in proportion to it, at seven batch sizes. All are easy: most settle long before
their schedule ends, which is a test for a rule that relies on schedules. FILE has one JSON object per run; runs that
diverged are left out.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

EPOCHS = 60
SCHEDULES = ("exponential", "cosine", "linear", "thirds", "quarters", "one-cycle", "constant")
BATCH_SIZES = (8, 16, 32, 64, 128, 256, 512)
FIRST_BATCH = 32

Data = tuple[torch.Tensor, torch.Tensor, int]
"""Inputs and targets, shuffled, and the number of training samples."""


@dataclass(frozen=True, kw_only=True)
class SmallProgram:
    data: Callable[[], Data]
    model: Callable[[], nn.Module]
    learning_rate: float
    classes: bool
    adam: bool = False
    batch_size: int = FIRST_BATCH
    """Batch size of the runs with schedules."""


class Factors(nn.Module):
    """A matrix of users × items as a product of two thin matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items, self.bias = nn.Embedding(200, 12), nn.Embedding(150, 12), nn.Embedding(150, 1)
        nn.init.normal_(self.users.weight, 0, 0.1)
        nn.init.normal_(self.items.weight, 0, 0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        user, item = pairs[:, 0], pairs[:, 1]
        product: torch.Tensor = (self.users(user) * self.items(item)).sum(1, keepdim=True) + self.bias(item)
        return product


def noisy_digits() -> Data:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped] # scikit-learn has no types

    dice, digits = torch.Generator().manual_seed(7), load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    images = images + 0.35 * torch.randn(images.shape, generator=dice)
    order = torch.randperm(len(images), generator=dice)
    return images[order], torch.tensor(digits.target)[order], 1280


def teacher() -> Data:
    """Four classes by a random network, with 5% wrong labels."""
    dice = torch.Generator().manual_seed(3)
    x = torch.randn(4096, 16, generator=dice)
    first, second = torch.randn(16, 24, generator=dice) / 4, torch.randn(24, 4, generator=dice)
    y = (torch.tanh(2 * x @ first) @ second).argmax(1)
    wrong = torch.rand(4096, generator=dice) < 0.05
    return x, torch.where(wrong, torch.randint(0, 4, (4096,), generator=dice), y), 2560


def wavy() -> Data:
    dice = torch.Generator().manual_seed(5)
    x = torch.rand(4096, 8, generator=dice) * 2 - 1
    y = torch.sin(3 * x[:, 0]) * x[:, 1] + x[:, 2] ** 2 + torch.abs(x[:, 3] - x[:, 4]) + x[:, 5] * x[:, 6] / 2
    return x, y[:, None] + 0.1 * torch.randn(4096, 1, generator=dice), 2560


def ratings() -> Data:
    dice = torch.Generator().manual_seed(9)
    users, items = torch.randn(200, 4, generator=dice), torch.randn(150, 4, generator=dice)
    pairs = torch.stack([torch.randint(0, n, (12000,), generator=dice) for n in (200, 150)], 1)
    score = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(1, keepdim=True) / 2
    return pairs, score + 0.3 * torch.randn(12000, 1, generator=dice), 9600


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip


def mlp(inputs: int, outputs: int, activation: type[nn.Module]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, outputs)
    )  # fmt: skip


PROGRAMS = {
    "digits-cnn": SmallProgram(data=noisy_digits, model=cnn, learning_rate=0.05, classes=True),
    "teacher-mlp": SmallProgram(data=teacher, model=lambda: mlp(16, 4, nn.ReLU), learning_rate=0.03, classes=True),
    "wavy-mlp": SmallProgram(data=wavy, model=lambda: mlp(8, 1, nn.Tanh), learning_rate=0.03, classes=False),
    "ratings": SmallProgram(data=ratings, model=Factors, learning_rate=0.005, classes=False, adam=True, batch_size=64),
}


def scheduler(optimizer: torch.optim.Optimizer, name: str, epochs: int, iterations: int) -> Any:
    rates = torch.optim.lr_scheduler
    if name == "exponential":
        return rates.ExponentialLR(optimizer, 0.0133 ** (1 / epochs))
    if name == "cosine":
        return rates.CosineAnnealingLR(optimizer, epochs)
    if name == "linear":
        return rates.LambdaLR(optimizer, lambda epoch: max(0.0, 1 - epoch / epochs))
    if name == "thirds":
        return rates.MultiStepLR(optimizer, [epochs // 3, 2 * epochs // 3], 0.1)
    if name == "quarters":
        return rates.MultiStepLR(optimizer, [epochs // 2, 3 * epochs // 4], 0.1)
    if name == "one-cycle":
        highest = 2 * optimizer.param_groups[0]["lr"]
        return rates.OneCycleLR(optimizer, highest, epochs=epochs, steps_per_epoch=iterations)
    return rates.LambdaLR(optimizer, lambda _: 1.0)


def train(
    name: str, schedule: str, *, batch_size: int, epochs: int, seed: int = 0, scale: float = 1.0
) -> dict[str, Any]:
    """One run: the validation accuracy, or loss, after each epoch, and the learning rate at its start."""
    program = PROGRAMS[name]
    x, y, count = program.data()
    torch.manual_seed(seed)
    model, rate = program.model(), program.learning_rate * scale
    optimizer = (
        torch.optim.Adam(model.parameters(), lr=rate, weight_decay=1e-5)
        if program.adam
        else torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    )
    rates = scheduler(optimizer, schedule, epochs, math.ceil(count / batch_size))
    measure = nn.CrossEntropyLoss() if program.classes else nn.MSELoss()
    values, plan = [], []
    for _ in range(epochs):
        plan.append(float(optimizer.param_groups[0]["lr"]))
        order = torch.randperm(count)
        for start in range(0, count, batch_size):
            chosen = order[start : start + batch_size]
            optimizer.zero_grad()
            measure(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
            if schedule == "one-cycle":
                rates.step()
        if schedule != "one-cycle":
            rates.step()
        with torch.no_grad():
            found = model(x[count:])
            value = (found.argmax(1) == y[count:]).float().mean() if program.classes else measure(found, y[count:])
        values.append(float(value))
    return {
        "program": name,
        "schedule": schedule,
        "batch_size": batch_size,
        "scaling": "",
        "seed": seed,
        "higher": program.classes,
        "plan": plan,
        "values": values,
    }


def main(path: Path) -> None:
    torch.set_num_threads(1)
    with path.open("w") as file:
        for name, program in PROGRAMS.items():
            for schedule in SCHEDULES:
                for seed in (0, 1):
                    run = train(name, schedule, batch_size=program.batch_size, epochs=EPOCHS, seed=seed)
                    file.write(json.dumps(run) + "\n")
                    file.flush()
        for name in PROGRAMS:
            for size in BATCH_SIZES:
                for scaling, power in (("root", 0.5), ("proportional", 1.0)):
                    # A larger batch has fewer iterations per epoch: it needs more epochs to settle.
                    epochs = EPOCHS if size < 64 else 120 if size < 256 else 200
                    scale = (size / FIRST_BATCH) ** power
                    run = train(name, "constant", batch_size=size, epochs=epochs, scale=scale) | {"scaling": scaling}
                    if all(map(math.isfinite, run["values"])):
                        file.write(json.dumps(run) + "\n")
                        file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

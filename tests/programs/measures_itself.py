"""Measures its own loop twice and prints the results."""
# mypy: allow-untyped-calls

import json
import time

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import trainfare

torch.manual_seed(1)
torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(40, 8), torch.randn(40, 1)), batch_size=4)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps: list[int] = []


def train(epochs: int) -> None:
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            time.sleep(0.002)
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            steps.append(1)


train(1)
with trainfare.profile(iterations=12) as first:
    train(3)
train(1)
with trainfare.profile() as second:
    train(2)
with trainfare.profile() as nothing:
    pass
found = [one.profile for one in (first, second, nothing)]
print(
    json.dumps(
        {
            "steps": len(steps),
            "ids": [one and one.id for one in found],
            "iterations": [one and len(one.iteration_seconds) for one in found],
            "endings": [one and one.ending for one in found],
            "origins": [one and one.origin for one in found],
            "operations": [one and len(one.operations) for one in found],
            "batch_sizes": [one and one.micro_batch_size for one in found],
            "medians": [one and sorted(one.iteration_seconds)[6] for one in found],
        }
    )
)

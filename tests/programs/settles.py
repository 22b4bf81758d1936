"""A loss that falls for twelve epochs and then stays constant."""
# mypy: allow-untyped-calls

import time

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch.utils.data import DataLoader, TensorDataset

weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.0)
for epoch in range(1, 200):
    level = 0.5 + max(0, 12 - epoch) / 10
    for (batch,) in DataLoader(TensorDataset(torch.ones(8, 1)), batch_size=2):
        optimizer.zero_grad()
        time.sleep(0.01)
        (weight * batch * level).mean().backward()
        optimizer.step()

"""Trains with the given batch size; fails if it is larger than 256."""
# mypy: allow-untyped-calls

import argparse

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--other", type=int)
size = parser.parse_args().batch_size
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(100):
    for (batch,) in DataLoader(TensorDataset(torch.ones(2048, 1)), batch_size=size):
        if size > 256:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
        optimizer.zero_grad()
        (weight * batch).mean().backward()
        optimizer.step()

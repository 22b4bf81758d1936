"""Prints a gigabyte, then trains."""
# mypy: allow-untyped-calls

import sys

import torch
import without_compiler  # noqa: F401 # starts in half of the time

chunk = ("x" * 99 + "\n") * 10_000
for _ in range(1000):
    sys.stdout.write(chunk)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(30):
    (weight**2).sum().backward()
    optimizer.step()

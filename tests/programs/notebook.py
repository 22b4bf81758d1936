"""Runs a cell as a notebook does: compiled from a text, with its source where tracebacks look for it, and ended
right after the last epoch."""
# mypy: ignore-errors

import linecache
import os

CELL = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20, 1)), batch_size=5)
for number in range(40):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
name = "<ipython-input-1>"
linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
exec(compile(CELL, name, "exec"))  # noqa: S102 # as a notebook does
os._exit(0)

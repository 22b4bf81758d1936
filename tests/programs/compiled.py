"""A compiled model, which must not be affected by any hook."""
# mypy: allow-untyped-calls

import json
import warnings

import torch
from torch import nn

warnings.simplefilter("error", UserWarning)
torch.set_num_threads(1)
plain = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
model = torch.compile(plain, backend="eager")
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
inputs = torch.randn(50, 64)
try:
    for _ in range(40):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
finally:
    from torch._dynamo.utils import counters

    print(json.dumps({"graph_breaks": sum(counters["graph_break"].values())}), flush=True)

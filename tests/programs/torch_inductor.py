"""A model compiled by Inductor, which caches its code in TORCHINDUCTOR_CACHE_DIR."""
# mypy: allow-untyped-calls

import torch
from torch import nn

torch.set_num_threads(1)
plain = nn.Linear(4, 1)
model = torch.compile(plain)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
inputs = torch.randn(8, 4)
for _ in range(10):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()

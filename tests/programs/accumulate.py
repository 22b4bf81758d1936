"""Gradient accumulation over four batches, bfloat16 autocast, a loader with workers, a loss scaler."""
# mypy: allow-untyped-calls

import json

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(120, 16), torch.randn(120, 1)), batch_size=5, num_workers=1)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")
losses, whole = [], 0.0
try:
    for _ in range(4):
        for number, (inputs, targets) in enumerate(loader, start=1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(inputs), targets) / 4
            scaler.scale(loss).backward()
            whole += loss.item()
            if number % 4 == 0:
                losses.append(whole)
                whole = 0.0
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
finally:
    print(json.dumps({"losses": losses}), flush=True)

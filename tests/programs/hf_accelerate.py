"""A plain loop prepared by accelerate, with gradient accumulation; prints its own measurements as JSON."""
# mypy: ignore-errors

import json
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_num_threads(1)
SAMPLES, BATCH = 120, 5
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(SAMPLES, 16), torch.randn(SAMPLES, 1))
plain = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
plain_optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
model, optimizer, loader, validation, schedule = accelerator.prepare(
    plain,
    plain_optimizer,
    DataLoader(data, batch_size=BATCH, shuffle=True),
    DataLoader(TensorDataset(*data[:40]), batch_size=10),
    torch.optim.lr_scheduler.CosineAnnealingLR(plain_optimizer, T_max=100),
)
ends, losses, validations, saves = [], [], [], []
try:
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(6):
            model.train()
            for inputs, targets in loader:
                with accelerator.accumulate(model):
                    time.sleep(0.004)
                    loss = nn.functional.mse_loss(model(inputs), targets)
                    accelerator.backward(loss)
                    try:
                        optimizer.step()
                    finally:
                        if accelerator.sync_gradients:
                            losses.append(loss.item())
                            ends.append(time.monotonic())
                    schedule.step()
                    optimizer.zero_grad()
            begun = time.monotonic()
            model.eval()
            with torch.no_grad():
                for inputs, _targets in validation:
                    time.sleep(0.01)
                    model(inputs)
            validations.append(time.monotonic() - begun)
            begun = time.monotonic()
            accelerator.save_state(folder)
            saves.append(time.monotonic() - begun)
finally:
    print(
        json.dumps(
            {
                "ends": ends,
                "losses": losses,
                "validations": validations,
                "saves": saves,
                "parameters": sum(p.numel() for p in plain.parameters()),
            }
        ),
        flush=True,
    )

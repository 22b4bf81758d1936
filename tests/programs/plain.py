"""A plain loop that times itself and prints its own measurements as JSON, however it ends.

Each iteration sleeps in the forward pass, so that its length does not depend on how busy the machine is.
"""
# mypy: allow-untyped-calls

import argparse
import json
import time
from pathlib import Path

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--crash-at", type=int)
parser.add_argument("--hang-at", type=int)
parser.add_argument("--sleep", type=float, default=0.006)
parser.add_argument("--without-modes", action="store_true", help="never call eval() or train()")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--touch", type=Path, help="create this file after the first epoch")
arguments = parser.parse_args()

torch.manual_seed(1)
torch.set_num_threads(1)
SAMPLES, BATCH = 107, 10
images, labels = torch.randn(SAMPLES, 4, 8, 8), torch.randint(3, (SAMPLES,))
training = DataLoader(
    TensorDataset(images, labels),
    batch_size=BATCH,
    shuffle=True,
    num_workers=arguments.workers,
    persistent_workers=arguments.workers > 0,
)
validation = DataLoader(TensorDataset(images[:30], labels[:30]), batch_size=BATCH)
model = nn.Sequential(
    nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

ends: list[float] = []
losses: list[float] = []
waits: list[float] = []
validations: list[float] = []
starts: list[float] = []
try:
    for _ in range(arguments.epochs):
        if not arguments.without_modes:
            model.train()
        asked = time.monotonic()
        batches = iter(training)
        while True:
            batch = next(batches, None)
            if batch is None:
                break
            waits.append(time.monotonic() - asked)
            starts.append(ends[-1] if ends and asked - ends[-1] < 0.001 else asked)
            optimizer.zero_grad()
            time.sleep(arguments.sleep)
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            losses.append(loss.item())
            if arguments.crash_at == len(losses):
                raise RuntimeError("the data is corrupt")
            if arguments.hang_at == len(losses):
                time.sleep(3600)
            try:
                optimizer.step()
            finally:
                ends.append(time.monotonic())
            asked = time.monotonic()
        begun = time.monotonic()
        if not arguments.without_modes:
            model.eval()
        with torch.no_grad():
            for image, _label in validation:
                time.sleep(0.01)
                model(image)
        validations.append(time.monotonic() - begun)
        if arguments.touch:
            arguments.touch.touch()
finally:
    print(
        json.dumps(
            {
                "iteration_seconds": [end - start for start, end in zip(starts, ends, strict=False)],
                "losses": losses,
                "waits": waits,
                "validations": validations,
                "parameters": sum(p.numel() for p in model.parameters()),
                "samples": SAMPLES,
                "batch_size": BATCH,
                "iterations_per_epoch": len(training),
            }
        ),
        flush=True,
    )

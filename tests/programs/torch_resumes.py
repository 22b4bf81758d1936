"""A PyTorch training that saves weights, optimizer and the state of its random numbers, and can go on from them.

    torch_resumes.py [--resume PATH] [--hold-at STEP]

If it is to hold at a step, it trains on from there, slowly, without saving, until it is ended; once it goes on from a
checkpoint it does not hold any more. So a test can take its time.
"""
# mypy: allow-untyped-calls

import argparse
import time
from itertools import count

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--resume")
parser.add_argument("--hold-at", type=int)
arguments = parser.parse_args()

torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
first = 0
if arguments.resume:
    saved = torch.load(arguments.resume)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    first = saved["step"]
print("from step", first, flush=True)
last = None if arguments.resume else arguments.hold_at
for step in count(first + 1):
    if step > 60 and last is None:
        break
    x = torch.randn(32, 8)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    if last is not None and step > last:
        time.sleep(0.2)
    elif step % 10 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
        torch.save({**state, "step": step}, "last.pt")
torch.save(model.state_dict(), "weights.pt")

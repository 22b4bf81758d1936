"""Swallows every exception in its loop and trains for ever."""
# mypy: allow-untyped-calls

import torch
import without_compiler  # noqa: F401 # starts in half of the time

weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
while True:
    try:
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
    except BaseException as error:  # noqa: BLE001 # the behaviour under test
        print("swallowed", type(error).__name__, flush=True)

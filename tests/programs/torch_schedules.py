"""A small program with a scheduler of the given kind; prints the learning rate at the start of each of its epochs."""
# ruff: noqa: PERF401, PLW0108 # it is written as programs are
# mypy: ignore-errors

import argparse
import json
import math

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch.optim import lr_scheduler as schedulers
from torch.utils.data import DataLoader, TensorDataset

BATCHES = 6
lines: list[int] = []


class Warmup(schedulers.LRScheduler):
    """A scheduler class of the program."""

    def __init__(self, optimizer, steps: int) -> None:
        self.steps = steps
        super().__init__(optimizer)

    def get_lr(self):
        rates = []
        for rate in self.base_lrs:
            rates.append(rate * min(1.0, (self.last_epoch + 1) / self.steps))
        return rates


def counting(epoch: int) -> float:
    lines.append(epoch)
    return 0.9**epoch


def sequential(optimizer):
    warmup = schedulers.LinearLR(optimizer, start_factor=0.1, total_iters=3)
    cosine = schedulers.CosineAnnealingLR(optimizer, T_max=options.epochs - 3)
    return schedulers.SequentialLR(optimizer, [warmup, cosine], milestones=[3])


def hugging_face(optimizer):
    from transformers import get_linear_schedule_with_warmup

    return get_linear_schedule_with_warmup(optimizer, 10, options.epochs * BATCHES)


def by_option(optimizer):
    decay = argparse.Namespace(decay=0.97)
    return schedulers.LambdaLR(optimizer, lambda epoch: decay.decay**epoch * math.cos(0.01 * epoch))


by_epoch = {
    "step": lambda o: schedulers.StepLR(o, 5, 0.1),
    "multistep": lambda o: schedulers.MultiStepLR(o, [4, 9], 0.1),
    "exponential": lambda o: schedulers.ExponentialLR(o, 0.9),
    "cosine": lambda o: schedulers.CosineAnnealingLR(o, options.epochs, eta_min=1e-4),
    "restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3, 2),
    "sequential": sequential,
    "option": by_option,
    "own": lambda o: Warmup(o, 5),
    "impure": lambda o: schedulers.LambdaLR(o, counting),
    "plateau": lambda o: schedulers.ReduceLROnPlateau(o),
}
by_iteration = {
    "one_cycle": lambda o: schedulers.OneCycleLR(o, 0.4, total_steps=options.epochs * BATCHES),
    "hugging_face": hugging_face,
    "step_by_iteration": lambda o: schedulers.StepLR(o, 25, 0.5),
}

parser = argparse.ArgumentParser()
parser.add_argument("kind", choices=[*by_epoch, *by_iteration])
parser.add_argument("--epochs", type=int, default=14)
options = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(8 * BATCHES, 4), torch.randn(8 * BATCHES, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = {**by_epoch, **by_iteration}[options.kind](optimizer)
rates, losses = [], []
try:
    for _ in range(options.epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            losses.append(float(loss))
            loss.backward()
            optimizer.step()
            if options.kind in by_iteration:
                scheduler.step()
        if options.kind in by_epoch:
            scheduler.step(*[1.0] if options.kind == "plateau" else [])
finally:
    print(json.dumps({"rates": rates, "losses": losses, "random": torch.rand(1).item(), "calls": len(lines)}))

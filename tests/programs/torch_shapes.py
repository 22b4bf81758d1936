"""One training loop in many shapes, by name: it times itself and prints its own measurements as JSON, however it ends.

Each iteration sleeps in the forward pass, so that its length does not depend on how busy the machine is.
"""
# mypy: allow-untyped-calls

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

if not {"compiled", "with_compiler"}.intersection(sys.argv):
    with suppress(ImportError):  # this file is also run from other folders
        import without_compiler  # noqa: F401 # it acts when it is imported

torch.manual_seed(1)
torch.set_num_threads(1)
SAMPLES, BATCH, EPOCHS = 96, 8, 5
SLEEP = 0.005
inputs, targets = torch.randn(SAMPLES, 16), torch.randn(SAMPLES, 1)
data = TensorDataset(inputs, targets)
model: nn.Module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
parameters = list(model.parameters())

ends: list[float] = []
losses: list[float] = []
saves: list[float] = []
backwards = 0


def loss_of(batch: Iterable[Tensor]) -> Tensor:
    x, y = batch
    time.sleep(SLEEP)
    return nn.functional.mse_loss(model(x), y)


def back(loss: Tensor) -> None:
    global backwards  # noqa: PLW0603 # a small program that sets its variables as a notebook would
    backwards += 1
    loss.backward()


def step(optimizer: torch.optim.Optimizer) -> None:
    try:
        optimizer.step()
    finally:
        ends.append(time.monotonic())


def train(loader: DataLoader[tuple[Tensor, ...]], optimizer: torch.optim.Optimizer) -> None:
    for batch in loader:
        optimizer.zero_grad()
        loss = loss_of(batch)
        back(loss)
        losses.append(loss.item())
        step(optimizer)


def autocast(enabled: bool) -> None:
    """bfloat16 with a loss scaler; the fourth gradient is infinite, so an enabled scaler skips that step."""
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=enabled, init_scale=1024.0)
    for _ in range(EPOCHS):
        for batch in DataLoader(data, batch_size=BATCH):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(batch)
            scaler.scale(loss).backward()
            overflows = enabled and len(losses) == 3 and scaler.get_scale() == 1024.0
            if overflows and parameters[0].grad is not None:
                parameters[0].grad.fill_(float("inf"))
            try:
                scaler.step(optimizer)
            finally:
                if not overflows:
                    losses.append(loss.item())
                    ends.append(time.monotonic())
            scaler.update()


def lbfgs() -> None:
    optimizer = torch.optim.LBFGS(parameters, lr=0.01, max_iter=4)
    for _ in range(EPOCHS):
        for batch in DataLoader(data, batch_size=BATCH):
            first: list[float] = []

            def closure(batch: Iterable[Tensor] = batch, first: list[float] = first) -> Tensor:
                optimizer.zero_grad()
                loss = loss_of(batch)
                back(loss)
                first.append(loss.item())
                return loss

            try:
                optimizer.step(closure)
            finally:
                losses.append(first[0])
                ends.append(time.monotonic())


def no_loader() -> None:
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for _ in range(60):
        at = torch.randint(SAMPLES, (BATCH,))
        optimizer.zero_grad()
        loss = loss_of((inputs[at], targets[at]))
        back(loss)
        losses.append(loss.item())
        step(optimizer)
        schedule.step()


class Stream(IterableDataset[tuple[Tensor, ...]]):
    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return iter(data)


def stream() -> None:
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(EPOCHS):
        train(DataLoader(Stream(), batch_size=BATCH), optimizer)


def checkpoints() -> None:
    """Saves after the fourth step of each pass, and after validation, before train() is called again."""
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
    after = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, after], milestones=[5])
    with tempfile.TemporaryDirectory() as folder:

        def save() -> None:
            begun = time.monotonic()
            torch.save(SlowToPickle(), Path(folder) / "model.pt")
            torch.save(optimizer.state_dict(), Path(folder) / "optimizer.pt")
            saves.append(time.monotonic() - begun)

        for _ in range(EPOCHS):
            model.train()
            for number, batch in enumerate(DataLoader(data, batch_size=BATCH), start=1):
                optimizer.zero_grad()
                loss = loss_of(batch)
                back(loss)
                losses.append(loss.item())
                step(optimizer)
                schedule.step()
                if number == 4:
                    save()
            model.eval()
            begun = time.monotonic()
            for batch in DataLoader(data, batch_size=BATCH * 4):
                loss_of(batch)
            validations.append(time.monotonic() - begun)
            save()


class SlowToPickle:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        time.sleep(0.03)
        return (list, ())


validations: list[float] = []


class OwnOptimizer:
    """An optimizer that does not use torch.optim."""

    def step(self) -> None:
        with torch.no_grad():
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.sub_(0.01 * parameter.grad)

    def zero_grad(self) -> None:
        for parameter in parameters:
            parameter.grad = None


def own_optimizer() -> None:
    optimizer = OwnOptimizer()
    for _ in range(EPOCHS):
        for batch in DataLoader(data, batch_size=BATCH):
            loss = loss_of(batch)
            losses.append(loss.item())
            try:
                back(loss)
            finally:
                ends.append(time.monotonic())
            optimizer.step()
            optimizer.zero_grad()


def in_backward() -> None:
    """An optimizer for each parameter steps as soon as its gradient is computed, and frees it."""
    optimizers: dict[Tensor, torch.optim.Optimizer] = {
        parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in parameters
    }

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(EPOCHS):
        for batch in DataLoader(data, batch_size=BATCH):
            loss = loss_of(batch)
            losses.append(loss.item())
            try:
                back(loss)
            finally:
                ends.append(time.monotonic())


def data_parallel() -> None:
    """Without a GPU DataParallel only forwards the call."""
    global model  # noqa: PLW0603 # a small program that sets its variables as a notebook would
    model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(EPOCHS):
        train(DataLoader(data, batch_size=BATCH), optimizer)


def recomputed() -> None:
    """Activation checkpointing, the reentrant kind: a backward pass inside the backward pass."""
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(EPOCHS):
        for x, y in DataLoader(data, batch_size=BATCH):
            optimizer.zero_grad()
            time.sleep(SLEEP)
            x.requires_grad_()
            loss = nn.functional.mse_loss(checkpoint(model, x, use_reentrant=True), y)
            back(loss)
            losses.append(loss.item())
            step(optimizer)


def persistent_workers() -> None:
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    loader = DataLoader(data, batch_size=BATCH, num_workers=2, persistent_workers=True)
    for _ in range(EPOCHS):
        train(loader, optimizer)


def accumulated() -> None:
    """Two batches for each step."""
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    whole = 0.0
    for _ in range(EPOCHS * 2):
        for number, batch in enumerate(DataLoader(data, batch_size=BATCH // 2), start=1):
            loss = loss_of(batch) / 2
            back(loss)
            whole = loss.item() + (whole if number % 2 == 0 else 0.0)
            if number % 2 == 0:
                losses.append(whole)
                step(optimizer)
                optimizer.zero_grad()


def compiled() -> None:
    """With a backend that captures graphs and runs them eagerly."""
    global model  # noqa: PLW0603 # a small program that sets its variables as a notebook would
    model = torch.compile(model, backend="aot_eager")  # type: ignore[assignment] # a module that wraps it
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for _ in range(EPOCHS):
        train(DataLoader(data, batch_size=BATCH), optimizer)


class SignDescent(torch.optim.Optimizer):
    """An optimizer class of the program."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override] # it has no loss
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(group["lr"] * parameter.grad.sign())


def own_subclass() -> None:
    optimizer = SignDescent(parameters, lr=0.001)
    for _ in range(EPOCHS):
        train(DataLoader(data, batch_size=BATCH), optimizer)


def warm_up_first() -> None:
    """Two backward passes before there is an optimizer, which are not training."""
    for _ in range(2):
        loss_of((inputs[:BATCH], targets[:BATCH])).backward()
    model.zero_grad()
    no_loader()


SHAPES: dict[str, Callable[[], None]] = {
    "autocast": lambda: autocast(enabled=False),
    "scaler": lambda: autocast(enabled=True),
    "lbfgs": lbfgs,
    "no_loader": no_loader,
    "stream": stream,
    "checkpoints": checkpoints,
    "own_optimizer": own_optimizer,
    "in_backward": in_backward,
    "data_parallel": data_parallel,
    "recomputed": recomputed,
    "persistent_workers": persistent_workers,
    "warm_up_first": warm_up_first,
    "accumulated": accumulated,
    "compiled": compiled,
    "own_subclass": own_subclass,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        SHAPES[sys.argv[1]]()
    finally:
        print(
            json.dumps(
                {
                    "shape": sys.argv[1],
                    "ends": ends,
                    "losses": losses,
                    "saves": saves,
                    "validations": validations,
                    "backwards": backwards,
                    "parameters": sum(p.numel() for p in parameters),
                }
            ),
            flush=True,
        )

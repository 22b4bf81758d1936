"""Train a wide dense network on scikit-learn's handwritten digits; started again, it goes on where it was.

    python examples/pytorch_resume.py --epochs 8

After each epoch it writes `checkpoint.pt`: weights, optimiser, epoch and the state of the random numbers, so that what
comes after a restart is what would have come without. That is all that a spot machine or a second leg asks for.
"""

import argparse
import time
from pathlib import Path

import torch
from pytorch_cnn import accuracy, load_data, train_epoch
from torch import nn
from torch.utils.data import DataLoader, random_split

CHECKPOINT = Path("checkpoint.pt")


def restore(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The last epoch that is done; 0 without a checkpoint."""
    if not CHECKPOINT.exists():
        return 0
    started = time.perf_counter()
    state = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    print(f"restored epoch {state['epoch']} in {time.perf_counter() - started:.4f} s", flush=True)
    return int(state["epoch"])


def keep(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Whole or not at all: a machine may be taken away while it is written."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "random": torch.get_rng_state(),
    }
    fresh = CHECKPOINT.with_suffix(".new")
    torch.save(state, fresh)
    fresh.replace(CHECKPOINT)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a dense network that can be stopped and started again.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=2048)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    training, validation = random_split(load_data(), [1437, 360])
    training_loader = DataLoader(training, batch_size=arguments.batch_size, shuffle=True)
    validation_loader = DataLoader(validation, batch_size=arguments.batch_size)
    width = arguments.width
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    for epoch in range(restore(model, optimizer) + 1, arguments.epochs + 1):
        loss = train_epoch(model, training_loader, optimizer, "cpu")
        right = accuracy(model, validation_loader, "cpu")
        keep(model, optimizer, epoch)
        print(f"epoch {epoch}: loss {loss:.6f}, validation accuracy {right:.2%}, at {time.time():.3f}", flush=True)


if __name__ == "__main__":
    main()

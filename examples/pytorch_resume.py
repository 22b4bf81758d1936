"""Train a wide dense network on scikit-learn's handwritten digits; after a restart it resumes from its checkpoint.

    python examples/pytorch_resume.py --epochs 8

After each epoch it writes `checkpoint.pt`: weights, optimiser, epoch and the state of the random number generator, so
that a restarted training gives the same result. That is all that a spot machine or a split training requires.
"""

import argparse
import time
from pathlib import Path

import torch
from pytorch_cnn import accuracy, load_data, train_epoch
from torch import nn
from torch.utils.data import DataLoader, random_split

CHECKPOINT = Path("checkpoint.pt")


def load_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the checkpoint; returns the last complete epoch, 0 without a checkpoint."""
    if not CHECKPOINT.exists():
        return 0
    started = time.perf_counter()
    state = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    print(f"restored epoch {state['epoch']} in {time.perf_counter() - started:.4f} s", flush=True)
    return int(state["epoch"])


def save_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Replace the checkpoint atomically: the machine may be interrupted while it is written."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "random": torch.get_rng_state(),
    }
    temporary = CHECKPOINT.with_suffix(".new")
    torch.save(state, temporary)
    temporary.replace(CHECKPOINT)


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

    for epoch in range(load_checkpoint(model, optimizer) + 1, arguments.epochs + 1):
        loss = train_epoch(model, training_loader, optimizer, "cpu")
        right = accuracy(model, validation_loader, "cpu")
        save_checkpoint(model, optimizer, epoch)
        print(f"epoch {epoch}: loss {loss:.6f}, validation accuracy {right:.2%}, at {time.time():.3f}", flush=True)


if __name__ == "__main__":
    main()

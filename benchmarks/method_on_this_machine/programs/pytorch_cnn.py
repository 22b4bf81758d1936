"""A small convolutional network, as one writes it in PyTorch."""
# mypy: ignore-errors

import argparse

import digits
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48 * 16, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    pixels, labels, held_out, truth = (torch.from_numpy(part) for part in digits.load())
    training = DataLoader(TensorDataset(pixels.unsqueeze(1), labels), batch_size=arguments.batch_size, shuffle=True)
    checking = DataLoader(TensorDataset(held_out.unsqueeze(1), truth), batch_size=arguments.batch_size)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        for images, wanted in training:
            optimizer.zero_grad()
            functional.cross_entropy(model(images), wanted).backward()
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            loss = sum(float(functional.cross_entropy(model(x), y, reduction="sum")) for x, y in checking) / len(truth)
        print(f"epoch {epoch}: validation loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()

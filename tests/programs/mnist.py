"""A classifier in the manner of PyTorch's example: argparse, functions `train` and `test`, two loaders, a schedule."""
# a program
# mypy: ignore-errors

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


def train(args, model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        if args.dry_run and batch_idx > epoch:
            break


def test(model, loader):
    model.eval()
    with torch.no_grad():
        for data, target in loader:
            nn.functional.cross_entropy(model(data), target).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    images = TensorDataset(torch.randn(640, 1, 8, 8), torch.randint(10, (640,)))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 10))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, model, DataLoader(images, batch_size=args.batch_size), optimizer, epoch)
        test(model, DataLoader(images, batch_size=100))
        scheduler.step()


if __name__ == "__main__":
    main()

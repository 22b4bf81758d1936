"""Train a small convolutional network on scikit-learn's handwritten digits.

    python examples/pytorch_cnn.py --epochs 5

The data comes with scikit-learn: nothing is downloaded.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, random_split


class Cnn(nn.Module):
    """Three convolutions and two dense layers: 0.31 M parameters for 8 × 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, kernel_size=3, padding=1),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(512, 416), nn.ReLU(), nn.Dropout(0.3), nn.Linear(416, 10)
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(images))
        return scores


def load_data() -> TensorDataset:
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    return TensorDataset(pixels, torch.tensor(labels))


def train_epoch(
    model: nn.Module, loader: DataLoader[tuple[Tensor, ...]], optimizer: torch.optim.Optimizer, device: str
) -> float:
    """Train for one pass over the data; returns the mean loss."""
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]], device: str) -> float:
    model.eval()
    right = seen = 0
    for images, labels in loader:
        guesses = model(images.to(device)).argmax(dim=1)
        right += int((guesses == labels.to(device)).sum())
        seen += len(labels)
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small CNN on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training, validation = random_split(load_data(), [1437, 360])
    training_loader = DataLoader(training, batch_size=arguments.batch_size, shuffle=True)
    validation_loader = DataLoader(validation, batch_size=arguments.batch_size)
    model = Cnn().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)

    for epoch in range(1, arguments.epochs + 1):
        loss = train_epoch(model, training_loader, optimizer, device)
        right = accuracy(model, validation_loader, device)
        print(f"epoch {epoch}: loss {loss:.4f}, validation accuracy {right:.2%}", flush=True)


if __name__ == "__main__":
    main()

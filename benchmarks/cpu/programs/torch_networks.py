"""Train one of four small PyTorch networks on random data.

python torch_networks.py mlp|cnn|transformer|fc2 --batch-size 64 --steps 1000
"""
# mypy: ignore-errors

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Classifier(nn.Module):
    """A transformer of two layers over 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(self.embedding(tokens)).mean(dim=1))
        return scores


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES),
    )  # fmt: skip


def fc2() -> nn.Module:
    """TensorFlow's tutorial network for CIFAR-10 on crops of 24 × 24, which FC2's description fits: 1.07 M parameters.
    Without its local response normalisation, which PyTorch has no fast kernel for."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(2304, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, CLASSES),
    )  # fmt: skip


NETWORKS = {
    "mlp": (mlp, (784,)),
    "cnn": (cnn, (3, 32, 32)),
    "fc2": (fc2, (3, 24, 24)),
    "transformer": (Classifier, None),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    torch.manual_seed(0)
    make, shape = NETWORKS[options.network]
    count = 16 * options.batch_size
    inputs = torch.randint(1000, (count, 64)) if shape is None else torch.randn(count, *shape)
    loader = DataLoader(TensorDataset(inputs, torch.randint(CLASSES, (count,))), batch_size=options.batch_size)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    while steps < options.steps:
        for batch, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
            steps += 1


if __name__ == "__main__":
    main()

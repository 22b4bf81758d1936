"""Adapters of rank 4 on frozen layers, in bfloat16; the adapters in float32. It prints its own counts."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, RANK, LAYERS, SAMPLES, BATCH = 256, 4, 3, 64, 8


class Adapted(nn.Module):
    """A frozen layer with a trained product of two thin matrices next to it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16).requires_grad_(False)
        self.down = nn.Linear(WIDTH, RANK, bias=False)
        self.up = nn.Linear(RANK, WIDTH, bias=False)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.base(x.bfloat16()).float() + self.up(self.down(x))
        return adapted


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Adapted() for _ in range(LAYERS)))
    unused = nn.Linear(WIDTH, WIDTH).requires_grad_(False)  # a second model that the program keeps, such as a teacher
    trained = [p for p in model.parameters() if p.requires_grad]
    given = list(model.parameters()) if "all" in sys.argv else trained
    optimizer = torch.optim.SGD(given, lr=0.01) if "sgd" in sys.argv else torch.optim.AdamW(given, fused=True)
    data = TensorDataset(torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH))
    try:
        for _ in range(4):
            for inputs, targets in DataLoader(data, batch_size=BATCH):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call] # PyTorch's backward has no types
                optimizer.step()
    finally:
        every = [*model.parameters(), *unused.parameters()]
        own = {
            "trained": sum(p.numel() for p in trained),
            "frozen": sum(p.numel() for p in every if not p.requires_grad),
            "bytes": sum(t.numel() * t.element_size() for t in (*every, *model.buffers())),
        }
        print(json.dumps(own), flush=True)


if __name__ == "__main__":
    main()

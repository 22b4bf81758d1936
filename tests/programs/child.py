"""Trains in a forked child, from a stream of unknown length, with a new loader for every epoch."""
# mypy: allow-untyped-calls

import multiprocessing
from collections.abc import Iterator

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return (torch.ones(4) for _ in range(48))


def train() -> None:
    torch.set_num_threads(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        for batch in DataLoader(Stream(), batch_size=16):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=train)
    child.start()
    child.join()

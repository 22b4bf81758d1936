"""The program of `benchmarks.nodes`: data parallel (`ddp`) or sharded (`fsdp`) training over gloo.

Two cores cannot compute for three hosts at once, so a step computes the real gradient of a small batch in a few
milliseconds, and waits for the rest of the time that a GPU would take.
"""
# mypy: allow-untyped-calls

import os
import sys
import time
from itertools import pairwise

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

COMPUTE_SECONDS = 0.15
WIDTHS = (784, 1024, 512, 10)
ITERATIONS = 24


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in pairwise(WIDTHS)]
    model: nn.Module = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        distributed.init_process_group("gloo")
        if sys.argv[1] == "ddp":
            model = DistributedDataParallel(model)
        else:
            for layer in layers:
                fully_shard(layer)
            fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        began = time.monotonic()
        optimizer.zero_grad()
        loss = model(torch.randn(16, WIDTHS[0])).square().mean()
        time.sleep(max(0.0, began + COMPUTE_SECONDS - time.monotonic()))
        loss.backward()
        optimizer.step()
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Data parallel on several nodes, started by torchrun or with the variables of `env`. Each node writes what it has."""
# mypy: allow-untyped-calls

import json
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

ITERATIONS = 12


def main() -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = nn.Linear(400, 250)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        replica(torch.randn(8, 400)).square().mean().backward()
        optimizer.step()
    told = {"world": distributed.get_world_size(), "sum": sum(float(p.sum()) for p in model.parameters())}
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "MASTER_ADDR", "LOCAL_RANK")
    Path(f"rank{rank}.json").write_text(json.dumps(told | {name: os.environ.get(name) for name in names}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

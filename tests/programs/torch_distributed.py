"""Data parallel in two processes, started by torchrun or, with `spawn`, by itself. Rank 0 prints its measurements."""
# mypy: allow-untyped-calls

import json
import os
import socket
import sys
import time

import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SAMPLES, BATCH = 100, 5


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(SAMPLES, 400), torch.randn(SAMPLES, 1))
    sampler: DistributedSampler[object] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = nn.Sequential(nn.Linear(400, 500), nn.ReLU(), nn.Linear(500, 1))
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ends: list[float] = []
    losses: list[float] = []
    try:
        for epoch in range(4):
            sampler.set_epoch(epoch)
            for inputs, targets in loader:
                optimizer.zero_grad()
                time.sleep(0.01)
                loss = nn.functional.mse_loss(replica(inputs), targets)
                loss.backward()
                losses.append(loss.item())
                try:
                    optimizer.step()
                finally:
                    ends.append(time.monotonic())
    finally:
        gradient = sum(p.numel() * 4 for p in model.parameters())
        own = {"pid": os.getpid(), "ends": ends, "losses": losses, "gradient_bytes": gradient}
        if distributed.get_rank() == 0:
            print(json.dumps(own), flush=True)
        distributed.destroy_process_group()


def spawned(rank: int, port: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    main()


if __name__ == "__main__":
    if "spawn" in sys.argv:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        spawn(spawned, args=(port,), nprocs=2)
    else:
        main()

"""Fully sharded data parallel in two processes, started by torchrun: `flat` wraps the model, `per-parameter` shards it
in place. Rank 0 prints the size of the whole model."""
# mypy: allow-untyped-calls

import json
import sys

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SAMPLES, BATCH = 100, 5


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(SAMPLES, 400), torch.randn(SAMPLES, 1))
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
    model: nn.Module = nn.Sequential(nn.Linear(400, 500), nn.ReLU(), nn.Linear(500, 301), nn.ReLU(), nn.Linear(301, 1))
    whole = sum(p.numel() for p in model.parameters())
    if sys.argv[1] == "flat":
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    else:
        mesh = init_device_mesh("cpu", (2,))
        for layer in (model[0], model[2]):  # type: ignore[index] # the model is a Sequential, which has an index
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    try:
        for _ in range(4):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(inputs), targets)
                loss.backward()
                optimizer.step()
    finally:
        if distributed.get_rank() == 0:
            print(json.dumps({"parameters": whole}), flush=True)
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Data parallel by Ray Train on several nodes: the training is a function that Ray calls in processes of its own."""
# mypy: ignore-errors

import json
import os
import time
from pathlib import Path

import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model
from torch import distributed, nn

WORKERS, ITERATIONS = 2, 40


def train() -> None:
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = prepare_model(nn.Linear(400, 250))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        model(torch.randn(8, 400)).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)  # Ray kills its processes: what the probe saw within the last 0.2 s is lost
    told = {
        "rank": rank,
        "world": distributed.get_world_size(),
        "node": ray.util.get_node_ip_address(),
        "sum": sum(float(parameter.sum()) for parameter in model.parameters()),
    }
    ray.get(ray.get_actor("notes").add.remote(told))


@ray.remote(num_cpus=0)
class Notes:
    def __init__(self) -> None:
        self.told = []

    def add(self, told: dict) -> None:
        self.told.append(told)

    def all(self) -> list:
        return self.told


def main() -> None:
    ray.init()  # at RAY_ADDRESS
    notes = Notes.options(name="notes").remote()
    scaling = ray.train.ScalingConfig(num_workers=WORKERS, placement_strategy="SPREAD")
    TorchTrainer(
        train,
        scaling_config=scaling,
        run_config=ray.train.RunConfig(storage_path=str(Path.cwd() / "ray")),
    ).fit()
    Path("ray.json").write_text(
        json.dumps({"address": os.environ.get("RAY_ADDRESS"), "workers": ray.get(notes.all.remote())})
    )


if __name__ == "__main__":
    main()

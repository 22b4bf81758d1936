"""Linear regression whose gradient noise is known: see tests/probe/test_torch_gradient_noise.py."""
# mypy: allow-untyped-calls

import argparse
import json

import torch
import without_compiler  # noqa: F401 # starts in half of the time
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
options = parser.parse_args()
torch.manual_seed(0)
dimensions, samples = 20, 40_000
inputs = torch.randn(samples, dimensions)
truth = torch.ones(dimensions) / dimensions**0.5
data = TensorDataset(inputs, inputs @ truth + torch.randn(samples))
weights = torch.nn.Parameter(torch.zeros(dimensions))
optimizer = torch.optim.SGD([weights], lr=1e-9)  # so slow that the weights stay at 0
norms, weight_sums = [], set()
try:
    while True:
        for x, y in DataLoader(data, batch_size=options.batch_size, shuffle=True):
            optimizer.zero_grad()
            (0.5 * (x @ weights - y).square().mean()).backward()
            optimizer.step()
            weight_sums.add(weights.detach().sum().item())
            assert weights.grad is not None
            norms.append(float(weights.grad.norm()))  # as programs do that log it
finally:
    print(json.dumps({"iterations": len(norms), "weights": len(weight_sums)}))

"""A ResNet-18 traced by our own tracer and the one in the public table have the same kernel features."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.kernels import PRIORS, GpuRates, features, iteration_work
from trainfare.measurements.traced_models import UPLOAD, read_torchvision
from trainfare.model.profile import Operation
from trainfare.probe.torch_operations import Tracer

SHARED = Path(__file__).parents[2].parent / "shared" / "measurements"


class Block(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outward) for _ in range(2))
        self.round: nn.Module = nn.Identity()
        if inward != outward:
            conv = nn.Conv2d(inward, outward, 1, stride, bias=False)
            self.round = nn.Sequential(conv, nn.BatchNorm2d(outward))

    def forward(self, image: Tensor) -> Tensor:
        inner = functional.relu(self.norms[0](self.first(image)), inplace=True)
        out: Tensor = self.norms[1](self.second(inner))
        out += self.round(image)
        return functional.relu(out, inplace=True)


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inward = 64
    for outward in (64, 128, 256, 512):
        layers += [Block(inward, outward, 1 + (inward != outward)), Block(outward, outward, 1)]
        inward = outward
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def traced(batch: int) -> tuple[Operation, ...]:
    model = resnet18().to("meta")
    images = torch.empty(batch, 3, 224, 224, device="meta")
    labels = torch.zeros(batch, dtype=torch.long, device="meta")
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    try:
        functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call] # PyTorch's backward has no types
    finally:
        facts = tracer.leave()
    return msgspec.convert(facts["operations"], tuple[Operation, ...])


def at_prior(operations: Sequence[Operation], gpu: str) -> float:
    return float((features(iteration_work(operations), GpuRates.of([load_gpus()[gpu]])) @ PRIORS)[0])


@pytest.mark.skipif(not (SHARED / "torchvision_models_six_gpus").is_dir(), reason="the public tables are not here")
def test_our_tracer_and_the_table_agree_on_a_network() -> None:
    row = next(row for row in read_torchvision(SHARED) if (row.program, row.dtype) == ("resnet18", "float32"))
    # The table also has gradients set to zero and added up, and the images brought from the host.
    theirs = [op for op in row.operations if op.kind not in ("copy", "optimizer") and op.name != UPLOAD]
    ours = traced(int(row.batch_size))
    for kind in ("convolution", "matmul", "norm"):
        for fact in ("flops", "bytes"):
            one, other = (sum(getattr(o, fact) * o.count for o in ops if o.kind == kind) for ops in (ours, theirs))
            assert one == pytest.approx(other, rel=1e-3)
    shapes = [{op.convolution for op in ops if op.kind == "convolution"} for ops in (ours, theirs)]
    assert shapes[0] == shapes[1]
    for gpu in ("RTX 3090", "GTX 1080 Ti", "A100"):
        assert at_prior(ours, gpu) == pytest.approx(at_prior(theirs, gpu), rel=0.03)

"""Gradient noise of a problem whose noise is known.

With inputs x ~ N(0, 1) in d dimensions, targets y = w·x + ε, ε ~ N(0, 1), |w| = 1 and all weights 0, the gradient of
half the squared error of a sample is −x y. Its mean is −w and E|x y|² = d + 2 + d, so that its variance is 2 d + 1 and
that of the mean of B samples φ = (2 d + 1) / B.
"""

from statistics import fmean

import pytest
import torch

from tests.frameworks.runs import PROGRAMS, profile_from
from tests.pythons import python_with
from trainfare.model.program import Program
from trainfare.probe.torch_gradient_noise import MAX_BATCHES, MAX_COORDINATES, GradientNoise
from trainfare.profiler.events import summarize_events
from trainfare.profiler.measure import MeasuredRun, measure

D = 20


def known_noise(batch: int) -> float:
    return (2 * D + 1) / batch


def noise_of(batch: int, seed: int) -> float | None:
    random = torch.Generator().manual_seed(seed)
    truth = torch.ones(D) / D**0.5
    weights = torch.nn.Parameter(torch.zeros(D))
    noise = GradientNoise(torch, torch.optim.SGD([weights], lr=1), alone=True)
    while not noise.enough():
        x = torch.randn(batch, D, generator=random)
        y = x @ truth + torch.randn(batch, generator=random)
        weights.grad = None
        (0.5 * (x @ weights - y).square().mean()).backward()
        noise.add_gradient()
    return noise.value()


@pytest.mark.parametrize("batch", [4, 16, 64, 256])
def test_noise_matches_the_closed_form_at_every_batch_size(batch: int) -> None:
    found = [noise_of(batch, seed) for seed in range(40)]
    assert fmean(1 / one for one in found if one is not None) == pytest.approx(1 / known_noise(batch), rel=0.1)


def test_noise_is_none_if_the_mean_gradient_is_not_significant() -> None:
    weights = torch.nn.Parameter(torch.zeros(1000))
    noise = GradientNoise(torch, torch.optim.SGD([weights], lr=1), alone=True)
    random = torch.Generator().manual_seed(0)
    for _ in range(MAX_BATCHES):
        weights.grad = torch.randn(1000, generator=random)
        noise.add_gradient()
    assert noise.value() is None


def test_large_model_is_sampled_evenly_over_all_its_parameters() -> None:
    parts = [torch.nn.Parameter(torch.zeros(size)) for size in (7, 3 * MAX_COORDINATES, 1, MAX_COORDINATES)]
    noise = GradientNoise(torch, torch.optim.SGD(parts, lr=1), alone=True)
    row = torch.arange(sum(p.numel() for p in parts), dtype=torch.float32)
    at = 0
    for part in parts:
        part.grad = row[at : at + part.numel()]
        at += part.numel()
    noise.add_gradient()
    stride = -(-len(row) // MAX_COORDINATES)
    assert torch.equal(noise._gradients[0], row[::stride].double())


def profiled(batch: int, *, gradient_noise: bool) -> MeasuredRun:
    return measure(
        Program(command=(python_with("torch"), "torch_noise.py", "--batch-size", str(batch)), directory=str(PROGRAMS)),
        iterations=10,
        stall_seconds=120,
        trace_operations=True,
        gradient_noise=gradient_noise,
        on_progress=lambda _: None,
        on_output=None,
    )


def noise_in(measured: MeasuredRun) -> float | None:
    assert summarize_events(measured.events).troubles == ()
    profile = profile_from(measured)
    assert len(profile.iteration_seconds) == 10
    assert profile.operations
    return profile.gradient_noise


@pytest.mark.parametrize("batch", [16, 128])
def test_noise_is_measured_after_the_iterations(batch: int) -> None:
    measured = profiled(batch, gradient_noise=True)
    assert noise_in(measured) == pytest.approx(known_noise(batch), rel=0.5)
    assert measured.ending == "enough"
    # Ten iterations changed the weights, those for the noise did not, and one more was traced.
    assert '"weights": 11' in measured.log.text() or '"weights": 10' in measured.log.text()


def test_noise_is_measured_only_on_request() -> None:
    assert noise_in(profiled(16, gradient_noise=False)) is None

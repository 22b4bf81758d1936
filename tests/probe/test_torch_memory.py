"""The memory of one iteration by the lifetime of its tensors, and the bytes of stored weights."""
# mypy: allow-untyped-calls

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainfare.probe.torch_memory import all_modules, outer_moments, steps_all_at_once, stored_bytes, weight_facts
from trainfare.probe.torch_operations import Tracer

KIB = 1024


def moments_of(model: nn.Module, batch: int, *, autocast: bool = False) -> tuple[list[tuple[int, int]], int]:
    """The moments of one iteration, and the bytes of copies of weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(batch, 64)
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = model(inputs).float().sum()
    tracer.backward_started()
    loss.backward()
    tracer.backward_ended()
    tracer.step_started(gradients=[p.grad for p in model.parameters()])
    optimizer.step()
    tracer.step_ended()
    facts = tracer.leave()
    return facts["moments"], facts["weight_copy_bytes"]


def test_gradients_of_weights_do_not_grow_with_the_batch_and_activations_do() -> None:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Tanh(), nn.Linear(64, 64, bias=False))
    gradients = 2 * 64 * 64 * 4
    small, large = moments_of(model, 64)[0], moments_of(model, 1024)[0]
    model.zero_grad()
    assert max(fixed for fixed, _ in small) == max(fixed for fixed, _ in large) == gradients
    per_sample = 64 * 4
    # Both activations of the hidden layer are there when the gradients of activations begin.
    assert max(growing for _, growing in large) >= 3 * 1024 * per_sample
    assert max(growing for _, growing in large) < 6 * 1024 * per_sample
    assert max(growing for _, growing in large) == pytest.approx(16 * max(growing for _, growing in small), rel=0.02)


def test_copies_of_weights_by_autocast_are_fixed() -> None:
    model = nn.Linear(64, 256, bias=False)
    _, copies = moments_of(model, 8, autocast=True)
    assert copies == 64 * 256 * 2


def test_gradients_that_are_kept_between_iterations_count_at_every_moment() -> None:
    model = nn.Linear(64, 64, bias=False)
    moments_of(model, 8)
    moments, _ = moments_of(model, 8)  # the gradients of the first iteration were not cleared
    assert all(fixed >= 64 * 64 * 4 for fixed, _ in moments)


def test_moments_that_are_left_out_are_the_peak_at_no_batch_size() -> None:
    random = np.random.default_rng(1)
    for count in (1, 2, 3, 8, 40) * 10:
        moments = {(int(fixed), int(growing)) for fixed, growing in random.integers(0, 1000, (count, 2))}
        kept = outer_moments(moments)
        assert set(kept) <= moments
        for growth in (0.0, 0.01, 0.5, 1.0, 3.0, 100.0):
            assert max(f + g * growth for f, g in kept) == max(f + g * growth for f, g in moments)


def test_quantised_weights_count_as_stored() -> None:
    """Two weights of 4 bits in a byte, and a scale for each 64 of them."""
    packed: Any = nn.Parameter(torch.zeros(2048, 1, dtype=torch.uint8), requires_grad=False)
    packed.quant_state = SimpleNamespace(shape=torch.Size([64, 64]), absmax=torch.zeros(64))
    model = nn.Module()
    model.register_parameter("packed", packed)
    assert stored_bytes(packed) == 2048 + 64 * 4
    before = weight_facts(all_modules(torch), [], device="cpu")
    del model.packed
    after = weight_facts(all_modules(torch), [], device="cpu")
    assert before["frozen_parameters"] - after["frozen_parameters"] == 64 * 64
    assert before["weight_bytes"] - after["weight_bytes"] == 2048 + 64 * 4


def test_weights_on_another_device_are_not_counted() -> None:
    before = weight_facts(all_modules(torch), [], device="cpu")["weight_bytes"]
    model = nn.Linear(64, 64, bias=False, device="meta")
    assert weight_facts(all_modules(torch), list(model.parameters()), device="cpu")["weight_bytes"] == before


@pytest.mark.parametrize(
    ("options", "at_once"),
    [({}, True), ({"fused": True}, False), ({"foreach": False}, False), ({"foreach": True}, True)],
)
def test_fused_and_single_steps_make_no_copies(options: dict[str, bool], at_once: bool) -> None:
    make: Any = torch.optim.AdamW
    assert steps_all_at_once(make([torch.zeros(1, requires_grad=True)], **options)) is at_once
    assert steps_all_at_once(None) is None

"""Counts of a real model while it is made."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import need
from trainfare.probe.recorder import Recorder
from trainfare.probe.torch_construction import Construction

torch = need("torch")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.touch()
    return path


@pytest.fixture
def construction(path: Path) -> Iterator[Construction]:
    construction = Construction(Recorder(str(path)), lambda hook: hook)
    yield construction
    construction.end()


def last(path: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    return event


def test_an_optimizer_completes_the_counts(construction: Construction, path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Linear(10, 10))
    model[0].requires_grad_(False)
    torch.optim.AdamW(model.parameters())
    counts = last(path)
    assert counts["event"] == "construction"
    assert (counts["parameters"], counts["trainable_parameters"]) == (220, 110)
    assert (counts["host_weight_bytes"], counts["host_gradient_bytes"]) == (880, 440)
    assert (counts["optimizer"], counts["optimizers"], counts["host_optimizer_bytes"]) == ("AdamW", 1, 880)


def test_tied_weights_count_once_and_the_meta_device_has_no_memory(construction: Construction, path: Path) -> None:
    first, second = torch.nn.Linear(10, 10, bias=False), torch.nn.Linear(10, 10, bias=False)
    second.weight = first.weight
    shapes = torch.nn.Linear(10, 10, bias=False, device="meta")
    construction.write()
    assert last(path)["parameters"] == 200
    assert last(path)["host_weight_bytes"] == 400
    del shapes


def test_a_lazy_parameter_has_no_size_yet(construction: Construction, path: Path) -> None:
    lazy = torch.nn.LazyLinear(10)
    construction.write()
    assert last(path)["parameters"] == 0
    lazy(torch.ones(2, 4))
    construction.write()
    assert last(path)["parameters"] == 50


@pytest.mark.parametrize(
    ("make", "tensors"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
        (torch.optim.RMSprop, 1),
        (lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True), 3),
        (torch.optim.Adam, 2),
        (lambda p: torch.optim.Adam(p, amsgrad=True), 3),
        (torch.optim.Adagrad, 1),
    ],
)
def test_the_state_is_what_the_optimizer_will_keep(
    construction: Construction, path: Path, make: Any, tensors: int
) -> None:
    """The prediction before the first step agrees with the state after it."""
    weight = torch.nn.Parameter(torch.ones(1000))
    optimizer = make([weight])
    predicted = last(path)["host_optimizer_bytes"]
    weight.sum().backward()
    optimizer.step()
    kept = [value for value in optimizer.state[weight].values() if torch.is_tensor(value) and value.numel() == 1000]
    assert len(kept) == tensors
    assert predicted == 4000 * tensors


def test_the_hooks_are_gone_at_the_end(construction: Construction, path: Path) -> None:
    original = construction._original  # what the patch must restore
    construction.end()
    construction.end()
    assert torch.optim.Optimizer.add_param_group is original
    torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    assert path.read_text() == ""


def test_a_program_with_an_optimizer_per_layer_is_not_slowed(construction: Construction, path: Path) -> None:
    """A thousand optimizers write a few dozen counts, not a thousand."""
    optimizers = [torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1) for _ in range(1000)]
    construction.write()
    assert last(path)["optimizers"] == len(optimizers)
    assert len(path.read_text().splitlines()) < 200

"""What a PyTorch program allows to run in TF32 is read on any device."""
# mypy: allow-untyped-calls

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.probe.test_torch_operations import forward_and_backward, traced
from trainfare.probe import torch_precision
from trainfare.probe.torch_precision import allow_on_gpus, allows_tf32

BACKENDS: Any = torch.backends


@pytest.fixture(autouse=True)
def _restored_settings() -> Iterator[None]:
    matmul, conv, rnn = (s.fp32_precision for s in (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn))
    yield
    torch.set_float32_matmul_precision("highest")
    BACKENDS.fp32_precision = "none"
    BACKENDS.cudnn.allow_tf32 = True
    BACKENDS.cuda.matmul.fp32_precision, BACKENDS.cudnn.conv.fp32_precision = matmul, conv
    BACKENDS.cudnn.rnn.fp32_precision = rnn


def dtypes(model: nn.Module, *inputs: torch.Tensor) -> dict[str, set[str]]:
    """The dtypes of each kind of operator in one iteration."""
    found: dict[str, set[str]] = {}
    for row in forward_and_backward(model, *inputs)["operations"]:
        found.setdefault(row["kind"], set()).add(row["dtype"])
    return found


def network() -> tuple[nn.Module, torch.Tensor]:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 5))
    return layers, torch.randn(2, 3, 8, 8)


def test_by_default_convolutions_may_use_tf32_and_matrix_products_may_not() -> None:
    found = dtypes(*network())
    assert found["convolution"] == {"tf32"}
    assert found["matmul"] == {"float32"}
    assert found["pointwise"] == {"float32"}


def _allow() -> None:
    BACKENDS.cuda.matmul.allow_tf32 = True


def _global_setting() -> None:
    BACKENDS.fp32_precision = "tf32"


def _newer_setting() -> None:
    BACKENDS.cuda.matmul.fp32_precision = "tf32"


@pytest.mark.parametrize(
    "ask",
    [
        _allow,
        _global_setting,
        _newer_setting,
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("medium"),
    ],
)
def test_matrix_products_may_use_tf32_however_the_program_asks(ask: Callable[[], None]) -> None:
    ask()
    assert dtypes(*network())["matmul"] == {"tf32"}


def test_convolutions_that_must_not_use_tf32_stay_in_float32() -> None:
    BACKENDS.cudnn.allow_tf32 = False
    assert dtypes(*network())["convolution"] == {"float32"}


def test_recurrent_layers_follow_the_setting_of_cudnn() -> None:
    model, given = nn.LSTM(4, 8), torch.randn(5, 2, 4)
    assert dtypes(model, given)["rnn"] == {"tf32"}
    BACKENDS.cudnn.rnn.fp32_precision = "ieee"
    assert dtypes(model, given)["rnn"] == {"float32"}


def test_other_dtypes_are_not_changed() -> None:
    torch.set_float32_matmul_precision("high")
    a = torch.randn(4, 4, dtype=torch.float64)
    assert [row["dtype"] for row in traced(lambda _: a @ a)["operations"]] == ["float64"]


def test_environment_can_switch_tf32_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert not allows_tf32(torch, "convolution")


def test_library_that_allows_tf32_only_on_a_gpu_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_precision, "_will_be_allowed", [])
    assert not allows_tf32(torch, "matmul")
    allow_on_gpus()
    assert allows_tf32(torch, "matmul")


def test_settings_of_older_releases_are_read() -> None:
    class Switch:
        def __init__(self, allowed: bool) -> None:
            self.allow_tf32 = allowed

    class Older:
        class backends:  # noqa: N801 # the name that PyTorch gives it
            cudnn = Switch(True)

            class cuda:  # noqa: N801 # the name that PyTorch gives it
                matmul = Switch(False)

    assert allows_tf32(Older, "convolution")  # type: ignore[arg-type] # a small stand-in for the module
    assert not allows_tf32(Older, "matmul")  # type: ignore[arg-type] # a small stand-in for the module

"""Which products of a PyTorch program may run in TF32, whatever device it runs on.

On a GPU with TF32 units, float32 matrix products, convolutions and recurrent layers use them where the program allows
it: for convolutions and recurrent layers by default, for matrix products on request. The settings can be read without a
GPU, and a profile of a CPU tells what the program will do on a GPU. Other devices compute in float32 all the same.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from trainfare.probe import operations
else:
    operations = importlib.import_module(f"{__package__}.operations")


_will_be_allowed: list[bool] = []
"""Has an entry if a library will allow TF32 for every product where it finds a GPU that has it."""


def allow_on_gpus() -> None:
    """Note that every product will be allowed to use TF32 on a GPU that has it, though not on this device."""
    _will_be_allowed.append(True)


def allows_tf32(torch: ModuleType, kind: str) -> bool:
    """True if a float32 operator of this kind may compute in TF32: `matmul`, `attention`, `convolution` or `rnn`."""
    setting = _SETTINGS.get(kind)
    if setting is None or operations.tf32_switched_off():
        return False
    if _will_be_allowed:
        return True
    backends: Any = torch.backends
    try:
        return bool(setting(backends) == "tf32")
    except AttributeError:
        # Before PyTorch 2.9. From then on, reading this setting raises an error if the program uses the newer one.
        return bool((backends.cuda.matmul if kind in _MATMUL_KINDS else backends.cudnn).allow_tf32)


_MATMUL_KINDS = ("matmul", "attention")
_SETTINGS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_MATMUL_KINDS, lambda backends: backends.cuda.matmul.fp32_precision),
    "convolution": lambda backends: backends.cudnn.conv.fp32_precision,
    "rnn": lambda backends: backends.cudnn.rnn.fp32_precision,
}

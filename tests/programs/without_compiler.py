"""Spares a program the compiler of PyTorch, which every optimizer loads though few programs compile: half of the time
that a short program takes. Import it before the first optimizer is made."""

import sys
from types import ModuleType
from typing import Any

import torch


def _as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    return _as_it_is if function is None else function


_compiler: Any = ModuleType("torch._dynamo")
_compiler.disable = _as_it_is
_compiler.graph_break = lambda: None
sys.modules["torch._dynamo"] = _compiler
torch._dynamo = _compiler  # where PyTorch looks for it

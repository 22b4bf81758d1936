"""Whether a function of the program may be called without the program's knowing: only one that is plain arithmetic."""

from __future__ import annotations

import builtins
import dis
import math
import types
from typing import Any

_MODULES = ("math", "numpy", "keras", "tf_keras", "tensorflow", "torch")
_BUILTINS = ("abs", "float", "int", "max", "min", "pow", "round", "sum", "bool")
_ATTRIBUTES = {*dir(math), "math", "ops", "abs", "clip", "float32", "float64", "maximum", "minimum", "power", "round"}
_WRITING = ("STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF", "IMPORT_NAME", "YIELD_VALUE")


def is_arithmetic(function: Any) -> bool:
    """It reads numbers, calls functions of mathematics by their usual names, and writes nothing but its own variables.

    On the safe side: a function inside it, an object that it holds, any other name make it something else.
    """
    if not isinstance(function, types.FunctionType):
        return False
    code = function.__code__
    held = [cell.cell_contents for cell in function.__closure__ or ()] + list(function.__defaults__ or ())
    if not all(isinstance(value, (int, float)) for value in held):
        return False
    if any(isinstance(constant, types.CodeType) for constant in code.co_consts):
        return False
    if any(step.opname in _WRITING for step in dis.get_instructions(code)):
        return False
    return all(_is_known(name, function.__globals__) for name in code.co_names)


def _is_known(name: str, names: dict[str, Any]) -> bool:
    if name in names:
        value = names[name]
        root = getattr(value, "__name__", "").partition(".")[0]
        return isinstance(value, (int, float)) or (isinstance(value, types.ModuleType) and root in _MODULES)
    return name in _BUILTINS if hasattr(builtins, name) and name not in _ATTRIBUTES else name in _ATTRIBUTES

"""Whether a function or a scheduler of the program may be called without the program's knowing: only where it computes.

On the safe side: every name that it reads must be a number, a word with which numbers are computed, or a function of
which the same is true.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

LARGEST = 10_000
"""What holds more things than that is not looked through."""

_TRUSTED = ("torch.optim.", "transformers.optimization.", "math.")
"""Whatever they hold computes and does nothing else."""
_COMPUTING = {
    "ValueError", "abs", "append", "arange", "bool", "ceil", "clip", "cos", "enumerate", "exp", "float", "floor", "get",
    "int", "interp", "isinstance", "items", "len", "list", "log", "max", "maximum", "min", "minimum", "param_groups",
    "pi", "pow", "power", "range", "round", "sin", "sqrt", "sum", "super", "tanh", "tuple", "zip",
}  # fmt: skip
"""Names with which numbers are computed; another might do something."""
_MODULES = {"math", "numpy", "torch", "keras", "keras.ops", "tf_keras", "tensorflow"}
_CHANGES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_", "IMPORT_")
_CHANGES_ITSELF = ("STORE_ATTR", "RAISE_VARARGS")
"""What the method of a scheduler may do to the copy, and a function that computes a factor has no cause to do."""


def is_plain(value: Any) -> bool:
    """Numbers, words and functions that compute, however nested."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set)):
        return len(value) < LARGEST and all(map(is_plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    if hasattr(value, "untyped_storage"):
        return bool(value.numel() == 1 and value.device.type == "cpu")
    return computes(value)


def computes(function: Any, scheduler: Any = None) -> bool:
    """Nothing else: every name in it is a number, or a function of which the same is true."""
    if isinstance(function, functools.partial):
        return computes(function.func) and is_plain(function.args) and is_plain(function.keywords)
    if isinstance(function, types.MethodType):
        return is_trusted(type(function.__self__))
    if not isinstance(function, types.FunctionType) or is_trusted(function):
        return is_trusted(function)
    codes = _codes(function.__code__)
    changes = _CHANGES if scheduler is not None else (*_CHANGES, *_CHANGES_ITSELF)
    if any(one.opname.startswith(changes) for code in codes for one in dis.get_instructions(code)):
        return False
    names = {name for code in codes for name in code.co_names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())  # noqa: B905 # `strict` is newer than the user's Python may be
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    found.update((name, cell.cell_contents) for name, cell in cells if name != "__class__")
    held = [*found.values(), *(function.__defaults__ or ())]
    if "append" in names and any(isinstance(value, (list, dict, set)) for value in held):
        return False
    options = [vars(value) for value in found.values() if _holds_options(value)]
    own = set() if scheduler is None else {*vars(scheduler), *dir(type(scheduler))}
    return all(
        value is function or is_plain(value) or _holds_options(value) or getattr(value, "__name__", "") in _MODULES
        for value in held
    ) and all(
        name in found or name in _COMPUTING or name in own or any(is_plain(held.get(name, print)) for held in options)
        for name in names
    )


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """With what is inside it: comprehensions and functions."""
    return [code, *(one for inner in code.co_consts if isinstance(inner, types.CodeType) for one in _codes(inner))]


def _holds_options(value: Any) -> bool:
    """`args.decay`: each option that is read is looked at by its name."""
    return type(value).__name__ in ("Namespace", "SimpleNamespace") or (
        hasattr(value, "__dataclass_fields__") and hasattr(value, "__dict__") and not isinstance(value, type)
    )


def is_trusted(thing: Any) -> bool:
    return f"{getattr(thing, '__module__', None)}.".startswith(_TRUSTED)

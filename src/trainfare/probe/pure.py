"""Tells whether a function or a scheduler of the program is pure, so that calling it without the program's knowledge
has no effect.

The check is conservative: every name that the function reads must be a number, a word of arithmetic, or a function
that is pure itself.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

MAX_ITEMS = 10_000
"""Larger collections are not inspected."""

_TRUSTED = ("torch.optim.", "transformers.optimization.", "math.")
"""Everything in these modules is taken to be pure."""
_ARITHMETIC_NAMES = {
    "ValueError", "abs", "append", "arange", "bool", "ceil", "clip", "cos", "enumerate", "exp", "float", "floor", "get",
    "int", "interp", "isinstance", "items", "len", "list", "log", "max", "maximum", "min", "minimum", "param_groups",
    "pi", "pow", "power", "range", "round", "sin", "sqrt", "sum", "super", "tanh", "tuple", "zip",
}  # fmt: skip
"""Names that only compute numbers; any other name might have a side effect."""
_MODULES = {"math", "numpy", "torch", "keras", "keras.ops", "tf_keras", "tensorflow"}
_SIDE_EFFECTS = ("STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR", "DELETE_", "IMPORT_")
_ATTRIBUTE_EFFECTS = ("STORE_ATTR", "RAISE_VARARGS")
"""A method of a scheduler may do these to its copy; a function that computes a factor has no reason to."""


def is_plain(value: Any) -> bool:
    """The value consists of numbers, strings and pure functions, at any depth."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set)):
        return len(value) < MAX_ITEMS and all(map(is_plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    if hasattr(value, "untyped_storage"):
        return bool(value.numel() == 1 and value.device.type == "cpu")
    return is_pure(value)


def is_pure(function: Any, scheduler: Any = None) -> bool:
    """The function only computes: every name in it is a number or a pure function. `scheduler` owns a method."""
    if isinstance(function, functools.partial):
        return is_pure(function.func) and is_plain(function.args) and is_plain(function.keywords)
    if isinstance(function, types.MethodType):
        return is_trusted(type(function.__self__))
    if not isinstance(function, types.FunctionType) or is_trusted(function):
        return is_trusted(function)
    codes = _nested_code(function.__code__)
    side_effects = _SIDE_EFFECTS if scheduler is not None else (*_SIDE_EFFECTS, *_ATTRIBUTE_EFFECTS)
    if any(instruction.opname.startswith(side_effects) for code in codes for instruction in dis.get_instructions(code)):
        return False
    names = {name for code in codes for name in code.co_names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    referenced = {name: function.__globals__[name] for name in names if name in function.__globals__}
    referenced.update((name, cell.cell_contents) for name, cell in cells if name != "__class__")
    held = [*referenced.values(), *(function.__defaults__ or ())]
    if "append" in names and any(isinstance(value, (list, dict, set)) for value in held):
        return False
    options = [vars(value) for value in referenced.values() if _holds_options(value)]
    own_names = set() if scheduler is None else {*vars(scheduler), *dir(type(scheduler))}
    return all(
        value is function or is_plain(value) or _holds_options(value) or getattr(value, "__name__", "") in _MODULES
        for value in held
    ) and all(
        name in referenced
        or name in _ARITHMETIC_NAMES
        or name in own_names
        or any(is_plain(held.get(name, print)) for held in options)
        for name in names
    )


def _nested_code(code: types.CodeType) -> list[types.CodeType]:
    """The code object with those inside it: comprehensions and functions."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(nested for one in inner for nested in _nested_code(one))]


def _holds_options(value: Any) -> bool:
    """The value holds options, like `args` in `args.decay`: each option that is read is checked by its name."""
    return type(value).__name__ in ("Namespace", "SimpleNamespace") or (
        hasattr(value, "__dataclass_fields__") and hasattr(value, "__dict__") and not isinstance(value, type)
    )


def is_trusted(thing: Any) -> bool:
    return f"{getattr(thing, '__module__', None)}.".startswith(_TRUSTED)

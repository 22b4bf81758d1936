"""How far the program's own loops go: `for epoch in range(args.epochs)`, `while step < limit`, `tqdm(total=steps)`.

The functions that led to the present iteration are on the stack. Their source tells which loops enclose it, and their
variables tell how far each loop goes and where it is now. An expression is evaluated from variables, attributes that
are stored, items and arithmetic; code of the program is not run, except `len`. What cannot be evaluated is left out.

Which of these loops counts iterations and which counts epochs is decided by the reader (`profiler/length.py`), by how
far each has advanced from one reading to the next.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import math
import operator
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_FRAMES = 60
MAX_SOURCE_LINES = 20_000
MAX_TEXT = 60

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
_TRUSTED = ("torch", "numpy", "jax", "jaxlib", "tensorflow", "omegaconf", "ml_collections", "argparse", "absl", "yacs")
"""Packages whose objects may be asked for an attribute, an item or a size."""
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "int": int,
    "float": float,
    "min": min,
    "max": max,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
}
_WRAPPERS = ("tqdm", "track", "iter", "list", "auto_tqdm")
"""Functions that return what they are given, one after the other."""
_BELOW = {ast.Lt: 0, ast.LtE: 1, ast.NotEq: 0}
"""A loop that goes on while a counter compares so to its bound, and by how much it goes beyond the bound."""
_REACHED = (ast.Gt, ast.GtE, ast.Eq)
"""A loop that ends once a counter compares so to its bound."""


class UnknownError(Exception):
    """An expression cannot be evaluated without running code of the program."""


def program_frames() -> Iterator[types.FrameType]:
    """The frames of the program's own code, the innermost first; those of libraries are left out."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 # the only way to the callers
    seen = 0
    while frame is not None and seen < MAX_FRAMES:
        seen += 1
        if _is_program_code(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _is_program_code(path: str) -> bool:
    inside_library = path.startswith((_LIBRARY, _HERE)) or "site-packages" in path or "dist-packages" in path
    return not inside_library and not path.startswith("<frozen")


class LoopReader:
    """Reads the loops around the present iteration; sources are parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}

    def read(self) -> list[dict[str, Any]]:
        """The loops and progress bars with a known end, the outermost first: their total and present position."""
        found: list[dict[str, Any]] = []
        for frame in program_frames():
            names = Names(frame)
            found = [*self._loops_of(frame, names), *_progress_bars(frame), *found]
        return found

    def _loops_of(self, frame: types.FrameType, names: Names) -> Iterator[dict[str, Any]]:
        tree = self._tree(frame)
        if tree is None:
            return
        file = os.path.basename(frame.f_code.co_filename)
        targets: set[str] = set()
        for loop in _enclosing_loops(tree, frame.f_lineno):
            if isinstance(loop, ast.For):
                targets |= {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            for text, variable, total, position, resets in _bounds_of(loop, names, targets):
                yield {
                    "key": f"{file}:{loop.lineno}:{variable}",
                    "text": text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…",
                    "where": f"line {loop.lineno} of {file}",
                    "variable": variable,
                    "total": total,
                    "position": position,
                    "resets": resets,
                }

    def _tree(self, frame: types.FrameType) -> ast.Module | None:
        path = frame.f_code.co_filename
        if path not in self._trees:
            lines = linecache.getlines(path, frame.f_globals)
            try:
                self._trees[path] = ast.parse("".join(lines)) if 0 < len(lines) <= MAX_SOURCE_LINES else None
            except (SyntaxError, ValueError):  # a cell of a notebook with commands of its own
                self._trees[path] = None
        return self._trees[path]


class Names:
    """The variables that a frame sees."""

    def __init__(self, frame: types.FrameType) -> None:
        self._local = frame.f_locals
        self._global = frame.f_globals

    def evaluate(self, node: ast.AST) -> Any:  # one case for each kind of expression
        """The value of an expression; raises UnknownError."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id in self._local:
                return self._local[node.id]
            if node.id in self._global:
                return self._global[node.id]
        elif isinstance(node, ast.Attribute):
            return stored_attribute(self.evaluate(node.value), node.attr)
        elif isinstance(node, ast.Subscript):
            return _item(self.evaluate(node.value), self.evaluate(node.slice))
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = _number(self.evaluate(node.left)), _number(self.evaluate(node.right))
            return _OPERATORS[type(node.op)](left, right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -_number(self.evaluate(node.operand))
        elif isinstance(node, ast.Call) and not node.keywords:
            return self._call(node)
        raise UnknownError

    def _call(self, node: ast.Call) -> Any:
        name = called_name(node)
        values = [self.evaluate(argument) for argument in node.args]
        if name in _FUNCTIONS and name not in self._local and name not in self._global:
            return _FUNCTIONS[name](*values)
        if name in ("size", "numel", "dim") and isinstance(node.func, ast.Attribute):
            thing = self.evaluate(node.func.value)
            if _is_trusted(thing):
                return getattr(thing, name)(*values)
        raise UnknownError


def called_name(node: ast.Call) -> str:
    """`range` of `range(…)`, `tqdm` of `tqdm.tqdm(…)`."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def stored_attribute(thing: Any, name: str) -> Any:
    """An attribute that is stored in an object, in a slot or in its class; no property is run."""
    stored = getattr(thing, "__dict__", None)
    if isinstance(stored, dict) and name in stored:
        return stored[name]
    if _is_trusted(thing):
        return getattr(thing, name)
    found = inspect.getattr_static(thing, name, None)
    if isinstance(found, types.MemberDescriptorType):
        return found.__get__(thing)
    if isinstance(found, (int, float)):
        return found
    raise UnknownError


def _item(thing: Any, index: Any) -> Any:
    if isinstance(thing, (dict, list, tuple)) or _is_trusted(thing):
        return thing[index]
    raise UnknownError


def _number(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise UnknownError


def _is_trusted(thing: Any) -> bool:
    return (getattr(type(thing), "__module__", "") or "").partition(".")[0] in _TRUSTED


@functools.lru_cache(maxsize=256)
def _enclosing_loops(tree: ast.AST, line: int) -> list[ast.For | ast.While]:
    """The loops around a line, the outermost first, inside the innermost function that has the line."""
    found: list[ast.For | ast.While] = []
    for node in ast.iter_child_nodes(tree):
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is None or last is None or not first <= line <= last:
            continue
        inner = _enclosing_loops(node, line)
        if isinstance(node, (ast.For, ast.While)) and line <= (node.body[-1].end_lineno or last):
            inner = [node, *inner]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return inner
        found += inner
    return found


def _bounds_of(loop: ast.For | ast.While, names: Names, targets: set[str]) -> Iterator[Any]:
    """The known bounds of a loop: of its range, of its condition, of the conditions under which it is left.

    Each is the text of the bound, its counter, its total, its present position, and whether it counts anew in each
    round of the loop around it. `targets` are the variables that loops assign.
    """
    found: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    if isinstance(loop, ast.For):
        found.append((_range_bound, (loop, names)))
    else:
        tests = loop.test.values if isinstance(loop.test, ast.BoolOp) else [loop.test]
        found += [(_while_bound, (test, names, targets)) for test in tests]
    found += [(_exit_bound, (test, names, targets)) for test in _exit_tests(loop)]
    for read, arguments in found:
        try:
            bound = read(*arguments)
        except Exception:  # noqa: BLE001, S112 # an expression that cannot be evaluated is no bound
            continue
        if bound is not None:
            yield bound


def _range_bound(loop: ast.For, names: Names) -> Any:
    """`for epoch in range(…)`, also inside `tqdm`, `trange` and `enumerate`."""
    iterable, target, numbered, start = loop.iter, loop.target, False, 0
    while isinstance(iterable, ast.Call):
        name = called_name(iterable)
        if name in ("range", "trange") and iterable.args:
            break
        if name == "enumerate" and iterable.args and isinstance(target, ast.Tuple):
            start = _enumeration_start(iterable, names)
            target, numbered = target.elts[0], True
        elif name not in _WRAPPERS or not iterable.args:
            return None
        iterable = iterable.args[0]
    if not isinstance(target, ast.Name):
        return None
    if isinstance(iterable, ast.Call):
        items: Any = range(*(_whole(names.evaluate(argument)) for argument in iterable.args))
    else:
        items = names.evaluate(iterable.target if isinstance(iterable, ast.NamedExpr) else iterable)
        bar = getattr(items, "__dict__", {})
        items = bar["iterable"] if "total" in bar and isinstance(bar.get("iterable"), range) else items
    value = names.evaluate(target)
    if isinstance(items, range):
        position = value - start if numbered else items.index(value)
    elif numbered and isinstance(items, (list, tuple)):
        position = value - start
    else:
        return None
    text = f"for {target.id} in {ast.unparse(iterable)}"
    return text, target.id, len(items), _whole(position), True


def _enumeration_start(call: ast.Call, names: Names) -> int:
    stated = [*call.args[1:], *(word.value for word in call.keywords if word.arg == "start")]
    return _whole(names.evaluate(stated[0])) if stated else 0


def _while_bound(test: ast.AST, names: Names, targets: set[str]) -> Any:
    """`while step < limit`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    counter, bound, kind = test.left, test.comparators[0], type(test.ops[0])
    if kind in (ast.Gt, ast.GtE):
        counter, bound, kind = bound, counter, {ast.Gt: ast.Lt, ast.GtE: ast.LtE}[kind]
    if kind not in _BELOW or isinstance(counter, ast.Constant):
        return None
    total = _whole(names.evaluate(bound)) + _BELOW[kind]
    return _counted(f"while {ast.unparse(test)}", counter, total, names, targets)


def _exit_bound(test: ast.Compare, names: Names, targets: set[str]) -> Any:
    """`if step > limit: break`; the step at the limit itself is not counted."""
    total = _whole(names.evaluate(test.comparators[0]))
    return _counted(f"if {ast.unparse(test)}: break", test.left, total, names, targets)


def _counted(text: str, counter: ast.AST, total: int, names: Names, targets: set[str]) -> Any:
    position = _whole(names.evaluate(counter))
    name = ast.unparse(counter)
    return text, name, total, position, name in targets


@functools.lru_cache(maxsize=64)
def _exit_tests(loop: ast.For | ast.While) -> tuple[ast.Compare, ...]:
    """The comparisons after which the loop is left."""
    found: list[ast.Compare] = []
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            continue  # a break inside leaves another loop
        if isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Break, ast.Return)):
            parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            if not (isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)):
                found += [part for part in parts if isinstance(part, ast.Compare) and _is_limit(part)]
        waiting += ast.iter_child_nodes(node)
    return tuple(found)


def _is_limit(test: ast.Compare) -> bool:
    return len(test.ops) == 1 and isinstance(test.ops[0], _REACHED) and isinstance(test.left, (ast.Name, ast.Attribute))


def _whole(value: Any) -> int:
    number = _number(value)
    if int(number) != number:
        raise UnknownError
    return int(number)


def _progress_bars(frame: types.FrameType) -> Iterator[dict[str, Any]]:
    """The bars of tqdm in variables that the program updates itself, or that count over a range."""
    for name, bar in list(frame.f_locals.items()):
        if not any(kind.__name__ == "tqdm" for kind in type(bar).__mro__):
            continue
        stored = getattr(bar, "__dict__", {})
        total, position, items = stored.get("total"), stored.get("n"), stored.get("iterable")
        if isinstance(total, (int, float)) and isinstance(position, (int, float)) and total > 0:
            yield {
                "key": f"tqdm:{name}",
                "text": f"tqdm of {total:.0f}",
                "where": f"variable {name}",
                "variable": name,
                "total": int(total),
                "position": int(position),
                "resets": not (items is None or isinstance(items, range)),
            }

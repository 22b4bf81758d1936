"""Facts read from arguments and results of compiled functions of JAX: parameters, losses, shapes of the data."""

from __future__ import annotations

import math
from typing import Any

MIN_TOKENS = 4
"""A row of fewer integers is not taken for a text."""


def scan_length(jax: Any, *, xs: Any = None, length: int | None = None, **_: Any) -> int | None:
    if length is not None:
        return int(length)
    leaves = jax.tree_util.tree_leaves(xs)
    return int(leaves[0].shape[0]) if leaves else None


def parameter_facts(leaves: list[Any]) -> dict[str, Any]:
    leaves = [leaf for leaf in leaves if hasattr(leaf, "shape")]
    largest = max(leaves, key=lambda leaf: math.prod(leaf.shape), default=None)
    return {
        "parameters": sum(math.prod(leaf.shape) for leaf in leaves),
        "dtype": None if largest is None else str(largest.dtype),
        "gradient_bytes": sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves),
    }


def smallest_array(jax: Any, result: Any) -> Any:
    """The smallest array of a result, which is cheap to hold until it is ready."""
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(result) if isinstance(leaf, jax.Array)]
    return min(leaves, key=lambda leaf: math.prod(leaf.shape), default=None)


def step_losses(jax: Any, result: Any, steps: int) -> list[float | None] | None:
    """The losses of all steps of a loop inside the call, if it returns them."""
    if steps < 2:
        return None
    for leaf in jax.tree_util.tree_leaves(result if not isinstance(result, tuple) else list(result)):
        if getattr(leaf, "shape", None) == (steps,) and "float" in str(leaf.dtype):
            return [float(value) for value in leaf]
    return None


def abstract_arguments(jax: Any, arguments: Any) -> Any:
    """The arguments with every array replaced by its shape and dtype."""

    def shape_of(leaf: Any) -> Any:
        # With its weak type it is the same to JAX as the argument itself, so nothing is traced again.
        weak = bool(getattr(leaf, "weak_type", False))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak) if hasattr(leaf, "dtype") else leaf

    return jax.tree_util.tree_map(shape_of, arguments)


def data_shapes(jax: Any, args: Any, options: Any, result: Any, steps: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of the data of one step: the arguments that it does not return."""
    returned = [_shapes_of(jax, part) for part in _result_parts(result)]
    given: list[tuple[tuple[int, ...], str]] = []
    for argument in (*args, *options.values()):
        shapes = _shapes_of(jax, argument)
        if shapes and shapes not in returned:
            given += shapes
    data = [(shape, dtype) for shape, dtype in given if shape and not (dtype.startswith("key") or shape == (2,))]
    if steps > 1:
        data = [(shape[1:], dtype) for shape, dtype in data if shape[0] == steps and len(shape) > 1]
    return [(shape, dtype) for shape, dtype in data if shape]


def common_size(data: list[tuple[tuple[int, ...], str]]) -> int | None:
    """The first dimension that all data have in common."""
    sizes = {shape[0] for shape, _ in data}
    return sizes.pop() if len(sizes) == 1 else None


def tokens_shape(data: list[tuple[tuple[int, ...], str]]) -> tuple[int, ...] | None:
    """The shape of the tokens of a language model, which is given integers only, in rows."""
    integers = bool(data) and all("int" in dtype for _, dtype in data)
    return next((shape for shape, _ in data if len(shape) == 2 and shape[1] >= MIN_TOKENS), None) if integers else None


def _result_parts(result: Any) -> list[Any]:
    """The result of a step and the items of its tuples; a named tuple is a state and stays in one piece."""
    if not isinstance(result, tuple) or hasattr(result, "_fields"):
        return [result]
    return [result, *(part for item in result for part in _result_parts(item))]


def _shapes_of(jax: Any, tree: Any) -> list[tuple[tuple[int, ...], str]]:
    leaves = jax.tree_util.tree_leaves(tree)
    return [(tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves if hasattr(leaf, "dtype")]

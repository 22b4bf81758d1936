"""What one step of JAX computes, read from its jaxpr: nothing is run, and a step that was compiled is not traced again.

A jaxpr is what JAX has before XLA optimises it. XLA makes one kernel of neighbouring pointwise operators, so here they
are one operation as well; reshapes and transposes are free. Backward is what JAX itself calls transposed. What takes
a gradient and is no part of the backward pass updates the weights.

A loop counts its body as often as it runs; one of unknown length once. Of branches the one with most work counts.
"""

from __future__ import annotations

import importlib
import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfare.probe import operations
    from trainfare.probe.operations import (
        BACKWARD,
        CONVOLUTION,
        COPY,
        FORWARD,
        MATMUL,
        OPTIMIZER,
        POINTWISE,
        REDUCTION,
        Graph,
        Node,
        Value,
    )
else:
    operations = importlib.import_module(f"{__package__}.operations")
    BACKWARD, CONVOLUTION, COPY, FORWARD = (
        operations.BACKWARD,
        operations.CONVOLUTION,
        operations.COPY,
        operations.FORWARD,
    )
    MATMUL, OPTIMIZER, POINTWISE, REDUCTION = (
        operations.MATMUL,
        operations.OPTIMIZER,
        operations.POINTWISE,
        operations.REDUCTION,
    )
    Graph, Node, Value = operations.Graph, operations.Node, operations.Value

_VIEWS = {"reshape", "squeeze", "expand_dims", "transpose", "copy", "copy_p", "stop_gradient", "optimization_barrier"}
_COPIES = {"gather", "dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "slice", "rev", "split"}
_ALONE = {"scatter", "scatter-add", "sort", "top_k", "cumsum", "cumlogsumexp", "cumprod", "cummax", "fft"}
_POOLS = ("reduce_window", "select_and_scatter", "select_and_gather")


def operations_of(closed: Any, *, steps: int = 1) -> dict[str, Any]:
    """Of a ClosedJaxpr: rows, and what forward keeps for backward. Of several steps in a loop those of one."""
    reader = _Reader(steps)
    graph = Graph()
    inner = closed.jaxpr
    known: dict[Any, Value] = {}
    for variable in (*inner.constvars, *inner.invars):
        known[variable] = _value(variable.aval)
    graph.outputs = reader.read(graph, inner, known, FORWARD)
    tally, kept = graph.tally()
    return {"operations": tally.rows(), "activation_bytes": kept}


def write_keras(recorder: Any, _model: Any, _batch_size: int | None) -> None:
    """Of `fit`."""
    hooks: Any = importlib.import_module(f"{__package__}.jax_hooks")
    if hooks.JaxListener.current is not None:
        hooks.JaxListener.current.write_keras_operations(recorder)


class _Reader:
    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._deadline = time.monotonic() + operations.COUNTING_SECONDS
        self._convolutions: dict[tuple[Any, ...], tuple[float, Any]] = {}
        """Those of the forward pass, by the shapes of image, filter and result."""

    def read(self, graph: Graph, jaxpr: Any, known: dict[Any, Value], part: str) -> list[Value]:
        """Adds the equations to the graph; the values of the results."""
        for equation in jaxpr.eqns:
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"counting took more than {operations.COUNTING_SECONDS} s")
            # A literal is a number in the program, not a tensor.
            inputs = [known[v] for v in equation.invars if not hasattr(v, "val") and v in known]
            outputs = self._equation(graph, equation, inputs, known, self._part(equation, inputs, part))
            known.update(zip(equation.outvars, outputs))  # noqa: B905 # `strict` is newer than the user's Python may be
        return [known[v] for v in jaxpr.outvars if not hasattr(v, "val") and v in known]

    def _part(self, equation: Any, inputs: list[Value], outer: str) -> str:
        if outer != FORWARD:
            return outer
        stack = str(equation.source_info.name_stack)
        if "transpose(" in stack:
            return BACKWARD
        return OPTIMIZER if any(value.after for value in inputs) and "jvp(" not in stack else FORWARD

    def _equation(
        self, graph: Graph, equation: Any, inputs: list[Value], known: dict[Any, Value], part: str
    ) -> list[Value]:
        name = equation.primitive.name
        bodies = _bodies(equation)
        if name in _VIEWS and len(inputs) == len(equation.outvars):
            pairs = zip(equation.outvars, inputs)  # noqa: B905 # as above
            return [_value(variable.aval, view_of=value) for variable, value in pairs]
        if name in ("broadcast_in_dim", "iota"):
            # Never a kernel: whoever takes it makes it again.
            (variable,) = equation.outvars
            return [_value(variable.aval, view_of=inputs[0]) if inputs else _nothing(variable.aval)]
        looping = name in ("scan", "while", "cond")
        if bodies and not looping and not name.startswith(("scatter", "reduce", "custom_lin")):
            return self._inlined(graph, equation, bodies[0], known, part)
        outputs = [_value(variable.aval) for variable in equation.outvars]
        if bodies and looping:
            self._loop(graph, equation, bodies, inputs, outputs, part)
            return outputs
        kind, flops, details = self._work(equation, outputs, part)
        fuses = kind in (POINTWISE, REDUCTION, COPY) and name not in _ALONE and not name.startswith(_POOLS)
        graph.nodes.append(Node(name, kind, inputs, outputs, part=part, flops=flops, fuses=fuses, **details))
        return outputs

    def _inlined(self, graph: Graph, equation: Any, body: Any, known: dict[Any, Value], part: str) -> list[Value]:
        inner = getattr(body, "jaxpr", body)
        values: dict[Any, Value] = {variable: _value(variable.aval) for variable in inner.constvars}
        given = equation.invars[len(equation.invars) - len(inner.invars) :]
        for variable, outer in zip(inner.invars, given):  # noqa: B905 # as above
            value = None if hasattr(outer, "val") else known.get(outer)
            values[variable] = _value(variable.aval) if value is None else value
        self.read(graph, inner, values, part)
        return [values.get(v) or _value(v.aval) if not hasattr(v, "val") else _value(v.aval) for v in inner.outvars]

    def _loop(
        self, graph: Graph, equation: Any, bodies: list[Any], inputs: list[Value], outputs: list[Value], part: str
    ) -> None:
        graphs = []
        for body in bodies:
            inner = getattr(body, "jaxpr", body)
            one = Graph()
            values = {variable: _value(variable.aval) for variable in (*inner.constvars, *inner.invars)}
            one.outputs = self.read(one, inner, values, part)
            graphs.append(one)
        heaviest = max(graphs, key=lambda one: (one.flops, len(one.nodes)))
        count = _length(equation)
        if self._steps > 1 and self._steps % count == 0 and heaviest.updates:
            count = 1
        node = Node(equation.primitive.name, COPY, inputs, outputs, part=part, body=heaviest, count=count)
        graph.nodes.append(node)

    def _work(self, equation: Any, outputs: list[Value], part: str) -> tuple[str, float, dict[str, Any]]:
        name = equation.primitive.name
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            return MATMUL, 2.0 * math.prod(outputs[0].shape) * depth, {}
        if name == "conv_general_dilated":
            flops, shape = self._convolution(equation, part)
            return CONVOLUTION, flops, {"convolution": shape}
        if name.startswith(("reduce_", "arg", *_POOLS)) and name != "reduce_precision":
            return REDUCTION, 0.0, {}
        return (COPY if name in _COPIES or name in _ALONE else POINTWISE), 0.0, {}

    def _convolution(self, equation: Any, part: str) -> tuple[float, Any]:
        """FLOPs, and the shape as forward has it.

        The backward pass is made of convolutions too, of images between whose pixels zeros are put: they are known
        by the shapes that they share with one of the forward pass, and each takes as much as that.
        """
        image, weight = (tuple(v.aval.shape) for v in equation.invars[:2])
        out = tuple(equation.outvars[0].aval.shape)
        if part == BACKWARD:
            known = self._convolutions.get((out, *sorted([image, weight])))
            if known is not None:
                return known
        params, numbers = equation.params, equation.params["dimension_numbers"]
        groups, dilation = params["feature_group_count"], tuple(params["lhs_dilation"])
        transposed = any(step > 1 for step in dilation)
        filters = weight[numbers.rhs_spec[0]]
        seen_by_each = math.prod(weight) // max(1, filters)
        if transposed:
            flops = 2.0 * math.prod(image) * math.prod(weight[axis] for axis in numbers.rhs_spec[2:]) * filters / groups
        else:
            flops = 2.0 * math.prod(out) * seen_by_each
        shape = operations.convolution(
            inward=image[numbers.lhs_spec[1]],
            outward=filters,
            kernel=[weight[axis] for axis in numbers.rhs_spec[2:]],
            stride=dilation if transposed else params["window_strides"],
            plane=[out[axis] for axis in numbers.out_spec[2:]],
            groups=groups,
            transposed=transposed,
        )
        if part != FORWARD or params["batch_group_count"] != 1:
            return flops, None
        for other in ((image, *sorted([weight, out])), (weight, *sorted([image, out]))):
            self._convolutions[other] = (flops, shape)
        return flops, shape


def _bodies(equation: Any) -> list[Any]:
    """The jaxprs that it runs; of a `while` the body alone."""
    params = equation.params
    if equation.primitive.name == "while":
        return [params["body_jaxpr"]]
    values = (one for value in params.values() for one in (value if isinstance(value, (tuple, list)) else (value,)))
    return [one for one in values if hasattr(one, "eqns") or hasattr(getattr(one, "jaxpr", None), "eqns")]


def _length(equation: Any) -> int:
    return int(equation.params["length"]) if equation.primitive.name == "scan" else 1


def _nothing(aval: Any) -> Value:
    value = _value(aval)
    value.itemsize = 0
    return value


def _value(aval: Any, *, view_of: Any = None) -> Value:
    dtype = getattr(aval, "dtype", None)
    shape = tuple(size if isinstance(size, int) else 1 for size in getattr(aval, "shape", ()))
    return Value(shape, str(dtype), int(getattr(dtype, "itemsize", 4) or 4), view_of=view_of)

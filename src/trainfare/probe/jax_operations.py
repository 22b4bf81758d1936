"""The operators of one step of JAX, read from its jaxpr: nothing is run, and a compiled step is not traced again.

A jaxpr is the program before XLA optimises it. XLA fuses neighbouring pointwise operators into one kernel, so here they
are one operation as well; reshapes and transposes are free. The backward pass consists of the operators that JAX itself
names transposed. An operator that reads a gradient outside the backward pass updates the weights.

The body of a loop counts as often as it runs, once if the length is unknown. Of several branches the heaviest counts.
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
        OperatorNode,
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
    Graph, OperatorNode, Value = operations.Graph, operations.OperatorNode, operations.Value

_VIEWS = {"reshape", "squeeze", "expand_dims", "transpose", "copy", "copy_p", "stop_gradient", "optimization_barrier"}
_COPIES = {"gather", "dynamic_slice", "dynamic_update_slice", "concatenate", "pad", "slice", "rev", "split"}
_NEVER_FUSED = {"scatter", "scatter-add", "sort", "top_k", "cumsum", "cumlogsumexp", "cumprod", "cummax", "fft"}
_COLLECTIVES = {
    "psum", "psum2", "psum_invariant", "pmax", "pmin", "ppermute", "all_gather", "all_to_all", "reduce_scatter",
}  # fmt: skip
_POOLS = ("reduce_window", "select_and_scatter", "select_and_gather")


def operations_of(closed: Any, *, steps: int = 1) -> dict[str, Any]:
    """The rows and the activation bytes of a ClosedJaxpr; of one step, if it runs several steps in a loop."""
    reader = _JaxprReader(steps)
    graph = Graph()
    inner = closed.jaxpr
    known: dict[Any, Value] = {}
    for variable in (*inner.constvars, *inner.invars):
        known[variable] = _value(variable.aval)
    graph.outputs = reader.read(graph, inner, known, FORWARD)
    tally, activation_bytes = graph.tally()
    return {"operations": tally.rows(), "activation_bytes": activation_bytes}


def write_keras(recorder: Any, _model: Any, _batch_size: int | None) -> None:
    """Record the operations of the step with which `fit` trains."""
    hooks: Any = importlib.import_module(f"{__package__}.jax_hooks")
    if hooks.JaxListener.current is not None:
        hooks.JaxListener.current.write_keras_operations(recorder)


class _JaxprReader:
    """Converts a jaxpr into a Graph."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._deadline = time.thread_time() + operations.MAX_COUNTING_SECONDS
        self._convolutions: dict[tuple[Any, ...], tuple[float, Any]] = {}
        """The convolutions of the forward pass, by the shapes of image, filter and result."""

    def read(self, graph: Graph, jaxpr: Any, known: dict[Any, Value], part: str) -> list[Value]:
        """Add the equations to the graph and return the values of the results."""
        for equation in jaxpr.eqns:
            if time.thread_time() > self._deadline:
                raise TimeoutError(f"counting took more than {operations.MAX_COUNTING_SECONDS} s")
            # A literal is a constant of the program, not a tensor.
            inputs = [known[v] for v in equation.invars if not hasattr(v, "val") and v in known]
            outputs = self._equation(graph, equation, inputs, known, self._part(equation, inputs, part))
            known.update(zip(equation.outvars, outputs))
        return [known[v] for v in jaxpr.outvars if not hasattr(v, "val") and v in known]

    def _part(self, equation: Any, inputs: list[Value], outer: str) -> str:
        if outer != FORWARD:
            return outer
        stack = str(equation.source_info.name_stack)
        if "transpose(" in stack:
            return BACKWARD
        return OPTIMIZER if any(value.depends_on_backward for value in inputs) and "jvp(" not in stack else FORWARD

    def _equation(
        self, graph: Graph, equation: Any, inputs: list[Value], known: dict[Any, Value], part: str
    ) -> list[Value]:
        name = equation.primitive.name
        bodies = _bodies(equation)
        if name in _VIEWS and len(inputs) == len(equation.outvars):
            pairs = zip(equation.outvars, inputs)
            return [_value(variable.aval, view_of=value) for variable, value in pairs]
        if name in ("broadcast_in_dim", "iota"):
            # Never a kernel of its own: each consumer computes it again.
            (variable,) = equation.outvars
            return [_value(variable.aval, view_of=inputs[0]) if inputs else _empty_value(variable.aval)]
        looping = name in ("scan", "while", "cond")
        if bodies and not looping and not name.startswith(("scatter", "reduce", "custom_lin")):
            return self._inlined(graph, equation, bodies[0], known, part)
        outputs = [_value(variable.aval) for variable in equation.outvars]
        if bodies and looping:
            self._loop(graph, equation, bodies, inputs, outputs, part)
            return outputs
        kind, flops, details = self._work(equation, outputs, part)
        can_fuse = kind in (POINTWISE, REDUCTION, COPY) and name not in _NEVER_FUSED and not name.startswith(_POOLS)
        graph.nodes.append(
            OperatorNode(name, kind, inputs, outputs, part=part, flops=flops, can_fuse=can_fuse, **details)
        )
        return outputs

    def _inlined(self, graph: Graph, equation: Any, body: Any, known: dict[Any, Value], part: str) -> list[Value]:
        inner = getattr(body, "jaxpr", body)
        values: dict[Any, Value] = {variable: _value(variable.aval) for variable in inner.constvars}
        given = equation.invars[len(equation.invars) - len(inner.invars) :]
        for variable, outer in zip(inner.invars, given):
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
            inner_graph = Graph()
            values = {variable: _value(variable.aval) for variable in (*inner.constvars, *inner.invars)}
            inner_graph.outputs = self.read(inner_graph, inner, values, part)
            graphs.append(inner_graph)
        heaviest = max(graphs, key=lambda inner_graph: (inner_graph.flops, len(inner_graph.nodes)))
        count = _length(equation)
        if self._steps > 1 and self._steps % count == 0 and heaviest.updates:
            count = 1
        node = OperatorNode(equation.primitive.name, COPY, inputs, outputs, part=part, body=heaviest, count=count)
        graph.nodes.append(node)

    def _work(self, equation: Any, outputs: list[Value], part: str) -> tuple[str, float, dict[str, Any]]:
        name = equation.primitive.name
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            return MATMUL, 2.0 * math.prod(outputs[0].shape) * depth, {"tf32": _allows_tf32(equation)}
        if name == "conv_general_dilated":
            flops, shape = self._convolution(equation, part)
            return CONVOLUTION, flops, {"convolution": shape, "tf32": _allows_tf32(equation)}
        if name in _COLLECTIVES:
            return operations.COMMUNICATION, 0.0, {}
        if name.startswith(("reduce_", "arg", *_POOLS)) and name != "reduce_precision":
            return REDUCTION, 0.0, {}
        return (COPY if name in _COPIES or name in _NEVER_FUSED else POINTWISE), 0.0, {}

    def _convolution(self, equation: Any, part: str) -> tuple[float, Any]:
        """The FLOPs, and the shape of the forward convolution.

        The backward pass consists of convolutions too, of images with zeros between their pixels. They are recognised
        by the shapes that they share with a convolution of the forward pass, and each takes as many FLOPs as that.
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
        filter_size = math.prod(weight) // max(1, filters)
        if transposed:
            flops = 2.0 * math.prod(image) * math.prod(weight[axis] for axis in numbers.rhs_spec[2:]) * filters / groups
        else:
            flops = 2.0 * math.prod(out) * filter_size
        shape = operations.convolution_shape(
            channels_in=image[numbers.lhs_spec[1]],
            channels_out=filters,
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


def _allows_tf32(equation: Any) -> bool:
    """True if a GPU may compute a float32 product in TF32, as by default; the precision is a pair, or one algorithm."""
    precision = equation.params.get("precision")
    names = [getattr(one, "name", "") for one in (precision if isinstance(precision, tuple) else (precision,))]
    return not any(name == "HIGHEST" or name.startswith(("F32", "F64")) for name in names)


def _bodies(equation: Any) -> list[Any]:
    """The jaxprs that an equation runs; for a `while` only the body."""
    params = equation.params
    if equation.primitive.name == "while":
        return [params["body_jaxpr"]]
    values = (item for value in params.values() for item in (value if isinstance(value, (tuple, list)) else (value,)))
    return [item for item in values if hasattr(item, "eqns") or hasattr(getattr(item, "jaxpr", None), "eqns")]


def _length(equation: Any) -> int:
    return int(equation.params["length"]) if equation.primitive.name == "scan" else 1


def _empty_value(aval: Any) -> Value:
    value = _value(aval)
    value.itemsize = 0
    return value


def _value(aval: Any, *, view_of: Any = None) -> Value:
    dtype = getattr(aval, "dtype", None)
    shape = tuple(size if isinstance(size, int) else 1 for size in getattr(aval, "shape", ()))
    return Value(shape, str(dtype), int(getattr(dtype, "itemsize", 4) or 4), view_of=view_of)

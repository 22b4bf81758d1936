"""The operators of one step of TensorFlow, read from the graph of the function that runs it: nothing is run or traced.

The graph of a `tf.function` often does not know the batch size, so its shapes are inferred again in a separate graph,
with the batch size that was observed. Calls of functions are followed, also into those that XLA compiles: there
neighbouring pointwise operators become one kernel, so they are one operation here. Operators whose results are not used
are not run.

part    `GradientTape` names the operators that it makes. An operator that reads a gradient outside the backward pass
        updates the weights
loops   the body counts as often as the condition says, if it can be read; a loop around the update counts once
"""

from __future__ import annotations

import importlib
import math
import operator
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trainfare.probe import operations
    from trainfare.probe.operations import (
        BACKWARD,
        CONVOLUTION,
        COPY,
        EMBEDDING,
        FORWARD,
        MATMUL,
        NORM,
        OPTIMIZER,
        POINTWISE,
        REDUCTION,
        RNN,
        Graph,
        OperatorNode,
        Value,
    )
else:
    operations = importlib.import_module(f"{__package__}.operations")
    BACKWARD, CONVOLUTION, COPY = operations.BACKWARD, operations.CONVOLUTION, operations.COPY
    EMBEDDING, FORWARD, MATMUL, NORM = operations.EMBEDDING, operations.FORWARD, operations.MATMUL, operations.NORM
    OPTIMIZER, POINTWISE, REDUCTION = operations.OPTIMIZER, operations.POINTWISE, operations.REDUCTION
    RNN, Graph, OperatorNode, Value = operations.RNN, operations.Graph, operations.OperatorNode, operations.Value

MAX_HOST_ELEMENTS = 64
"""A tensor of up to this many integers is a shape or a counter, which the host computes."""

MAX_TRACES = 3
"""The number of traces of one function that are read."""

_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "TPUPartitionedCall", "RemoteCall")
_VIEWS = {
    "Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient", "Snapshot",
    "EnsureShape", "CheckNumerics",
}  # fmt: skip
_BROADCASTS = {"BroadcastTo", "Fill", "Tile", "ZerosLike", "OnesLike", "Range"}
_COPIES = {
    "Transpose", "ConcatV2", "Concat", "Pad", "PadV2", "MirrorPad", "Slice", "StridedSlice", "StridedSliceGrad", "Pack",
    "Unpack", "Split", "SplitV", "GatherV2", "GatherNd", "ScatterNd", "TensorScatterUpdate", "TensorScatterAdd",
    "ReverseV2", "Roll", "SpaceToBatchND", "BatchToSpaceND", "SpaceToDepth", "DepthToSpace", "BroadcastTo", "Tile",
    "UnsortedSegmentSum", "TensorListStack", "TensorListFromTensor",
}  # fmt: skip
_REDUCTIONS = {
    "Sum", "Mean", "Max", "Min", "Prod", "Any", "All", "ArgMax", "ArgMin", "BiasAddGrad", "L2Loss", "Softmax",
    "LogSoftmax", "SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "Cumsum", "TopKV2",
    "InTopKV2", "EuclideanNorm",
}  # fmt: skip
_NEVER_FUSED = {
    "ScatterNd",
    "TensorScatterUpdate",
    "TensorScatterAdd",
    "UnsortedSegmentSum",
    "Cumsum",
    "TopKV2",
    "InTopKV2",
}
_SKIPPED = {"NoOp", "Assert", "Placeholder", "PlaceholderWithDefault", "VarIsInitializedOp", "ControlTrigger"}


_ARITHMETIC: dict[str, Callable[..., int]] = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": lambda a, b: a // b if b else 0,
    "FloorMod": lambda a, b: a % b if b else 0,
    "Maximum": max,
    "Minimum": min,
    "NotEqual": operator.ne,
    "Cast": int,
}


class UnknownSizeError(ValueError):
    """The size of a product is unknown: operations without it would be wrong."""


def write(recorder: Any, functions: Iterable[Any], batch_size: int | None, *, compiled: bool = False) -> None:
    """Record the operations of functions that together make one step, if the program has traced them."""
    rows: list[dict[str, Any]] = []
    activation_bytes = 0
    try:
        for function in functions:
            graphs = [concrete.graph for concrete in function._list_all_concrete_functions()]  # noqa: SLF001 # TensorFlow has no public name for it
            found = [operations_of(graph, batch_size, compiled=compiled) for graph in graphs[:MAX_TRACES]]
            if found:
                # A function is traced again for other shapes, such as a small last batch.
                heaviest = max(found, key=lambda one: sum(row["flops"] * row["count"] for row in one["operations"]))
                rows += heaviest["operations"]
                activation_bytes += heaviest["activation_bytes"]
    except UnknownSizeError:
        return
    if rows:
        recorder.add("operations", operations=rows, activation_bytes=activation_bytes)


def write_keras(recorder: Any, model: Any, batch_size: int | None) -> None:
    """Record the operations of `fit`. Without a GPU Keras does not compile with XLA; with one it would, unless a layer
    does not support it."""
    if hasattr(model, "supports_jit"):
        compiled = importlib.import_module("keras.src.trainers.trainer").model_supports_jit(model)
    else:
        compiled = model.jit_compile  # an option of compile() in Keras 2
    write(recorder, functions_in(model.train_function)[:1], batch_size, compiled=bool(compiled))


def functions_in(step: Any, depth: int = 4) -> list[Any]:
    """The `tf.function`s that were called, in the closures of a step made by Keras."""
    if hasattr(step, "_list_all_concrete_functions"):
        return [step] if step._list_all_concrete_functions() else []  # noqa: SLF001 # TensorFlow has no public name for it
    found: list[Any] = []
    for cell in (getattr(step, "__closure__", None) or ()) if depth else ():
        try:
            found += functions_in(cell.cell_contents, depth - 1)
        except ValueError:  # an empty cell
            continue
    return found


def operations_of(func_graph: Any, batch_size: int | None, *, compiled: bool = False) -> dict[str, Any]:
    """The rows and the activation bytes of a FuncGraph."""
    reader = _FuncGraphReader(batch_size)
    graph = Graph()
    graph.outputs += reader.read(graph, func_graph, None, FORWARD, compiled=compiled)
    tally, activation_bytes = graph.tally()
    return {"operations": tally.rows(), "activation_bytes": activation_bytes}


class _FuncGraphReader:
    """Converts a FuncGraph into a Graph."""

    def __init__(self, batch_size: int | None) -> None:
        self._tf: Any = sys.modules["tensorflow"]
        self._batch = batch_size
        self._deadline = time.thread_time() + operations.MAX_COUNTING_SECONDS
        self._variables: dict[int, Value] = {}
        """The tensor of a resource variable, by the storage of its handle."""
        self._handles: list[Value] = []
        self._known_numbers: dict[int, int] = {}
        """Known integers, such as the count of a loop, by the storage of their value."""

    def read(
        self, graph: Graph, func_graph: Any, given: list[Value] | None, part: str, *, compiled: bool
    ) -> list[Value]:
        """Add the operators to the graph and return the values of the results."""
        values: dict[int, Value] = {}
        shapes = _InferredShapes(self._tf, func_graph, self._batch)
        for place, tensor in enumerate(func_graph.inputs):
            value = None if given is None or place >= len(given) else given[place]
            shapes.set_input(tensor, None if value is None or value.itemsize == 0 else value.shape)
            values[id(tensor)] = self._value(tensor, shapes) if value is None else value
        for op in _live_operators(func_graph):
            if time.thread_time() > self._deadline:
                raise TimeoutError(f"counting took more than {operations.MAX_COUNTING_SECONDS} s")
            if op.type in ("Placeholder", "PlaceholderWithDefault") and id(op.outputs[0]) in values:
                continue
            inputs = [values[id(tensor)] for tensor in op.inputs]
            for tensor, value in zip(op.outputs, self._op(graph, op, inputs, shapes, part, compiled=compiled)):
                values[id(tensor)] = value
        return [values[id(tensor)] for tensor in func_graph.outputs if id(tensor) in values]

    def _op(
        self, graph: Graph, op: Any, inputs: list[Value], shapes: _InferredShapes, outer: str, *, compiled: bool
    ) -> list[Value]:
        part = _part(op, inputs, outer)
        bodies = _functions_of(op)
        if bodies and part == OPTIMIZER:
            part = FORWARD  # the operators inside have their own parts
        if op.type in _CALLS and bodies:
            body = bodies[0]
            inner = compiled or bool(op.node_def.attr["_XlaMustCompile"].b)
            results = self.read(graph, body, inputs, part, compiled=inner)
            for tensor, value in zip(op.outputs, results):
                shapes.set_shape(tensor, value.shape)
            return results
        shapes.infer(op)
        if bodies:
            return self._loop(graph, op, bodies, inputs, shapes, part, compiled=compiled)
        if op.type == "ReadVariableOp":
            return [self._variable(inputs[0], op.outputs[0], shapes)]
        if op.type.startswith(("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")):
            return self._assignment(graph, op, inputs, part, compiled=compiled)
        outputs = [self._value(tensor, shapes) for tensor in op.outputs]
        if op.type in _SKIPPED or op.type == "Const" or not outputs or _runs_on_host(op, outputs):
            outputs = [_empty_value(value) if _is_small(value) else value for value in outputs]
            self._note_known_number(op, inputs, outputs)
            return outputs
        if op.type in _VIEWS or (compiled and op.type == "Transpose"):
            return [
                Value(v.shape, v.dtype, v.itemsize, view_of=inputs[place]) if place < len(inputs) else v
                for place, v in enumerate(outputs)
            ]
        if compiled and op.type in _BROADCASTS:
            first = inputs[0] if inputs and inputs[0].itemsize and op.type in ("BroadcastTo", "Tile") else None
            value = outputs[0]
            return [
                _empty_value(value) if first is None else Value(value.shape, value.dtype, value.itemsize, view_of=first)
            ]
        self._add(graph, op, inputs, outputs, part, compiled=compiled)
        return outputs

    def _add(
        self, graph: Graph, op: Any, inputs: list[Value], outputs: list[Value], part: str, *, compiled: bool
    ) -> None:
        kind, flops, details = _work(op, inputs, outputs, part)
        read = inputs
        if kind == EMBEDDING:
            # Only the selected rows of the table are read: as many bytes as the output has.
            table = self._variables.get(id(inputs[0].storage), inputs[0])
            read = [Value(outputs[0].shape, table.dtype, table.itemsize), *read[1:]]
        memory_bound = kind in (POINTWISE, REDUCTION, COPY) and op.type not in _NEVER_FUSED and "Pool" not in op.type
        graph.nodes.append(
            OperatorNode(
                op.type, kind, read, outputs, part=part, flops=flops, can_fuse=compiled and memory_bound, **details
            )
        )

    def _assignment(self, graph: Graph, op: Any, inputs: list[Value], part: str, *, compiled: bool) -> list[Value]:
        given = [value for value in inputs if value.itemsize]
        handles = [value for value in inputs if value.dtype == "resource"]
        self._handles += handles  # keeps them alive, because they are identified by their ids
        if op.type == "AssignVariableOp":
            graph.outputs += given  # the variable takes over the tensor; no bytes are moved
            self._variables.update({id(handles[0].storage): value for value in given})
            return []
        changed = [self._variables.get(id(handle.storage), given[-1]) for handle in handles] if given else []
        made = [Value(value.shape, value.dtype, value.itemsize) for value in changed]
        update = OPTIMIZER if op.type.startswith("Resource") else part
        node = OperatorNode(
            op.type, POINTWISE, [*changed, *given], made, part=update, can_fuse=compiled, has_side_effects=True
        )
        graph.nodes.append(node)
        graph.outputs += made
        # Later reads of the variable see its new value.
        self._variables.update({id(handle.storage): value for handle, value in zip(handles, made)})
        return []

    def _variable(self, handle: Value, tensor: Any, shapes: _InferredShapes) -> Value:
        known = self._variables.get(id(handle.storage))
        if known is None:
            known = self._variables[id(handle.storage)] = self._value(tensor, shapes)
            self._handles.append(handle)
        return known

    def _loop(
        self,
        graph: Graph,
        op: Any,
        bodies: list[Any],
        inputs: list[Value],
        shapes: _InferredShapes,
        part: str,
        *,
        compiled: bool,
    ) -> list[Value]:
        """Add the heaviest body of a loop, of branches, or of a data set with a function."""
        outputs = [self._value(tensor, shapes) for tensor in op.outputs]
        updates = any(map(_updates, bodies))
        if op.type.endswith(("Dataset", "DatasetV2")) and not updates:
            return outputs  # runs on the host and is not part of the step
        looping = op.type in ("While", "StatelessWhile")
        given: list[Value] | None = (
            inputs if looping else inputs[1:] if op.type in ("If", "StatelessIf", "Case") else None
        )
        graphs = []
        for body in bodies:
            one = Graph()
            one.outputs += self.read(one, body, given, part, compiled=compiled)
            graphs.append(one)
        count = 1
        if looping and not updates:
            count = self._length(_function(op, "cond"), inputs) or 1
            for value in outputs:
                if value.dtype in ("int32", "int64") and not value.shape:
                    self._known_numbers[id(value.storage)] = count
                    self._handles.append(value)
        heaviest = max(graphs, key=lambda one: one.flops)
        graph.nodes.append(
            OperatorNode(
                op.type, COPY, inputs, outputs, part=part, has_side_effects=updates, body=heaviest, count=count
            )
        )
        return outputs

    def _length(self, condition: Any, inputs: list[Value]) -> int | None:
        """The number of rounds by a condition like `counter < bound` with a counter from zero; None if unknown."""
        bounds = []
        places = {id(tensor): place for place, tensor in enumerate(condition.inputs)}
        for op in condition.get_operations():
            if op.type == "Less":
                bound = op.inputs[1]
                number = self._tf.get_static_value(bound)
                if number is None and id(bound) in places:
                    number = self._known_numbers.get(id(inputs[places[id(bound)]].storage))
                if number is not None and int(number) > 0:
                    bounds.append(int(number))
        return min(bounds, default=None)

    def _note_known_number(self, op: Any, inputs: list[Value], outputs: list[Value]) -> None:
        """Note the value of an integer scalar, from which lengths of loops are computed, if it is known."""
        if len(outputs) != 1 or outputs[0].shape or outputs[0].dtype not in ("int32", "int64", "bool"):
            return
        known = [self._known_numbers.get(id(value.storage)) for value in inputs]
        number = self._tf.get_static_value(op.outputs[0])
        if number is None and op.type in _ARITHMETIC and None not in known:
            number = _ARITHMETIC[op.type](*known)
        if number is not None:
            self._known_numbers[id(outputs[0].storage)] = int(number)
            self._handles.append(outputs[0])

    def _value(self, tensor: Any, shapes: _InferredShapes) -> Value:
        dtype = tensor.dtype.base_dtype
        if dtype.name in ("resource", "variant", "string"):
            return Value((), dtype.name, 0)
        return Value(shapes.shape_of(tensor), dtype.name, dtype.size)


class _InferredShapes:
    """The shapes of a function's tensors, inferred with the batch size if the function does not know it."""

    def __init__(self, tf: Any, func_graph: Any, batch: int | None) -> None:
        self._tf = tf
        self._batch = batch
        self._graph = tf.Graph()
        self._fully_defined = all(t.shape.is_fully_defined() for op in func_graph.get_operations() for t in op.outputs)
        self._inferred: dict[int, Any] = {}

    def set_input(self, tensor: Any, shape: tuple[int, ...] | None) -> None:
        if not self._fully_defined:
            self.set_shape(tensor, shape if shape is not None and tensor.shape.is_compatible_with(shape) else None)

    def set_shape(self, tensor: Any, shape: tuple[int, ...] | None) -> None:
        """Set the shape of a tensor by a placeholder."""
        if not self._fully_defined:
            found = self._with_batch(tensor.shape) if shape is None else shape
            if found is not None and not tensor.shape.is_compatible_with(found):
                found = self._with_batch(tensor.shape)
            with self._graph.as_default(), self._tf.device(None):
                self._inferred[id(tensor)] = self._tf.compat.v1.placeholder(tensor.dtype.base_dtype, found)

    def infer(self, op: Any) -> None:
        if self._fully_defined or not op.outputs:
            return
        opaque = ("resource", "variant", "string")
        plain = not any(t.dtype.base_dtype.name in opaque for t in (*op.inputs, *op.outputs))
        try:
            if not plain or _functions_of(op):
                raise ValueError(op.type)
            attributes = {n: a for n, a in op.node_def.attr.items() if not n.startswith("_")}
            types = [t.dtype.base_dtype for t in op.outputs]
            inputs = [self._inferred[id(t)] for t in op.inputs]
            with self._graph.as_default():
                made = self._graph._create_op_internal(op.type, inputs, types, attrs=attributes)  # noqa: SLF001 # `create_op` is deprecated
        except (ValueError, KeyError, TypeError, self._tf.errors.OpError):
            for tensor in op.outputs:
                self.set_shape(tensor, None)
            return
        for tensor, inferred in zip(op.outputs, made.outputs):
            self._inferred[id(tensor)] = inferred

    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        """The shape of a tensor; unknown sizes are −1."""
        inferred = tensor.shape if self._fully_defined else self._inferred[id(tensor)].shape
        if inferred.rank is None:
            return (-1,)
        shape = self._with_batch(inferred)
        return tuple(-1 if size is None else int(size) for size in shape or ())

    def _with_batch(self, shape: Any) -> list[int | None] | None:
        if shape.rank is None:
            return None
        sizes = shape.as_list()
        return [self._batch if size is None and not axis else size for axis, size in enumerate(sizes)]


def _live_operators(func_graph: Any) -> list[Any]:
    """The operators that are run, for a result or a side effect, each after its inputs. That is not always the order
    in which they were made: a loop is given more inputs when its gradient is taken."""
    waiting = [*func_graph.control_outputs, *(tensor.op for tensor in func_graph.outputs)]
    order = {id(op): place for place, op in enumerate(func_graph.get_operations())}
    waiting.sort(key=lambda op: -order[id(op)])
    ordered: list[Any] = []
    state: dict[int, bool] = {}
    while waiting:
        op = waiting[-1]
        if state.get(id(op)) is None:
            state[id(op)] = False
            before = {id(one): one for one in (*(tensor.op for tensor in op.inputs), *op.control_inputs)}
            waiting += sorted((o for k, o in before.items() if k not in state), key=lambda one: -order[id(one)])
        else:
            waiting.pop()
            if not state[id(op)]:
                state[id(op)] = True
                ordered.append(op)
    return ordered


def _function(op: Any, name: str) -> Any:
    return op.graph._get_function(op.node_def.attr[name].func.name).graph  # noqa: SLF001 # TensorFlow has no public name for it


def _functions_of(op: Any) -> list[Any]:
    """The graphs of the functions that an operator runs; for a loop only the body."""
    if op.type in ("While", "StatelessWhile"):
        return [_function(op, "body")]
    names = []
    for name, attribute in op.node_def.attr.items():
        if not name.startswith("_") and attribute.HasField("func"):
            names.append(attribute.func.name)
        names += [one.name for one in attribute.list.func]
    found = [op.graph._get_function(name) for name in names]  # noqa: SLF001 # TensorFlow has no public name for it
    return [one.graph for one in found if getattr(one, "graph", None) is not None]


def _updates(func_graph: Any) -> bool:
    ops = func_graph.get_operations()
    changing = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")
    return any(op.type.startswith(changing) for op in ops) or any(_updates(g) for op in ops for g in _functions_of(op))


def _part(op: Any, inputs: list[Value], outer: str) -> str:
    if outer != FORWARD:
        return outer
    if "gradient_tape/" in op.name or op.name.startswith("gradients/"):
        return BACKWARD
    if not any(value.depends_on_backward for value in inputs):
        return FORWARD
    # A few gradients do not have the name of the tape; an update is never a product.
    return BACKWARD if op.type in _PRODUCTS else OPTIMIZER


def _is_small(value: Value) -> bool:
    return value.elements <= MAX_HOST_ELEMENTS


def _empty_value(value: Value) -> Value:
    return Value(value.shape, value.dtype, 0)


def _runs_on_host(op: Any, outputs: list[Value]) -> bool:
    all_integers = all("int" in value.dtype or value.dtype == "bool" for value in outputs)
    return op.type in ("Shape", "ShapeN", "Size", "Rank") or (all_integers and all(map(_is_small, outputs)))


def _work(op: Any, inputs: list[Value], outputs: list[Value], part: str) -> tuple[str, float, dict[str, Any]]:
    """The kind, the FLOPs and the other fields of an Operation."""
    name = op.type
    product = _PRODUCTS.get(name)
    if product is not None:
        kind, flops, details = product(op, inputs, outputs, part)
        if flops < 0 or any(-1 in value.shape for value in (*inputs, *outputs) if value.itemsize):
            raise UnknownSizeError(f"{name} {op.name}")
        return kind, flops, {**details, "tf32": _allows_tf32()}
    if name.startswith("FusedBatchNorm"):
        image, last = inputs[0].shape, op.node_def.attr["data_format"].s in (b"NHWC", b"NDHWC", b"")
        return NORM, 0.0, {"norm": "batch", "row": max(1, math.prod(image) // max(1, image[-1 if last else 1]))}
    if name.startswith(("Collective", "Nccl")):
        return operations.COMMUNICATION, 0.0, {}
    if name in ("ResourceGather", "ResourceGatherNd"):
        return EMBEDDING, 0.0, {}
    if name in _REDUCTIONS or "Pool" in name:
        softmax = "oftmax" in name and inputs[0].shape
        return REDUCTION, 0.0, {"row": max(1, inputs[0].shape[-1])} if softmax else {}
    return COPY if name in _COPIES else POINTWISE, 0.0, {}


def _allows_tf32() -> bool:
    """True if a GPU may compute float32 products in TF32, as by default."""
    config = sys.modules["tensorflow"].config.experimental
    return bool(getattr(config, "tensor_float_32_execution_enabled", lambda: True)())


Work = tuple[str, float, dict[str, Any]]


def _matmul(op: Any, inputs: list[Value], outputs: list[Value], _part: str) -> Work:
    attributes = op.node_def.attr
    transposed_first = attributes["transpose_a"].b or attributes["adj_x"].b
    return MATMUL, 2.0 * outputs[0].elements * inputs[0].shape[-2 if transposed_first else -1], {}


def _einsum(op: Any, inputs: list[Value], _outputs: list[Value], _part: str) -> Work:
    """One multiply-add for each combination of the indices."""
    terms = op.node_def.attr["equation"].s.decode().partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, value in zip(terms, inputs):
        before, dots, depends_on_backward = term.partition("...")
        shape = list(value.shape)
        for place, letter in enumerate(before):
            sizes[letter] = shape[place]
        for place, letter in enumerate(reversed(depends_on_backward)):
            sizes[letter] = shape[-1 - place]
        if dots:
            hidden = math.prod(shape[len(before) : len(shape) - len(depends_on_backward)])
            sizes["..."] = max(hidden, sizes.get("...", 1))
    return MATMUL, 2.0 * math.prod(sizes.values()), {}


def _convolution(op: Any, inputs: list[Value], outputs: list[Value], part: str) -> Work:
    """Each output element uses one filter of its group; both gradients take as many FLOPs as forward."""
    name = op.type
    if "BackpropInput" in name:
        image, weight, out = outputs[0].shape, inputs[1].shape, inputs[2].shape
    elif "BackpropFilter" in name:
        image, weight, out = inputs[0].shape, outputs[0].shape, inputs[2].shape
    else:
        image, weight, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
    depthwise = name.startswith("Depthwise")
    attributes = op.node_def.attr
    last = not attributes["data_format"].s.decode().startswith("NC")
    axes = slice(1, -1) if last else slice(2, None)
    channel = -1 if last else 1
    filter_size = math.prod(weight[:-2]) * (1 if depthwise else weight[-2])
    # TensorFlow computes a transposed convolution as the input gradient of a convolution, and its gradient as one.
    transposed = "BackpropInput" in name if part == FORWARD else "Backprop" not in name and part == BACKWARD
    groups = weight[-2] if depthwise else max(1, image[channel] // max(1, weight[-2]))
    channels_in, channels_out, plane = image[channel], out[channel], out[axes]
    if transposed:
        channels_in, channels_out, plane = channels_out, channels_in, image[axes]
    shape = operations.convolution_shape(
        channels_in=channels_in,
        channels_out=channels_out,
        kernel=weight[:-2],
        stride=[attributes["strides"].list.i[axis] for axis in range(len(image))][axes],
        plane=plane,
        groups=groups,
        transposed=transposed,
    )
    return CONVOLUTION, 2.0 * math.prod(out) * filter_size, {"convolution": shape}


def _cudnn_rnn(op: Any, inputs: list[Value], _outputs: list[Value], _part: str) -> Work:
    tokens, weights = math.prod(inputs[0].shape[:-1]), inputs[3].elements
    return RNN, 2.0 * tokens * weights * (2 if "Backprop" in op.type else 1), {}


_PRODUCTS: dict[str, Callable[[Any, list[Value], list[Value], str], Work]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "SparseMatMul"), _matmul),
    **dict.fromkeys(("Einsum", "XlaEinsum"), _einsum),
    **dict.fromkeys(("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"), _convolution),
    **dict.fromkeys(("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"), _convolution),
    **dict.fromkeys(
        (
            "DepthwiseConv2dNative",
            "DepthwiseConv2dNativeBackpropInput",
            "DepthwiseConv2dNativeBackpropFilter",
        ),
        _convolution,
    ),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _cudnn_rnn),
    **dict.fromkeys(("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _cudnn_rnn),
}

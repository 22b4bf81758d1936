"""The operators of one iteration of PyTorch: kind, dtype, FLOPs, bytes and shapes of each.

A `TorchDispatchMode` sees every operator that reaches a device, in the forward pass, the backward pass and the
optimizer. FLOPs are those of products (matrices, convolutions, attention, recurrent layers), a multiply-add counting
two; other operators are bound by memory and have none. Bytes are those read plus those written; views move nothing.

part       backward while autograd runs a node; optimizer in a step, and where gradients are switched off after a
           backward pass (a manual update, clipping); otherwise forward
recurrent  a call of `nn.LSTM`, `nn.GRU` or `nn.RNN` is one operation, as it is one kernel with cuDNN; its backward
           pass is recognised by the sequence numbers of the autograd nodes made in that call
attention  a call of `scaled_dot_product_attention` is one operation, as on a GPU (`torch_attention.py`)

PyTorch's own FLOP counter is not used: its figure for the backward pass of a grouped convolution is wrong by `groups`.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for schemas and storages
from __future__ import annotations

import importlib
import math
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from trainfare.probe import operations
    from trainfare.probe import torch_attention as attention
    from trainfare.probe import torch_memory as memory
    from trainfare.probe import torch_precision as precision
    from trainfare.probe.operations import (
        ATTENTION,
        BACKWARD,
        COMMUNICATION,
        CONVOLUTION,
        COPY,
        EMBEDDING,
        FORWARD,
        HALF_PRECISION,
        MATMUL,
        NORM,
        OPTIMIZER,
        POINTWISE,
        REDUCTION,
        RNN,
        Tally,
    )
else:
    operations = importlib.import_module(f"{__package__}.operations")
    attention = importlib.import_module(f"{__package__}.torch_attention")
    memory = importlib.import_module(f"{__package__}.torch_memory")
    precision = importlib.import_module(f"{__package__}.torch_precision")
    ATTENTION, BACKWARD, CONVOLUTION, COPY = (
        operations.ATTENTION,
        operations.BACKWARD,
        operations.CONVOLUTION,
        operations.COPY,
    )
    EMBEDDING, FORWARD, MATMUL, NORM = operations.EMBEDDING, operations.FORWARD, operations.MATMUL, operations.NORM
    OPTIMIZER, POINTWISE, REDUCTION = operations.OPTIMIZER, operations.POINTWISE, operations.REDUCTION
    RNN, HALF_PRECISION, Tally = operations.RNN, operations.HALF_PRECISION, operations.Tally
    COMMUNICATION = operations.COMMUNICATION

MAX_LIST_LENGTH = 4
"""A longer list of tensors, such as all parameters in an optimizer, is recorded without shapes."""

_MATMULS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "vdot", "addbmm", "_addmm_activation"}
_COPIES = {
    "copy_", "_copy_from", "_to_copy", "clone", "cat", "stack", "index", "index_select", "gather", "scatter",
    "index_put_", "_index_put_impl_", "index_add", "index_add_", "scatter_add", "scatter_add_", "slice_backward",
    "select_backward", "constant_pad_nd", "roll", "flip", "repeat", "_foreach_copy_", "slice_scatter",
    "select_scatter", "as_strided_scatter", "pixel_shuffle", "reflection_pad2d",
}  # fmt: skip
_REDUCTIONS = {
    "sum", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "prod", "var", "std", "var_mean",
    "std_mean", "logsumexp", "linalg_vector_norm", "norm", "_foreach_norm", "cumsum", "topk", "sort", "count_nonzero",
}  # fmt: skip
_REDUCING_WORDS = ("softmax", "_loss", "pool", "upsample_")
_NO_TRAFFIC = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_local_scalar_dense",
    "resize_", "set_", "record_stream", "_has_same_storage_numel", "is_same_size", "equal", "_assert_async",
    "_nested_tensor_size", "_unsafe_view", "sym_size", "sym_stride", "sym_numel",
}  # fmt: skip
_COMMUNICATING = {"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "fsdp", "symm_mem"}
"""Name spaces of collectives, and of the copies into and out of their buffers."""
_WRITE_ONLY = {"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_", "normal_", "uniform_", "bernoulli_"}
"""Operators in place that do not read the previous content."""


def kind_of(name: str) -> str:
    """The kind of an operator by its name without overload, such as `addmm` or `native_layer_norm_backward`."""
    if name in _MATMULS:
        return MATMUL
    if "attention" in name:
        return ATTENTION
    if "convolution" in name:
        return CONVOLUTION
    if "rnn" in name or "lstm" in name or "gru" in name:
        return RNN
    if "embedding" in name:
        return EMBEDDING
    if name in _REDUCTIONS or any(word in name for word in _REDUCING_WORDS):
        return REDUCTION
    if name in _COPIES:
        return COPY
    return NORM if "_norm" in name else POINTWISE


def flops_of(name: str, args: Any, out: Any) -> float:
    """The FLOPs of an operator: two per multiply-add of a product, 0 for an operator that is not a product."""
    formula = _FORMULAS.get(name)
    if formula is None and "scaled_dot_product" in name:
        formula = _attention_backward if name.endswith("backward") else _attention
    return formula(args, out) if formula is not None else 0.0


def _mm(args: Any, _out: Any) -> float:
    a, b = args[0], args[1]
    return float(2 * math.prod(a.shape) * (b.shape[-1] if b.dim() > 1 else 1))


def _addmm(args: Any, out: Any) -> float:
    return _mm(args[1:], out)


def _convolution(args: Any, out: Any) -> float:
    """Each output element uses one filter of its group; in a transposed convolution each input element does."""
    image, weight, transposed = args[0], args[1], args[6]
    return float(2 * math.prod(weight.shape[1:]) * math.prod((image if transposed else out).shape))


def _convolution_backward(args: Any, _out: Any) -> float:
    """Adds as many as forward for the gradient of the image, and again for that of the weight, if they are computed."""
    gradient, image, weight, transposed, output_mask = args[0], args[1], args[2], args[7], args[10]
    forward = _convolution((image, weight, None, None, None, None, transposed), gradient)
    return forward * (bool(output_mask[0]) + bool(output_mask[1]))


def _attention(args: Any, _out: Any) -> float:
    """Query × keys and weights × values, of shapes (…, length, width); a causal mask is not subtracted."""
    query, key, value = args[0], args[1], args[2]
    return float(2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _attention_backward(args: Any, _out: Any) -> float:
    """Five products: the scores again, and the gradients of values, weights, query and key."""
    query, key, value = args[1], args[2], args[3]
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return float(2 * pairs * (3 * query.shape[-1] + 2 * value.shape[-1]))


def _mkldnn_rnn(args: Any, _out: Any) -> float:
    tokens = math.prod(args[0].shape[:-1])
    return float(2 * tokens * (args[1].numel() + args[2].numel()))


def _cudnn_rnn(args: Any, _out: Any) -> float:
    tokens = math.prod(args[0].shape[:-1])
    return float(2 * tokens * sum(weight.numel() for weight in args[1] if weight.dim() > 1))


def _twice(formula: Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    return lambda args, out: 2 * formula(args, out)


_FORMULAS: dict[str, Callable[[Any, Any], float]] = {
    "mm": _mm,
    "bmm": _mm,
    "mv": _mm,
    "dot": _mm,
    "vdot": _mm,
    "addmm": _addmm,
    "addmv": _addmm,
    "addbmm": _addmm,
    "baddbmm": _addmm,
    "_addmm_activation": _addmm,
    "mkldnn_rnn_layer_backward": _twice(_mkldnn_rnn),
    "mkldnn_rnn_layer": _mkldnn_rnn,
    "_cudnn_rnn_backward": _twice(_cudnn_rnn),
    "_cudnn_rnn": _cudnn_rnn,
    "convolution_backward": _convolution_backward,
    "convolution": _convolution,
    "_convolution": _convolution,
}


def convolution_shape_of(name: str, args: Any, outputs: list[Any]) -> dict[str, Any] | None:
    """The shape of the forward convolution, from a convolution or its backward pass; None for other operators."""
    if name == "convolution_backward":
        out, image, weight, stride, transposed, groups = args[0], args[1], args[2], args[4], args[7], args[9]
    elif name in ("convolution", "_convolution"):
        out, image, weight, stride, transposed, groups = outputs[0], args[0], args[1], args[3], args[6], args[8]
    else:
        return None
    found: dict[str, Any] | None = operations.convolution_shape(
        channels_in=image.shape[1],
        channels_out=out.shape[1],
        kernel=weight.shape[2:],
        stride=stride,
        plane=out.shape[2:],
        groups=groups,
        transposed=bool(transposed),
    )
    return found


def norm_of(name: str, args: Any) -> tuple[str, int] | None:
    """The kind of a norm and the number of elements it normalises together, forward or backward; None for others."""
    if "batch_norm" in name:
        shape = args[0].shape
        # `instance_norm` moves the samples into the channels. For a batch of one the two norms are the same.
        return "instance" if shape[0] == 1 else "batch", math.prod(shape) // max(1, shape[1])
    if name in ("native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward"):
        over = args[2] if name.endswith("backward") else args[1]
        return "rms" if "rms" in name else "layer", math.prod(over)
    if name in ("native_group_norm", "native_group_norm_backward"):
        channels, plane, groups = args[6:9] if name.endswith("backward") else args[4:7]
        return "group", channels * plane // max(1, groups)
    return None


def softmax_row(name: str, args: Any) -> int | None:
    """The length of a row of a softmax, forward or backward; None for other operators."""
    if name in ("_softmax", "_log_softmax"):
        return int(args[0].shape[args[1]]) if args[0].dim() else None
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        return int(args[1].shape[args[2]]) if args[1].dim() else None
    return None


class Tracer:
    """Counts the operators of one iteration, between `enter` and `leave`."""

    def __init__(self, torch: ModuleType, counting: Callable[[], bool]) -> None:
        self._torch = torch
        self._counting = counting
        self._dispatch_mode = _dispatch_mode(self)
        self._tally = Tally()
        self._seconds = 0.0
        self._schemas: dict[Any, _OperatorSchema | None] = {}
        self._live_storages: dict[int, tuple[Any, int]] = {}
        self._activation_bytes = 0
        self._storage_log = memory.StorageLog()
        self._in_step = self._in_backward = self._step_has_closure = self._had_backward = False
        self._autocast_lowered = False
        """Autocast ran at least one operator in less than float32."""
        self._autocast_node_numbers: set[int] = set()
        self._sequence_number = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        self._recurrent = _RecurrentCalls(torch)
        self._attention = attention.AttentionCalls(torch, self._record_attention, self._fail)
        self._current_node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._error: Exception | None = None
        self._eager_stance: Any = None

    def enter(self) -> None:
        if "torch._dynamo.eval_frame" in sys.modules and hasattr(self._torch.compiler, "set_stance"):
            # A compiled function launches kernels that the dispatcher does not see: run this one iteration eagerly.
            self._eager_stance = self._torch.compiler.set_stance("force_eager")
        self._recurrent.enter()
        self._attention.enter()
        self._dispatch_mode.__enter__()

    def leave(self) -> dict[str, Any]:
        """Stop counting; returns the facts, or raises the error that occurred while counting."""
        self._dispatch_mode.__exit__(None, None, None)
        self._attention.leave()
        self._recurrent.leave()
        if self._eager_stance is not None:
            self._eager_stance.__exit__(None, None, None)
        if self._error is not None:
            raise self._error
        self._recurrent.add_to(self._tally)
        rows = self._tally.rows()
        if not self._autocast_lowered:
            for row in rows:
                row.pop("autocast", None)
        facts = {"activation_bytes": self._activation_bytes, **self._storage_log.facts()}
        return {"operations": rows, **facts, "seconds": self._seconds}

    def step_started(self, *, closure: bool = False, gradients: Iterable[Any] = ()) -> None:
        """A step begins; with a closure the forward and the backward pass run inside it, with gradients enabled."""
        self._in_step, self._step_has_closure = True, closure
        self._storage_log.note_gradients(memory.storages_of(gradients))

    def step_ended(self) -> None:
        self._in_step = False

    def _part(self, node: Any, flops: float) -> str:
        backward = self._in_backward or node is not None
        if self._in_step and (not self._step_has_closure or not (backward or self._torch.is_grad_enabled())):
            return OPTIMIZER
        if backward:
            if not self._had_backward:
                self._note_activations()
            self._had_backward = True
            return BACKWARD
        manual_update = self._had_backward and not flops and not self._torch.is_grad_enabled()
        return OPTIMIZER if manual_update else FORWARD

    def backward_started(self) -> None:
        self._in_backward = True
        self._note_activations()

    def _note_activations(self) -> None:
        """Note the activations: storages made by the forward pass that are alive when the backward pass starts."""
        alive = sum(size for storage, size in self._live_storages.values() if not storage.expired())
        self._activation_bytes = max(self._activation_bytes, alive)

    def backward_ended(self) -> None:
        self._in_backward = False

    def record(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        if self._error is not None or not self._counting():
            return
        start = time.thread_time()
        try:
            self._count(func, args, kwargs, out)
        except Exception as error:  # noqa: BLE001 # an operator that the probe misreads must still run
            self._error = error
        self._seconds += time.thread_time() - start
        if self._seconds > operations.MAX_COUNTING_SECONDS:
            self._error = TimeoutError(f"counting took more than {operations.MAX_COUNTING_SECONDS} s")

    def _record_attention(self, call: attention.FusedCall) -> None:
        """Count a call of attention as the one kernel that a GPU launches, and its result as all that it leaves."""
        if self._error is not None or not self._counting():
            return
        call.dtype = self._dtype(call.result, ATTENTION)
        part = self._part(self._current_node(), 1.0)
        if not self._in_step or self._step_has_closure:
            self._storage_log.note(memory.storages_of([call.result]))
        if part == FORWARD:
            self._note_live_storages([call.result])
        self._add_attention(call, part, backward=False)

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error

    def _add_attention(self, call: attention.FusedCall, part: str, *, backward: bool) -> None:
        flops, bytes_moved = call.work(backward=backward)
        name = f"aten._{attention.NAME}" + ("_backward" if backward else "")
        inputs, outputs = [*call.shapes[:3], *call.shapes[4:]], [call.shapes[3]]
        self._tally.add(ATTENTION, call.dtype, flops, bytes_moved, name=name, part=part, inputs=inputs, outputs=outputs)

    def _is_in_attention(self, func: Any, out: Any) -> bool:
        """True if the operator is part of a call of attention that a GPU runs in one kernel. Its backward pass leaves
        gradients, but no matrix of scores."""
        if self._attention.running is not None:
            return True
        call = self._attention.backward_of(self._current_node())
        if call is None:
            return False
        if not call.had_backward:
            call.had_backward = True
            self._add_attention(call, self._part(self._current_node(), 1.0), backward=True)
        if not self._schema(func).returns_view:
            made = memory.storages_of(_tensors(out))
            self._storage_log.note([storage for storage in made if storage.nbytes() <= call.largest_bytes])
        return True

    def _schema(self, func: Any) -> _OperatorSchema:
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = _OperatorSchema(func)
        return schema

    def _count(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        if self._is_in_attention(func, out):
            return
        schema = self._schema(func)
        outputs = list(_tensors(out))
        if not schema.returns_view:
            self._note_memory(schema, args, kwargs, outputs)
        if schema.moves_no_bytes:
            return
        read, written = schema.traffic(args, kwargs, outputs)
        tensors = [*read, *written]
        if not tensors:
            return
        flops = flops_of(schema.name, args, outputs[0] if outputs else None)
        node = self._current_node()
        part = self._part(node, flops)
        if part == FORWARD and schema.kind != COMMUNICATION:
            self._note_live_storages(outputs)
        kind = OPTIMIZER if part == OPTIMIZER and schema.kind != COMMUNICATION else schema.kind
        bytes_moved = float(sum(map(_bytes, read)) + sum(map(_bytes, written)))
        if schema.name == "embedding":
            # Only the selected rows of the table are read: as many bytes as the output has.
            bytes_moved -= max(0, _bytes(args[0]) - _bytes(outputs[0]))
        # The first floating-point tensor: indices and masks do not determine the dtype of the computation.
        first = next((t for t in tensors if t.is_floating_point()), tensors[0])
        dtype = self._dtype(first, kind)
        if part != OPTIMIZER and self._recurrent.claims(node, self._dtype(first, RNN), flops, bytes_moved):
            return
        norm, row = norm_of(schema.name, args) or (None, softmax_row(schema.name, args))
        self._tally.add(
            kind,
            dtype,
            flops,
            bytes_moved,
            name=schema.full_name,
            part=part,
            inputs=schema.input_shapes(args, kwargs),
            outputs=[] if isinstance(out, list) and len(out) > MAX_LIST_LENGTH else [tuple(t.shape) for t in outputs],
            convolution=convolution_shape_of(schema.name, args, outputs),
            norm=norm,
            row=row,
            autocast=self._autocast_kept_float32(node, dtype, part) and schema.name != "_to_copy",
        )

    def _autocast_kept_float32(self, node: Any, dtype: str, part: str) -> bool:
        """The operator runs in float32 under autocast. Autocast ends before the backward pass, so there the nodes that
        were made under it are recognised by their sequence numbers."""
        is_float32 = dtype in ("float32", "tf32")
        if node is not None:
            return is_float32 and part == BACKWARD and node._sequence_nr() in self._autocast_node_numbers
        # The only query for autocast that also works inside an operator that autocast runs itself.
        under_autocast = self._torch.autocast_increment_nesting() > 1
        self._torch.autocast_decrement_nesting()
        if not under_autocast or part != FORWARD:
            return False
        self._autocast_node_numbers.add(self._sequence_number() - 1)
        self._autocast_lowered = self._autocast_lowered or dtype.startswith(HALF_PRECISION)
        return is_float32

    def _note_memory(self, schema: _OperatorSchema, args: Any, kwargs: dict[str, Any], outputs: list[Any]) -> None:
        """Note the storages that the operator made. A step of the optimizer runs other operators on a GPU than here."""
        if self._in_step and not self._step_has_closure:
            return
        log = self._storage_log
        made = memory.storages_of(outputs)
        given = memory.storages_of(_tensors((args, *kwargs.values()))) if schema.writes else ()
        log.note(made, given)
        if schema.kind == COMMUNICATION:
            if any(word in schema.name for word in ("allgather", "all_gather", "reduce_scatter")):
                log.note_divided()
            log.note_sent([*made, *memory.storages_of(_tensors((args, *kwargs.values())))])
        elif schema.name == "_to_copy" and isinstance(args[0], self._torch.nn.Parameter):
            log.note_copies(made)

    def _note_live_storages(self, outputs: list[Any]) -> None:
        reference: Any = importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef
        for tensor in outputs:
            if tensor.layout is self._torch.strided:
                storage = tensor.untyped_storage()
                self._live_storages[storage._cdata] = (reference(storage), storage.nbytes())

    def _dtype(self, tensor: Any, kind: str) -> str:
        """The dtype in which a GPU would compute; `tf32` where the program allows that for float32."""
        name = str(tensor.dtype).replace("torch.", "")
        return "tf32" if name == "float32" and precision.allows_tf32(self._torch, kind) else name


class _RecurrentCalls:
    """Calls of recurrent layers: all operators in one call are one operation forward and one backward."""

    NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")

    def __init__(self, torch: ModuleType) -> None:
        self._functions: Any = importlib.import_module("torch._VF")
        self._sequence_number = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        self._calls: list[list[Any]] = []
        """Name, first and last sequence number of the autograd nodes, and the work: dtype, FLOPs and bytes of each
        part."""
        self._call: list[Any] | None = None

    def enter(self) -> None:
        for name in self.NAMES:
            setattr(self._functions, name, self._watched(name, getattr(self._functions, name)))

    def leave(self) -> None:
        for name in self.NAMES:
            vars(self._functions).pop(name, None)  # uncovers the attribute that the module resolves itself

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            before, start = self._call, self._sequence_number()
            self._call = [name, start, None, {}]
            self._calls.append(self._call)
            try:
                return function(*args, **options)
            finally:
                self._call[2] = self._sequence_number()
                self._call = before

        return watched

    def claims(self, node: Any, dtype: str, flops: float, bytes_moved: float) -> bool:
        """True if the operator belongs to a call of a recurrent layer; its work is then added to that call."""
        call, part = self._call, FORWARD
        if node is not None:
            number, part = node._sequence_nr(), BACKWARD
            call = next((c for c in self._calls if c[2] is not None and c[1] <= number < c[2]), None)
        if call is None:
            return False
        known = call[3].get(part)
        if known is None:
            known = call[3][part] = [dtype, 0.0, 0.0]
        known[1] += flops
        known[2] += bytes_moved
        return True

    def add_to(self, tally: Tally) -> None:
        for name, _, _, work in self._calls:
            for part, (dtype, flops, bytes_moved) in work.items():
                tally.add(RNN, dtype, flops, bytes_moved, name=f"torch.{name}", part=part)


class _OperatorSchema:
    """The arguments that an operator reads and writes, by its signature."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = schema.name.rpartition("::")[2]
        self.full_name = schema.name.replace("::", ".")
        communicates = schema.name.partition("::")[0] in _COMMUNICATING
        self.kind = COMMUNICATION if communicates else kind_of(self.name)
        self.returns_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.moves_no_bytes = self.returns_view or self.name in _NO_TRAFFIC
        writes = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
        self.writes = any(writes)
        self._names = [argument.name for argument in schema.arguments]
        self._writes = dict(zip(self._names, writes))
        self._overwrites = {
            argument.name
            for argument, write in zip(schema.arguments, writes)
            if write and (argument.kwarg_only or self.name in _WRITE_ONLY)
        }

    def traffic(self, args: Any, kwargs: dict[str, Any], outputs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The tensors read and the tensors written; one that is changed in place is in both."""
        read: list[Any] = []
        written: list[Any] = []
        for name, value in (*zip(self._names, args), *kwargs.items()):
            tensors = list(_tensors(value))
            if name not in self._overwrites:
                read += tensors
            if self._writes.get(name):
                written += tensors
        changed = {id(tensor) for tensor in written}
        return read, written + [tensor for tensor in outputs if id(tensor) not in changed]

    def input_shapes(self, args: Any, kwargs: dict[str, Any]) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        for name, value in (*zip(self._names, args), *kwargs.items()):
            if name not in self._overwrites:
                tensors = list(_tensors(value))
                shapes += [tuple(t.shape) for t in tensors] if len(tensors) <= MAX_LIST_LENGTH else []
        return shapes


def _dispatch_mode(tracer: Tracer) -> Any:
    def dispatch(_self: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        tracer.record(func, args, kwargs, out)
        return out

    base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    return type("CountingMode", (base,), {"__torch_dispatch__": dispatch})()


def _tensors(value: Any) -> Iterable[Any]:
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _bytes(tensor: Any) -> int:
    """The bytes in memory: an expanded tensor is read once, a sparse one has only its values."""
    if tensor.is_sparse:
        tensor = tensor._values()
    elif str(tensor.layout) != "torch.strided":
        return 0
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))

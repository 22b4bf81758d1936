"""What one iteration of PyTorch computes: for each operator its kind, dtype, FLOPs, bytes and shapes.

A `TorchDispatchMode` sees every operator that reaches a device, forward, backward and in the optimizer. FLOPs are
those of products (matrices, convolutions, attention, recurrent layers), a multiply-add being two; other operators
are bound by memory and have none. Bytes are all that is read plus all that is written; views move nothing.

part       backward where autograd runs a node; optimizer in a step, and where gradients are switched off after a
           backward pass (an update by hand, clipping); else forward
recurrent  a call of `nn.LSTM`, `nn.GRU` or `nn.RNN` is one operation, as it is one kernel with cuDNN; its backward
           pass is told by the numbers that autograd gives to the nodes made in that call

PyTorch's own counter is not used: its figure for the backward of a grouped convolution is wrong by `groups`.
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
    from trainfare.probe.operations import (
        ATTENTION,
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
        SHORT,
        Tally,
    )
else:
    operations = importlib.import_module(f"{__package__}.operations")
    ATTENTION, BACKWARD, CONVOLUTION, COPY = (
        operations.ATTENTION,
        operations.BACKWARD,
        operations.CONVOLUTION,
        operations.COPY,
    )
    EMBEDDING, FORWARD, MATMUL, NORM = operations.EMBEDDING, operations.FORWARD, operations.MATMUL, operations.NORM
    OPTIMIZER, POINTWISE, REDUCTION = operations.OPTIMIZER, operations.POINTWISE, operations.REDUCTION
    RNN, SHORT, Tally = operations.RNN, operations.SHORT, operations.Tally

MOST_IN_LIST = 4
"""An argument that is a longer list of tensors (those of a whole model, in an optimizer) is told without shapes."""

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
_WRITE_ONLY = {"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_", "normal_", "uniform_", "bernoulli_"}
"""In place, but what was there before is not read."""


def kind_of(name: str) -> str:
    """The kind of an operator by its name without overload, `addmm` or `native_layer_norm_backward`."""
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
    """Two for each multiply-add of a product; 0 for an operator that is none."""
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
    """Each output sees one filter of its group; of a transposed convolution each input does."""
    image, weight, transposed = args[0], args[1], args[6]
    return float(2 * math.prod(weight.shape[1:]) * math.prod((image if transposed else out).shape))


def _convolution_backward(args: Any, _out: Any) -> float:
    """As much as forward for the gradient of the image, and again for that of the weight, where wanted."""
    gradient, image, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    forward = _convolution((image, weight, None, None, None, None, transposed), gradient)
    return forward * (bool(wanted[0]) + bool(wanted[1]))


def _attention(args: Any, _out: Any) -> float:
    """Query × keys and weights × values, of shapes (…, length, width); a causal mask is not taken off."""
    query, key, value = args[0], args[1], args[2]
    return float(2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _attention_backward(args: Any, _out: Any) -> float:
    """Five products: scores again, and the gradients of values, weights, query and key."""
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


def convolution_of(name: str, args: Any, outputs: list[Any]) -> dict[str, Any] | None:
    """Its shape, as forward has it, of a convolution or of its backward pass."""
    if name == "convolution_backward":
        out, image, weight, stride, transposed, groups = args[0], args[1], args[2], args[4], args[7], args[9]
    elif name in ("convolution", "_convolution"):
        out, image, weight, stride, transposed, groups = outputs[0], args[0], args[1], args[3], args[6], args[8]
    else:
        return None
    found: dict[str, Any] | None = operations.convolution(
        inward=image.shape[1],
        outward=out.shape[1],
        kernel=weight.shape[2:],
        stride=stride,
        plane=out.shape[2:],
        groups=groups,
        transposed=bool(transposed),
    )
    return found


def norm_of(name: str, args: Any) -> tuple[str, int] | None:
    """The kind of a norm and how many elements it takes together, forward or backward."""
    if "batch_norm" in name:
        shape = args[0].shape
        # `instance_norm` puts its samples among the channels. A batch of one has nothing else to take together.
        return "instance" if shape[0] == 1 else "batch", math.prod(shape) // max(1, shape[1])
    if name in ("native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward"):
        over = args[2] if name.endswith("backward") else args[1]
        return "rms" if "rms" in name else "layer", math.prod(over)
    if name in ("native_group_norm", "native_group_norm_backward"):
        channels, plane, groups = args[6:9] if name.endswith("backward") else args[4:7]
        return "group", channels * plane // max(1, groups)
    return None


def softmax_row(name: str, args: Any) -> int | None:
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
        self._mode = _mode(self)
        self._tally = Tally()
        self._seconds = 0.0
        self._schemas: dict[Any, _Schema | None] = {}
        self._alive: dict[int, tuple[Any, int]] = {}
        self._kept_bytes = 0
        self._in_step = self._in_backward = self._closure = self._had_backward = False
        self._shortened = False
        """An autocast was seen to run something in less than float32."""
        self._under_autocast: set[int] = set()
        self._next_number = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        self._recurrent = _Recurrent(torch)
        self._current_node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._error: Exception | None = None
        self._eagerly: Any = None

    def enter(self) -> None:
        if "torch._dynamo" in sys.modules and hasattr(self._torch.compiler, "set_stance"):
            # A compiled function launches kernels that no dispatcher sees: let this one iteration run eagerly.
            self._eagerly = self._torch.compiler.set_stance("force_eager")
        self._recurrent.enter()
        self._mode.__enter__()

    def leave(self) -> dict[str, Any]:
        """The facts; raises what went wrong while counting."""
        self._mode.__exit__(None, None, None)
        self._recurrent.leave()
        if self._eagerly is not None:
            self._eagerly.__exit__(None, None, None)
        if self._error is not None:
            raise self._error
        self._recurrent.tell(self._tally)
        rows = self._tally.rows()
        if not self._shortened:
            for row in rows:
                row.pop("autocast", None)
        return {"operations": rows, "activation_bytes": self._kept_bytes, "seconds": self._seconds}

    def step_started(self, *, closure: bool = False) -> None:
        """With a closure the forward and the backward pass run inside the step, with gradients enabled."""
        self._in_step, self._closure = True, closure

    def step_ended(self) -> None:
        self._in_step = False

    def _part(self, node: Any, flops: float) -> str:
        backward = self._in_backward or node is not None
        if self._in_step and (not self._closure or not (backward or self._torch.is_grad_enabled())):
            return OPTIMIZER
        if backward:
            if not self._had_backward:
                self._note_kept()
            self._had_backward = True
            return BACKWARD
        by_hand = self._had_backward and not flops and not self._torch.is_grad_enabled()
        return OPTIMIZER if by_hand else FORWARD

    def backward_started(self) -> None:
        self._in_backward = True
        self._note_kept()

    def _note_kept(self) -> None:
        """What the forward pass made and still holds when the backward pass starts is what that needs."""
        kept = sum(size for storage, size in self._alive.values() if not storage.expired())
        self._kept_bytes = max(self._kept_bytes, kept)

    def backward_ended(self) -> None:
        self._in_backward = False

    def saw(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        if self._error is not None or not self._counting():
            return
        start = time.perf_counter()
        try:
            self._count(func, args, kwargs, out)
        except Exception as error:  # noqa: BLE001 # an operator that we misread must still run
            self._error = error
        self._seconds += time.perf_counter() - start
        if self._seconds > operations.COUNTING_SECONDS:
            self._error = TimeoutError(f"counting took more than {operations.COUNTING_SECONDS} s")

    def _count(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = _Schema(func)
        if schema.moves_nothing:
            return
        outputs = list(_tensors(out))
        read, written = schema.traffic(args, kwargs, outputs)
        tensors = [*read, *written]
        if not tensors:
            return
        flops = flops_of(schema.name, args, outputs[0] if outputs else None)
        node = self._current_node()
        part = self._part(node, flops)
        if part == FORWARD:
            self._note_storages(outputs)
        kind = OPTIMIZER if part == OPTIMIZER else schema.kind
        moved = float(sum(map(_bytes, read)) + sum(map(_bytes, written)))
        if schema.name == "embedding":
            # Only the rows that are taken are read: as much as comes out.
            moved -= max(0, _bytes(args[0]) - _bytes(outputs[0]))
        # The first tensor that computes: indices and masks do not say in what the work is done.
        first = next((t for t in tensors if t.is_floating_point()), tensors[0])
        dtype = self._dtype(first, kind)
        if part != OPTIMIZER and self._recurrent.took(node, dtype, flops, moved):
            return
        norm, row = norm_of(schema.name, args) or (None, softmax_row(schema.name, args))
        self._tally.add(
            kind,
            dtype,
            flops,
            moved,
            name=schema.full_name,
            part=part,
            inputs=schema.shapes_read(args, kwargs),
            outputs=[] if isinstance(out, list) and len(out) > MOST_IN_LIST else [tuple(t.shape) for t in outputs],
            convolution=convolution_of(schema.name, args, outputs),
            norm=norm,
            row=row,
            autocast=self._kept_long(node, dtype, part) and schema.name != "_to_copy",
        )

    def _kept_long(self, node: Any, dtype: str, part: str) -> bool:
        """Autocast ends before the backward pass, which is known by the numbers of the nodes that it made."""
        long = dtype in ("float32", "tf32")
        if node is not None:
            return long and part == BACKWARD and node._sequence_nr() in self._under_autocast
        # The only question about autocast that is also answered inside an operator that autocast runs itself.
        inside = self._torch.autocast_increment_nesting() > 1
        self._torch.autocast_decrement_nesting()
        if not inside or part != FORWARD:
            return False
        self._under_autocast.add(self._next_number() - 1)
        self._shortened = self._shortened or dtype.startswith(SHORT)
        return long

    def _note_storages(self, outputs: list[Any]) -> None:
        reference: Any = importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef
        for tensor in outputs:
            if tensor.layout is self._torch.strided:
                storage = tensor.untyped_storage()
                self._alive[storage._cdata] = (reference(storage), storage.nbytes())

    def _dtype(self, tensor: Any, kind: str) -> str:
        name = str(tensor.dtype).replace("torch.", "")
        if name == "float32" and tensor.is_cuda and kind in (CONVOLUTION, MATMUL):
            backends = self._torch.backends
            allowed = backends.cudnn if kind == CONVOLUTION else backends.cuda.matmul
            return "tf32" if allowed.allow_tf32 else name
        return name


class _Recurrent:
    """Calls of recurrent layers: what runs in each is one operation forward and one backward."""

    NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")

    def __init__(self, torch: ModuleType) -> None:
        self._functions: Any = importlib.import_module("torch._VF")
        self._number = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        self._calls: list[list[Any]] = []
        """Name, the numbers of autograd's nodes made in it, and the work: dtype, FLOPs and bytes of each part."""
        self._call: list[Any] | None = None

    def enter(self) -> None:
        for name in self.NAMES:
            setattr(self._functions, name, self._watched(name, getattr(self._functions, name)))

    def leave(self) -> None:
        for name in self.NAMES:
            vars(self._functions).pop(name, None)  # behind it is what the module finds by itself

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            before, start = self._call, self._number()
            self._call = [name, start, None, {}]
            self._calls.append(self._call)
            try:
                return function(*args, **options)
            finally:
                self._call[2] = self._number()
                self._call = before

        return watched

    def took(self, node: Any, dtype: str, flops: float, moved: float) -> bool:
        """It belongs to such a call."""
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
        known[2] += moved
        return True

    def tell(self, tally: Tally) -> None:
        for name, _, _, work in self._calls:
            for part, (dtype, flops, moved) in work.items():
                tally.add(RNN, dtype, flops, moved, name=f"torch.{name}", part=part)


class _Schema:
    """What an operator's signature says of reading and writing."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = schema.name.rpartition("::")[2]
        self.full_name = schema.name.replace("::", ".")
        self.kind = kind_of(self.name)
        returns_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.moves_nothing = returns_view or self.name in _NO_TRAFFIC
        writes = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
        self._names = [argument.name for argument in schema.arguments]
        self._writes = dict(zip(self._names, writes))  # noqa: B905 # `strict` is newer than the user's Python may be
        self._overwrites = {
            argument.name
            for argument, write in zip(schema.arguments, writes)  # noqa: B905 # as above
            if write and (argument.kwarg_only or self.name in _WRITE_ONLY)
        }

    def traffic(self, args: Any, kwargs: dict[str, Any], outputs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The tensors read and those written; one that is changed in place is both."""
        read: list[Any] = []
        written: list[Any] = []
        for name, value in (*zip(self._names, args), *kwargs.items()):  # noqa: B905 # as above
            tensors = list(_tensors(value))
            if name not in self._overwrites:
                read += tensors
            if self._writes.get(name):
                written += tensors
        changed = {id(tensor) for tensor in written}
        return read, written + [tensor for tensor in outputs if id(tensor) not in changed]

    def shapes_read(self, args: Any, kwargs: dict[str, Any]) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        for name, value in (*zip(self._names, args), *kwargs.items()):  # noqa: B905 # as above
            if name not in self._overwrites:
                tensors = list(_tensors(value))
                shapes += [tuple(t.shape) for t in tensors] if len(tensors) <= MOST_IN_LIST else []
        return shapes


def _mode(tracer: Tracer) -> Any:
    def dispatch(_self: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        tracer.saw(func, args, kwargs, out)
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
    """What lies in memory: an expanded tensor is read once, a sparse one has only its values."""
    if tensor.is_sparse:
        tensor = tensor._values()
    elif str(tensor.layout) != "torch.strided":
        return 0
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))

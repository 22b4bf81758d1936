"""The operations of one iteration at another batch size than the traced one.

Work is affine in the batch B: a tensor with a batch dimension grows with it; weights, their gradients and the
optimizer's state do not. At B', an operation that was traced at B moves

    bytes(B') = bytes(B) · (1 − s + s·B'/B),      s = the share of its elements in tensors with a batch dimension

and computes flops(B') = flops(B)·B'/B if any of its tensors has one. The shapes show which tensors do, by kind:

product      a product of (m, k) and (k, n) has its samples in exactly one of m, k and n: m in the forward pass and for
             the gradient of the input, k for the gradient of the weights; a batch of g products (attention) in g
convolution  all tensors but weights and their gradients
embedding    reads as many rows of its table as it writes, never more than the table has
norm         all tensors but vectors
others       a dimension that is a multiple of B, the most likely first; tensors that are broadcast over it do not grow,
             nor do tensors with the shape of a weight, if no layer reads or writes activations of that shape
optimizer    nothing, except where gradients of an embedding table come as rows; communication: nothing

Where the tracer recorded no shapes, products read the weights that appear in no other operation, and everything else
grows.

With profiles at two batch sizes or more nothing has to be guessed: operations are matched, and each is linear through
the two nearest batch sizes. Operations that cannot be matched are scaled together so that the sums of each operator are
right.

Limits: where the batch size equals a width of the network, the wrong tensor of two may be taken to grow; a framework
may choose another algorithm at another batch size, which no shape shows.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from trainfare.model.profile import Operation, Profile

Shape = tuple[int, ...]

_ROW_UPDATE_NAMES = ("Segment", "scatter", "Scatter", "index_add", "index_put", "sparse", "Sparse")
_ITEMSIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
_PRODUCTS = ("convolution", "matmul", "rnn")
_MAX_WEIGHT_SHARE = 0.9
"""Largest share of the bytes of a product without shapes that counts as weights: some are always samples."""


def operations_at(profiles: Sequence[Profile], batch_size: int) -> tuple[Operation, ...]:
    """The operations of one iteration with `batch_size` samples in a forward pass."""
    return operations_by_batch(profiles)(batch_size)


def operations_by_batch(profiles: Sequence[Profile]) -> Callable[[int], tuple[Operation, ...]]:
    """`operations_at` for many batch sizes: the shapes are read once.

    Profiles without operations or without a batch size are ignored; without any other it is a `ValueError`.
    """
    by_batch: dict[int, Profile] = {}
    for profile in profiles:
        if profile.micro_batch_size is not None and profile.operations:
            by_batch.setdefault(profile.micro_batch_size, profile)
    if not by_batch:
        raise ValueError("operations at another batch size need a profile with operations and a batch size")
    known = sorted(by_batch)
    growths: dict[tuple[int, int], list[_OperationGrowth]] = {}

    def at(batch_size: int) -> tuple[Operation, ...]:
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        if batch_size in by_batch:
            return by_batch[batch_size].operations
        near, other = _two_nearest(known, batch_size)
        if (near, other) not in growths:
            growths[near, other] = _operation_growth(by_batch[near], by_batch[other] if other != near else None)
        return tuple(growth.at(batch_size) for growth in growths[near, other])

    return at


def _two_nearest(known: Sequence[int], batch_size: int) -> tuple[int, int]:
    """The nearest batch size by ratio, then the nearest on the other side of `batch_size`, or else the next."""
    ordered = sorted(known, key=lambda b: abs(math.log(b / batch_size)))
    across = [b for b in ordered if (b > batch_size) != (ordered[0] > batch_size)]
    return ordered[0], (across or [*ordered[1:], ordered[0]])[0]


@dataclass(frozen=True, slots=True)
class _OperationGrowth:
    """The growth of one operation that was traced at B: `flops` and `bytes` per additional sample."""

    operation: Operation
    batch: int
    flops: float
    bytes: float
    axes: tuple[int | None, ...] = ()
    """The batch dimension of each input and output; None where it has none."""
    row: bool = False
    """True where the `row` of the operation grows too."""
    table: tuple[float, float] | None = None
    """For an embedding: the bytes of its table and the bytes it writes; `bytes` then excludes reads of the table."""

    def bytes_at(self, batch_size: int) -> float:
        moved = self.operation.bytes + self.bytes * (batch_size - self.batch)
        if self.table is not None:
            size, written = self.table
            moved += min(size, written * batch_size / self.batch) - min(size, written)
        return moved if moved > 0 else 0.0

    def at(self, batch_size: int) -> Operation:
        op = self.operation
        if not self.flops and not self.bytes:
            return op
        flops = op.flops + self.flops * (batch_size - self.batch)
        inputs, outputs = self._shapes_at(batch_size) if self.axes else (op.inputs, op.outputs)
        return Operation(
            kind=op.kind,
            dtype=op.dtype,
            flops=flops if flops > 0 else 0.0,
            bytes=self.bytes_at(batch_size),
            count=op.count,
            name=op.name,
            part=op.part,
            inputs=inputs,
            outputs=outputs,
            convolution=op.convolution,
            norm=op.norm,
            row=max(1, op.row * batch_size // self.batch) if op.row and self.row else op.row,
            autocast=op.autocast,
        )

    def _shapes_at(self, batch_size: int) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
        op = self.operation
        shapes = [_resized(s, a, self.batch, batch_size) for s, a in zip(_shapes(op), self.axes, strict=True)]
        return tuple(shapes[: len(op.inputs)]), tuple(shapes[len(op.inputs) :])


def _resized(shape: Shape, axis: int | None, batch: int, batch_size: int) -> Shape:
    if axis is None:
        return shape
    return (*shape[:axis], shape[axis] * batch_size // batch, *shape[axis + 1 :])


def _shapes(operation: Operation) -> tuple[Shape, ...]:
    return operation.inputs + operation.outputs


def _operation_growth(profile: Profile, other: Profile | None) -> list[_OperationGrowth]:
    growths = _growth_by_shapes(profile)
    return growths if other is None else _fit_to_both(growths, _growth_by_shapes(other))


# ---- from one profile


def _growth_by_shapes(profile: Profile) -> list[_OperationGrowth]:
    batch = profile.micro_batch_size
    if batch is None:
        raise ValueError("a profile without a batch size does not show which tensors grow with it")
    reader = _ShapeReader(profile.operations, batch)
    growths = [reader.growth(operation) for operation in profile.operations]
    weight_shares = _weight_shares(profile, reader)
    return [
        _growth_without_shapes(growth, weight_shares) if _has_no_shapes(growth.operation) else growth
        for growth in growths
    ]


def _has_no_shapes(operation: Operation) -> bool:
    return operation.kind not in ("optimizer", "communication") and not operation.inputs and not operation.outputs


def _weight_shares(profile: Profile, reader: "_ShapeReader") -> dict[tuple[str, str | None], float]:
    """The share of weights in the bytes of products without shapes, by kind and part.

    The forward pass reads each weight once; the backward pass reads it and writes its gradient.
    """
    shaped = 4 * sum(math.prod(shape) for shape in reader.layer_weights)
    weights = max(0.0, (profile.gradient_bytes or 4 * (profile.parameters or 0)) - shaped)
    moved: dict[tuple[str, str | None], float] = defaultdict(float)
    for op in profile.operations:
        if _has_no_shapes(op) and op.kind in _PRODUCTS:
            moved[op.kind, op.part] += op.count * op.bytes
    by_part: dict[str | None, float] = defaultdict(float)
    for (_, part), total in moved.items():
        by_part[part] += total
    passes = {"forward": 1, "backward": 2, None: 3}
    return {
        (kind, part): min(_MAX_WEIGHT_SHARE, passes.get(part, 0) * weights / by_part[part])
        for kind, part in moved
        if by_part[part]
    }


def _growth_without_shapes(
    growth: _OperationGrowth, weight_shares: dict[tuple[str, str | None], float]
) -> _OperationGrowth:
    op = growth.operation
    fixed = weight_shares.get((op.kind, op.part), 0.0)
    return replace(growth, flops=op.flops / growth.batch, bytes=(1 - fixed) * op.bytes / growth.batch)


class _ShapeReader:
    """Finds the batch dimension of each tensor of an operation, given the shapes of all operations."""

    def __init__(self, operations: Iterable[Operation], batch: int) -> None:
        self.batch = batch
        self.layer_weights: set[Shape] = set()
        self._weights: set[Shape] = set()
        self._activations: set[Shape] = set()
        self._layers: set[tuple[int, frozenset[int]]] = set()
        """Extents of forward products: the one that counts samples, and the other two of m, k and n."""
        for op in operations:
            self._record(op)
        self._weights |= self.layer_weights | {shape[::-1] for shape in self.layer_weights if len(shape) == 2}

    def growth(self, operation: Operation) -> _OperationGrowth:
        """The growth of an operation, from the batch dimensions of its tensors."""
        axes = self._axes(operation)
        sizes = [_size(operation, shape) for shape in _shapes(operation)]
        carried = sum(size for size, axis in zip(sizes, axes, strict=True) if axis is not None)
        total = sum(sizes)
        share = carried / total if total else 0.0
        table = _embedding_bytes(operation) if carried else None
        grown = share * operation.bytes if table is None else max(0.0, operation.bytes - min(table))
        return _OperationGrowth(
            operation=operation,
            batch=self.batch,
            flops=operation.flops / self.batch if carried else 0.0,
            bytes=grown / self.batch,
            axes=axes,
            row=operation.norm == "batch" and carried > 0,
            table=table,
        )

    def _axes(self, op: Operation) -> tuple[int | None, ...]:
        shapes = _shapes(op)
        if op.kind == "communication" or (op.kind == "optimizer" and not self._updates_rows(op)):
            return (None,) * len(shapes)
        if op.kind == "convolution":
            return tuple(None if self._is_filter(op, shape) else self._axis(shape) for shape in shapes)
        if op.kind == "matmul" and len(op.inputs) >= 2 and len(op.outputs) == 1:
            return self._product_axes(op)
        if op.kind == "embedding":
            table = 0 if op.part != "backward" else len(shapes) - 1
            return tuple(None if place == table else self._axis(shape) for place, shape in enumerate(shapes))
        if op.kind == "norm":
            return tuple(self._axis(shape) if len(shape) > 1 else None for shape in shapes)
        if op.kind == "attention" or op.kind == "rnn":
            return tuple(self._axis(shape) if len(shape) > 2 else None for shape in shapes)
        if op.name == "aten._to_copy" and op.outputs and op.outputs[0] in self._weights:
            return (None,) * len(shapes)  # autocast converts weights; activations are converted already
        return self._elementwise_axes(shapes, reduced=op.outputs if op.kind == "reduction" else ())

    def _updates_rows(self, op: Operation) -> bool:
        """True for an optimizer step on the rows of an embedding table, whose gradient has one row per token."""
        if any(word in (op.name or "") for word in _ROW_UPDATE_NAMES):
            return True
        return any(len(s) > 2 and s[0] == self.batch and s in self._activations for s in op.inputs)

    def _elementwise_axes(self, shapes: tuple[Shape, ...], reduced: tuple[Shape, ...]) -> tuple[int | None, ...]:
        """The batch dimension of the largest tensor, and the same dimension of tensors that broadcast to it."""
        widest = max(shapes, key=lambda shape: (math.prod(shape), len(shape)), default=())
        lead = None if self._is_weight(widest) else self._axis(widest)
        if lead is None:
            return (None,) * len(shapes)
        axes: list[int | None] = []
        for shape in shapes:
            place = lead - (len(widest) - len(shape))
            if shape in reduced and 1 < len(shape) < len(widest) and shape not in self._weights:
                axes.append(self._axis(shape))
            elif _broadcasts(shape, widest):
                axes.append(place if place >= 0 and shape[place] == widest[lead] else None)
            elif len(shape) == 1:
                axes.append(0 if shape[0] == widest[lead] and shape not in self._weights else self._vector(shape))
            else:
                axes.append(None if self._is_weight(shape) else self._axis(shape))
        return tuple(axes)

    def _vector(self, shape: Shape) -> int | None:
        return 0 if shape[0] % self.batch == 0 and shape not in self._weights else None

    def _is_weight(self, shape: Shape) -> bool:
        return shape in self._weights and shape not in self._activations

    def _axis(self, shape: Shape) -> int | None:
        """The dimension that is most likely the batch: exactly B, then a leading multiple, then any but the last."""
        b = self.batch
        if not shape:
            return None
        if len(shape) == 1:
            return self._vector(shape)
        if shape[0] == b or (len(shape) == 2 and shape[0] % b == 0):
            return 0
        inner = range(1, len(shape) - 1)
        exact = next((axis for axis in inner if shape[axis] == b), None)
        if exact is not None and b > 1:
            return exact
        if shape[0] % b == 0:
            return 0
        if shape[-1] == b:
            return len(shape) - 1
        # The largest of several multiples is the most likely: samples × heads more often than a width.
        multiples = [axis for axis in inner if shape[axis] % b == 0]
        broadcast = shape[0] == 1 and shape[1:] not in self._activations
        return None if not multiples or (broadcast and len(shape) == 3) else max(multiples, key=lambda a: shape[a])

    def _record(self, op: Operation) -> None:
        shapes = _shapes(op)
        if op.kind == "optimizer":
            if not any(word in (op.name or "") for word in _ROW_UPDATE_NAMES):
                self._weights.update(shape for shape in shapes if shape)
        elif op.kind == "convolution":
            for shape in shapes:
                is_filter = self._is_filter(op, shape)
                (self.layer_weights if is_filter and len(shape) > 1 else self._activations).add(shape)
        elif op.kind == "norm":
            self._weights.update(shape for shape in shapes if len(shape) == 1)
            self._activations.update(shape for shape in shapes if len(shape) > 1)
        elif op.kind == "embedding" and op.part != "backward" and op.inputs:
            self.layer_weights.add(op.inputs[0])
        elif op.kind == "matmul" and op.part != "backward" and len(op.inputs) >= 2 and len(op.outputs) == 1:
            self._record_product(op)

    def _record_product(self, op: Operation) -> None:
        extents = _extents(op)
        if extents is None or extents[0] % self.batch:
            return
        m, k, n = extents
        self._layers.add((m, frozenset((k, n))))
        self._activations.update((op.inputs[-2], op.outputs[0]))
        self.layer_weights.add(op.inputs[-1])
        self._weights.update(op.inputs[:-2])

    def _product_axes(self, op: Operation) -> tuple[int | None, ...]:
        shapes = _shapes(op)
        extents = _extents(op)
        if extents is None:  # a batch of products: samples × heads
            return tuple(self._axis(shape) if len(shape) > 2 else None for shape in shapes)
        rows = self._sample_dimension(op, extents)
        if rows is None:
            return (None,) * len(shapes)
        carries = {0: (True, False, True), 1: (True, True, False), 2: (False, True, True)}[rows]
        three = (op.inputs[-2], op.inputs[-1], op.outputs[0])
        first, second, out = (
            self._axis_of(shape, extents[rows]) if here else None for shape, here in zip(three, carries, strict=True)
        )
        added = [out if shape == op.outputs[0] else None for shape in op.inputs[:-2]]
        return (*added, first, second, out)

    def _sample_dimension(self, op: Operation, extents: tuple[int, int, int]) -> int | None:
        """The position in (m, k, n) of the extent that counts samples."""
        multiples = [place for place in (0, 1, 2) if extents[place] % self.batch == 0]
        if op.part != "backward":
            return next(iter(p for p in (0, 2, 1) if p in multiples), None)
        for place in multiples:
            others = frozenset(extents[p] for p in (0, 1, 2) if p != place)
            if (extents[place], others) in self._layers:
                return place
        return max(multiples, key=lambda place: extents[place], default=None)

    def _axis_of(self, shape: Shape, rows: int) -> int | None:
        if len(shape) == 2 and rows in shape:
            return shape.index(rows)
        return self._axis(shape)

    @staticmethod
    def _is_filter(op: Operation, shape: Shape) -> bool:
        """True for the weight of this convolution or its gradient, in PyTorch or TensorFlow order, and for a bias."""
        if len(shape) < 2:
            return True
        shaped = op.convolution
        if shaped is None:
            return False
        elements = shaped.channels_in * shaped.channels_out // shaped.groups * math.prod(shaped.kernel)
        extents = len(shaped.kernel)
        return math.prod(shape) == elements and shaped.kernel in (shape[-extents:], shape[:extents])


def _size(op: Operation, shape: Shape) -> int:
    """The size in elements of the operation's dtype: a norm in half precision keeps its vectors in float32."""
    long = op.kind == "norm" and len(shape) == 1 and _ITEMSIZES.get(op.dtype, 4) < 4
    return (1 + long) * math.prod(shape)


def _embedding_bytes(op: Operation) -> tuple[float, float] | None:
    if op.kind != "embedding" or op.part == "backward" or not op.inputs or not op.outputs:
        return None
    itemsize = _ITEMSIZES.get(op.dtype, 4)
    return float(itemsize * math.prod(op.inputs[0])), float(itemsize * math.prod(op.outputs[0]))


def _extents(op: Operation) -> tuple[int, int, int] | None:
    """m, k and n of a product of (m, k) and (k, n), transposed or not; None for a batch of several products.

    The tensors of g products have gmk, gkn and gmn elements, and there are 2gmkn FLOPs: all four numbers follow.
    """
    a, b, out = (math.prod(shape) for shape in (op.inputs[-2], op.inputs[-1], op.outputs[0]))
    if not (a and b and out and op.flops):
        return None
    g = (2 * math.sqrt(a) * math.sqrt(b) * math.sqrt(out) / op.flops) ** 2
    if g > 1.5:
        return None
    return round(math.sqrt(a * out / b)), round(math.sqrt(a * b / out)), round(math.sqrt(b * out / a))


def _broadcasts(shape: Shape, larger: Shape) -> bool:
    """True where NumPy would broadcast it: its last dimensions are those of the other shape, or 1."""
    if not shape or len(shape) > len(larger):
        return False
    return all(mine in (theirs, 1) for mine, theirs in zip(reversed(shape), reversed(larger), strict=False))


# ---- from two profiles


def _fit_to_both(growths: list[_OperationGrowth], others: list[_OperationGrowth]) -> list[_OperationGrowth]:
    """The growth of each operation of the nearer profile, corrected so that it agrees with the other profile."""
    groups: dict[tuple[object, ...], tuple[list[_OperationGrowth], list[_OperationGrowth]]] = defaultdict(
        lambda: ([], [])
    )
    for place, side in enumerate((growths, others)):
        for growth in side:
            op = growth.operation
            groups[op.kind, op.dtype, op.name, op.part][place].append(growth)
    fitted: dict[int, _OperationGrowth] = {}
    for mine, theirs in groups.values():
        if theirs:
            fitted |= {id(growth): new for growth, new in zip(mine, _fit_group_to_both(mine, theirs), strict=True)}
    return [fitted.get(id(growth), growth) for growth in growths]


def _fit_group_to_both(mine: list[_OperationGrowth], theirs: list[_OperationGrowth]) -> list[_OperationGrowth]:
    """The corrected growth of operators with the same name.

    Operations whose shapes predict exactly what was traced at the other batch size are right. The remaining ones share
    the rest of the sums, in proportion to their growth by shapes, or to their size where shapes show no growth.
    """
    b, other = mine[0].batch, theirs[0].batch
    left: dict[tuple[float, float], int] = defaultdict(int)
    for growth in theirs:
        left[growth.operation.flops, growth.operation.bytes] += growth.operation.count
    unmatched: list[int] = []
    for place, growth in enumerate(mine):
        key = (growth.operation.flops + growth.flops * (other - b), round(growth.bytes_at(other), 3))
        if left.get(key, 0) >= growth.operation.count:
            left[key] -= growth.operation.count
        else:
            unmatched.append(place)
    fitted = list(mine)
    rest = [mine[place] for place in unmatched]
    for term, position in (("flops", 0), ("bytes", 1)):
        here = sum(growth.operation.count * getattr(growth.operation, term) for growth in rest)
        there = sum(count * key[position] for key, count in left.items())
        slope = (there - here) / (other - b)
        predicted = sum(growth.operation.count * getattr(growth, term) for growth in rest)
        for place in unmatched:
            growth = fitted[place]
            if predicted:
                per_sample = getattr(growth, term) * slope / predicted
            else:
                per_sample = getattr(growth.operation, term) * slope / (here or 1)
            fitted[place] = replace(growth, **{term: per_sample})
    return fitted

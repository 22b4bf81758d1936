"""The operations of one iteration at another batch size than the one that was traced.

Work is affine in the batch B: a tensor that carries the batch in one of its dimensions grows with it, weights, their
gradients and the optimizer's state do not. So at B' an operation that was traced at B moves

    bytes(B') = bytes(B) · (1 − s + s·B'/B),      s = the share of its elements in tensors that carry the batch

and computes flops(B') = flops(B)·B'/B if any of its tensors does. Which do is read off the shapes, by kind:

product      a product of (m, k) and (k, n) has its rows of samples in exactly one of m, k and n: m forward and for the
             gradient of what came in, k for the gradient of the weights; g products at once (attention) in g
convolution  all but weights and their gradients
embedding    reads as many rows of its table as it writes, never more than the table has
norm         all but vectors
others       a dimension that is a multiple of B, the most likely first; what is broadcast over it does not carry it,
             nor does a tensor of the shape of a weight, if no layer takes or gives that shape
optimizer    nothing, but where gradients of a table come as rows

Where a tracer told no shapes, products read weights that are nowhere else to be seen, and everything else grows.

From profiles at two batch sizes or more nothing has to be guessed: operations are matched and each goes linearly
through the two nearest. What cannot be matched is scaled together, so that the sums of each operator are right.

Limits: at one batch size that equals a width of the network, a tensor may be taken for the wrong one of two; a
framework may take another algorithm at another batch size, which no shape tells.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from trainfare.model.profile import Operation, Profile

Shape = tuple[int, ...]

_ROWS_OF_TABLES = ("Segment", "scatter", "Scatter", "index_add", "index_put", "sparse", "Sparse")
_ITEMSIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
_PRODUCTS = ("convolution", "matmul", "rnn")
_MOST_WEIGHT_BYTES = 0.9
"""Of what a product without shapes moves: some of it is always samples."""


def operations_at(profiles: Sequence[Profile], batch_size: int) -> tuple[Operation, ...]:
    """What one iteration launches with `batch_size` samples a step of the loader."""
    return operations_by_batch(profiles)(batch_size)


def operations_by_batch(profiles: Sequence[Profile]) -> Callable[[int], tuple[Operation, ...]]:
    """`operations_at` for many batch sizes: the shapes are read once.

    Profiles without operations or without a batch size say nothing; where none says anything it is a `ValueError`.
    """
    by_batch: dict[int, Profile] = {}
    for profile in profiles:
        if profile.micro_batch_size is not None and profile.operations:
            by_batch.setdefault(profile.micro_batch_size, profile)
    if not by_batch:
        raise ValueError("operations at another batch size need a profile with operations and a batch size")
    known = sorted(by_batch)
    laws: dict[tuple[int, int], list[_Law]] = {}

    def at(batch_size: int) -> tuple[Operation, ...]:
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        if batch_size in by_batch:
            return by_batch[batch_size].operations
        near, other = _two_nearest(known, batch_size)
        if (near, other) not in laws:
            laws[near, other] = _laws(by_batch[near], by_batch[other] if other != near else None)
        return tuple(law.at(batch_size) for law in laws[near, other])

    return at


def _two_nearest(known: Sequence[int], batch_size: int) -> tuple[int, int]:
    """The nearest by ratio, then the nearest on the other side of it, or else the next."""
    ordered = sorted(known, key=lambda b: abs(math.log(b / batch_size)))
    across = [b for b in ordered if (b > batch_size) != (ordered[0] > batch_size)]
    return ordered[0], (across or [*ordered[1:], ordered[0]])[0]


@dataclass(frozen=True, slots=True)
class _Law:
    """How one operation, traced at B, grows: by `flops` and `bytes` for each sample more."""

    operation: Operation
    batch: int
    flops: float
    bytes: float
    axes: tuple[int | None, ...] = ()
    """Which dimension of each input and output is that of the batch."""
    row: bool = False
    """`row` grows too."""
    table: tuple[float, float] | None = None
    """Of an embedding: the bytes of its table and those that it writes; `bytes` is then without what it reads of it."""

    def bytes_at(self, batch_size: int) -> float:
        moved = self.operation.bytes + self.bytes * (batch_size - self.batch)
        if self.table is not None:
            whole, written = self.table
            moved += min(whole, written * batch_size / self.batch) - min(whole, written)
        return max(0.0, moved)

    def at(self, batch_size: int) -> Operation:
        one = self.operation
        if not self.flops and not self.bytes:
            return one
        more = batch_size - self.batch
        inputs = len(one.inputs)
        shapes = [_resized(s, a, self.batch, batch_size) for s, a in zip(_shapes(one), self.axes, strict=True)]
        return Operation(
            kind=one.kind,
            dtype=one.dtype,
            flops=max(0.0, one.flops + self.flops * more),
            bytes=self.bytes_at(batch_size),
            count=one.count,
            name=one.name,
            part=one.part,
            inputs=tuple(shapes[:inputs]),
            outputs=tuple(shapes[inputs:]),
            convolution=one.convolution,
            norm=one.norm,
            row=max(1, one.row * batch_size // self.batch) if one.row and self.row else one.row,
            autocast=one.autocast,
        )


def _resized(shape: Shape, axis: int | None, batch: int, batch_size: int) -> Shape:
    if axis is None:
        return shape
    return (*shape[:axis], shape[axis] * batch_size // batch, *shape[axis + 1 :])


def _shapes(operation: Operation) -> tuple[Shape, ...]:
    return operation.inputs + operation.outputs


def _laws(profile: Profile, other: Profile | None) -> list[_Law]:
    laws = _by_shapes(profile)
    return laws if other is None else _through_both(laws, _by_shapes(other))


# ---- from one profile


def _by_shapes(profile: Profile) -> list[_Law]:
    batch = profile.micro_batch_size
    if batch is None:
        raise ValueError("a profile without a batch size does not tell what carries it")
    reader = _Shapes(profile.operations, batch)
    laws = [reader.law(operation) for operation in profile.operations]
    unseen = _unseen_weight_bytes(profile, reader)
    return [_without_shapes(law, unseen) if _tells_nothing(law.operation) else law for law in laws]


def _tells_nothing(operation: Operation) -> bool:
    return operation.kind != "optimizer" and not operation.inputs and not operation.outputs


def _unseen_weight_bytes(profile: Profile, reader: "_Shapes") -> dict[tuple[str, str | None], float]:
    """What products without shapes read of weights, as a share of their bytes, by kind and part.

    Forward they read each weight once; backward they read it and write its gradient.
    """
    shaped = 4 * sum(math.prod(shape) for shape in reader.layer_weights)
    weights = max(0.0, (profile.gradient_bytes or 4 * (profile.parameters or 0)) - shaped)
    moved: dict[tuple[str, str | None], float] = defaultdict(float)
    for one in profile.operations:
        if _tells_nothing(one) and one.kind in _PRODUCTS:
            moved[one.kind, one.part] += one.count * one.bytes
    by_part: dict[str | None, float] = defaultdict(float)
    for (_, part), total in moved.items():
        by_part[part] += total
    passes = {"forward": 1, "backward": 2, None: 3}
    return {
        (kind, part): min(_MOST_WEIGHT_BYTES, passes.get(part, 0) * weights / by_part[part])
        for kind, part in moved
        if by_part[part]
    }


def _without_shapes(law: _Law, unseen: dict[tuple[str, str | None], float]) -> _Law:
    one = law.operation
    fixed = unseen.get((one.kind, one.part), 0.0)
    return replace(law, flops=one.flops / law.batch, bytes=(1 - fixed) * one.bytes / law.batch)


class _Shapes:
    """Reads which tensors of an operation carry the batch, knowing the shapes of all the others."""

    def __init__(self, operations: Iterable[Operation], batch: int) -> None:
        self.batch = batch
        self.layer_weights: set[Shape] = set()
        self._weights: set[Shape] = set()
        self._activations: set[Shape] = set()
        self._layers: set[tuple[int, frozenset[int]]] = set()
        """Of forward products: the rows, and the other two of m, k and n."""
        for one in operations:
            self._note(one)
        self._weights |= self.layer_weights | {shape[::-1] for shape in self.layer_weights if len(shape) == 2}

    def law(self, operation: Operation) -> _Law:
        """`axes` is the dimension of the batch in each tensor; `bytes` and `flops` are what one sample adds."""
        axes = self._axes(operation)
        sizes = [_size(operation, shape) for shape in _shapes(operation)]
        carried = sum(size for size, axis in zip(sizes, axes, strict=True) if axis is not None)
        total = sum(sizes)
        share = carried / total if total else 0.0
        table = _table_of(operation) if carried else None
        grown = share * operation.bytes if table is None else max(0.0, operation.bytes - min(table))
        return _Law(
            operation=operation,
            batch=self.batch,
            flops=operation.flops / self.batch if carried else 0.0,
            bytes=grown / self.batch,
            axes=axes,
            row=operation.norm == "batch" and carried > 0,
            table=table,
        )

    def _axes(self, one: Operation) -> tuple[int | None, ...]:
        shapes = _shapes(one)
        if one.kind == "optimizer" and not self._takes_rows(one):
            return (None,) * len(shapes)
        if one.kind == "convolution":
            return tuple(None if self._is_filter(one, shape) else self._axis(shape) for shape in shapes)
        if one.kind == "matmul" and len(one.inputs) >= 2 and len(one.outputs) == 1:
            return self._product_axes(one)
        if one.kind == "embedding":
            table = 0 if one.part != "backward" else len(shapes) - 1
            return tuple(None if place == table else self._axis(shape) for place, shape in enumerate(shapes))
        if one.kind == "norm":
            return tuple(self._axis(shape) if len(shape) > 1 else None for shape in shapes)
        if one.kind == "attention" or one.kind == "rnn":
            return tuple(self._axis(shape) if len(shape) > 2 else None for shape in shapes)
        if one.name == "aten._to_copy" and one.outputs and one.outputs[0] in self._weights:
            return (None,) * len(shapes)  # autocast shortens weights; activations are short already
        return self._others(shapes, reduced=one.outputs if one.kind == "reduction" else ())

    def _takes_rows(self, one: Operation) -> bool:
        """Of the gradient of a table, which comes sample by sample."""
        if any(word in (one.name or "") for word in _ROWS_OF_TABLES):
            return True
        return any(len(s) > 2 and s[0] == self.batch and s in self._activations for s in one.inputs)

    def _others(self, shapes: tuple[Shape, ...], reduced: tuple[Shape, ...]) -> tuple[int | None, ...]:
        """The largest tensor says which dimension; those that fit under it carry it where they are as long there."""
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
        # Of many multiples the largest is the likelier: samples × heads more often than a width.
        multiples = [axis for axis in inner if shape[axis] % b == 0]
        broadcast = shape[0] == 1 and shape[1:] not in self._activations
        return None if not multiples or (broadcast and len(shape) == 3) else max(multiples, key=lambda a: shape[a])

    def _note(self, one: Operation) -> None:
        shapes = _shapes(one)
        if one.kind == "optimizer":
            if not any(word in (one.name or "") for word in _ROWS_OF_TABLES):
                self._weights.update(shape for shape in shapes if shape)
        elif one.kind == "convolution":
            for shape in shapes:
                is_filter = self._is_filter(one, shape)
                (self.layer_weights if is_filter and len(shape) > 1 else self._activations).add(shape)
        elif one.kind == "norm":
            self._weights.update(shape for shape in shapes if len(shape) == 1)
            self._activations.update(shape for shape in shapes if len(shape) > 1)
        elif one.kind == "embedding" and one.part != "backward" and one.inputs:
            self.layer_weights.add(one.inputs[0])
        elif one.kind == "matmul" and one.part != "backward" and len(one.inputs) >= 2 and len(one.outputs) == 1:
            self._note_product(one)

    def _note_product(self, one: Operation) -> None:
        extents = _extents(one)
        if extents is None or extents[0] % self.batch:
            return
        m, k, n = extents
        self._layers.add((m, frozenset((k, n))))
        self._activations.update((one.inputs[-2], one.outputs[0]))
        self.layer_weights.add(one.inputs[-1])
        self._weights.update(one.inputs[:-2])

    def _product_axes(self, one: Operation) -> tuple[int | None, ...]:
        shapes = _shapes(one)
        extents = _extents(one)
        if extents is None:  # many at once: samples × heads
            return tuple(self._axis(shape) if len(shape) > 2 else None for shape in shapes)
        rows = self._rows(one, extents)
        if rows is None:
            return (None,) * len(shapes)
        carries = {0: (True, False, True), 1: (True, True, False), 2: (False, True, True)}[rows]
        three = (one.inputs[-2], one.inputs[-1], one.outputs[0])
        first, second, out = (
            self._axis_of(shape, extents[rows]) if here else None for shape, here in zip(three, carries, strict=True)
        )
        added = [out if shape == one.outputs[0] else None for shape in one.inputs[:-2]]
        return (*added, first, second, out)

    def _rows(self, one: Operation, extents: tuple[int, int, int]) -> int | None:
        """Which of m, k and n counts samples."""
        multiples = [place for place in (0, 1, 2) if extents[place] % self.batch == 0]
        if one.part != "backward":
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
    def _is_filter(one: Operation, shape: Shape) -> bool:
        """A weight of this convolution or its gradient, in the order of PyTorch or of TensorFlow; or a bias."""
        if len(shape) < 2:
            return True
        shaped = one.convolution
        if shaped is None:
            return False
        elements = shaped.channels_in * shaped.channels_out // shaped.groups * math.prod(shaped.kernel)
        extents = len(shaped.kernel)
        return math.prod(shape) == elements and shaped.kernel in (shape[-extents:], shape[:extents])


def _size(one: Operation, shape: Shape) -> int:
    """In elements of the operation's dtype: a norm in half precision keeps its vectors in float32."""
    long = one.kind == "norm" and len(shape) == 1 and _ITEMSIZES.get(one.dtype, 4) < 4
    return (1 + long) * math.prod(shape)


def _table_of(one: Operation) -> tuple[float, float] | None:
    if one.kind != "embedding" or one.part == "backward" or not one.inputs or not one.outputs:
        return None
    itemsize = _ITEMSIZES.get(one.dtype, 4)
    return float(itemsize * math.prod(one.inputs[0])), float(itemsize * math.prod(one.outputs[0]))


def _extents(one: Operation) -> tuple[int, int, int] | None:
    """m, k and n of a product of (m, k) and (k, n), however they lie; None of many products at once.

    Of g products the tensors have gmk, gkn and gmn elements, and there are 2gmkn FLOPs: all four follow.
    """
    a, b, out = (math.prod(shape) for shape in (one.inputs[-2], one.inputs[-1], one.outputs[0]))
    if not (a and b and out and one.flops):
        return None
    g = (2 * math.sqrt(a) * math.sqrt(b) * math.sqrt(out) / one.flops) ** 2
    if g > 1.5:
        return None
    return round(math.sqrt(a * out / b)), round(math.sqrt(a * b / out)), round(math.sqrt(b * out / a))


def _broadcasts(shape: Shape, wide: Shape) -> bool:
    """As NumPy would stretch it: its last dimensions are those of the other, or 1."""
    if not shape or len(shape) > len(wide):
        return False
    return all(mine in (theirs, 1) for mine, theirs in zip(reversed(shape), reversed(wide), strict=False))


# ---- from two profiles


def _through_both(laws: list[_Law], others: list[_Law]) -> list[_Law]:
    """Each law of the nearer profile, made to go through the other one too."""
    groups: dict[tuple[object, ...], tuple[list[_Law], list[_Law]]] = defaultdict(lambda: ([], []))
    for place, side in enumerate((laws, others)):
        for law in side:
            one = law.operation
            groups[one.kind, one.dtype, one.name, one.part][place].append(law)
    fitted: dict[int, _Law] = {}
    for mine, theirs in groups.values():
        if theirs:
            fitted |= {id(law): new for law, new in zip(mine, _group_through_both(mine, theirs), strict=True)}
    return [fitted.get(id(law), law) for law in laws]


def _group_through_both(mine: list[_Law], theirs: list[_Law]) -> list[_Law]:
    """Operators of one name.

    Where shapes foretell exactly what was traced at the other batch they are right. The others of the name share what
    is left of its sums, by what shapes say that each grows by, or in proportion where they say that none does.
    """
    b, other = mine[0].batch, theirs[0].batch
    left: dict[tuple[float, float], int] = defaultdict(int)
    for law in theirs:
        left[law.operation.flops, law.operation.bytes] += law.operation.count
    open_laws: list[int] = []
    for place, law in enumerate(mine):
        key = (law.operation.flops + law.flops * (other - b), round(law.bytes_at(other), 3))
        if left.get(key, 0) >= law.operation.count:
            left[key] -= law.operation.count
        else:
            open_laws.append(place)
    found = list(mine)
    rest = [mine[place] for place in open_laws]
    for term, position in (("flops", 0), ("bytes", 1)):
        here = sum(law.operation.count * getattr(law.operation, term) for law in rest)
        there = sum(count * key[position] for key, count in left.items())
        slope = (there - here) / (other - b)
        told = sum(law.operation.count * getattr(law, term) for law in rest)
        for place in open_laws:
            law = found[place]
            each = getattr(law, term) * slope / told if told else getattr(law.operation, term) * slope / (here or 1)
            found[place] = replace(law, **{term: each})
    return found

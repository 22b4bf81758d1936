"""What one iteration computes, whatever its framework: kinds of operators, equal ones counted together, and a graph of
them for frameworks that compile.

A row is what `model/profile.py` calls an Operation, as a dictionary with only those fields that are known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

COUNTING_SECONDS = 5.0
"""Our own counting may take so long; past it the operations are not kept."""

MOST_ROWS = 3000
"""Past so many different operations they are told without their shapes, which makes most of them equal."""

CONVOLUTION, MATMUL, ATTENTION, NORM = "convolution", "matmul", "attention", "norm"
POINTWISE, REDUCTION, EMBEDDING, RNN = "pointwise", "reduction", "embedding", "rnn"
OPTIMIZER, COPY = "optimizer", "copy"

FORWARD, BACKWARD = "forward", "backward"

SHORT = ("float16", "bfloat16", "float8")

Shape = tuple[int, ...]


class Tally:
    """Equal operations, counted."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], int] = {}
        self._details: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, kind: str, dtype: str, flops: float, moved: float, *, count: int = 1, **details: Any) -> None:
        """Details are the other fields of an Operation; those that are empty say nothing."""
        details = {name: value for name, value in details.items() if value}
        if len(self._counts) >= MOST_ROWS:
            details = {name: value for name, value in details.items() if name in ("name", "part", "autocast", "norm")}
        key = (kind, dtype, flops, moved, *_hashable(sorted(details.items())))
        self._counts[key] = self._counts.get(key, 0) + count
        self._details[key] = details

    def rows(self) -> list[dict[str, Any]]:
        names = ("kind", "dtype", "flops", "bytes")
        return [
            {**dict(zip(names, key)), "count": count, **self._details[key]}  # noqa: B905 # `strict` is newer than the user's Python may be
            for key, count in self._counts.items()
        ]


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    return tuple(_hashable(item) for item in value) if isinstance(value, (list, tuple)) else value


def convolution(
    *, inward: int, outward: int, kernel: Iterable[int], stride: Iterable[int], plane: Iterable[int], groups: int,
    transposed: bool = False,
) -> dict[str, Any] | None:  # fmt: skip
    """The shape of a convolution; None where it has no extent."""
    shape = {"kernel": [*map(int, kernel)], "stride": [*map(int, stride)], "plane": [*map(int, plane)]}
    if len(shape["stride"]) == 1:
        shape["stride"] *= len(shape["kernel"])
    extents = [inward, outward, groups, *shape["kernel"], *shape["stride"], *shape["plane"]]
    if any(extent < 1 for extent in extents) or len({len(one) for one in shape.values()}) > 1:
        return None
    found = {"channels_in": int(inward), "channels_out": int(outward), **shape}
    found.update({"groups": int(groups)} if groups != 1 else {}, **({"transposed": True} if transposed else {}))
    return found


class Value:
    """What an operator of a graph reads or writes. Those that share their storage are views of one another."""

    __slots__ = ("after", "dtype", "itemsize", "shape", "storage")

    def __init__(self, shape: Shape, dtype: str, itemsize: int, *, view_of: Value | None = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.itemsize = itemsize
        """0 for what is no tensor in memory: handles, lists, numbers of the program itself."""
        self.storage: Value = self if view_of is None else view_of.storage
        self.after: bool = view_of is not None and view_of.after
        """It hangs on the backward pass: whoever takes it and is no part of that pass updates the weights."""

    @property
    def elements(self) -> int:
        """A size that nobody knows, which is negative, counts as one."""
        return math.prod(max(1, size) if size < 0 else size for size in self.shape)

    @property
    def bytes(self) -> int:
        """One that was broadcast lies in memory once."""
        storage = self.storage
        return min(self.elements * self.itemsize, storage.elements * storage.itemsize)


class Node:
    """An operator of a graph, or one that runs another graph a number of times."""

    __slots__ = ("body", "count", "details", "flops", "fuses", "inputs", "kind", "name", "outputs", "part", "stays")

    def __init__(
        self, name: str, kind: str, inputs: list[Value], outputs: list[Value], *, part: str, flops: float = 0.0,
        fuses: bool = False, stays: bool = False, body: Graph | None = None, count: int = 1, **details: Any,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.inputs = inputs
        self.outputs = outputs
        self.part = part
        self.flops = flops
        self.fuses = fuses
        """A compiler makes one kernel of it and its neighbours."""
        self.stays = stays
        """It has effects beside its outputs."""
        self.body = body
        self.count = count
        self.details = details
        for value in outputs:
            value.after = value.after or part != FORWARD


class Graph:
    """Operators in the order in which they may run."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []

    @property
    def flops(self) -> float:
        return sum(node.flops if node.body is None else node.count * node.body.flops for node in self.nodes)

    @property
    def updates(self) -> bool:
        """It makes a whole step."""
        return any(n.part == OPTIMIZER or (n.body is not None and n.body.updates) for n in self.nodes)

    def tally(self) -> tuple[Tally, int]:
        """The operations, and the bytes that the forward pass keeps for the backward pass."""
        tally = Tally()
        return tally, self._add_to(tally, 1)

    def _add_to(self, tally: Tally, count: int) -> int:
        nodes = self._live()
        _settle_parts(nodes)
        kernels = self._kernels(nodes)
        used_outside = self._uses(kernels)
        made: dict[int, int] = {}
        kept: dict[int, int] = {}
        for kernel in kernels:
            read = _unique(value for node in kernel for value in node.inputs)
            inside = {id(value.storage) for node in kernel for value in node.outputs}
            read = [value for value in read if id(value.storage) not in inside]
            written = _unique(v for n in kernel for v in n.outputs if used_outside.get(id(v.storage), 0))
            part = kernel[-1].part
            if part == BACKWARD:
                kept.update({id(v.storage): made[id(v.storage)] for v in read if id(v.storage) in made})
            elif part == FORWARD:
                made.update({id(v.storage): v.bytes for v in written})
            if len(kernel) == 1 and kernel[0].body is not None:
                body = kernel[0].body
                kept[id(body)] = body._add_to(tally, count * kernel[0].count)  # noqa: SLF001 # one of our own
            elif any(value.itemsize for value in written):
                _tell(tally, kernel, [v for v in read if v.itemsize], [v for v in written if v.itemsize], count)
        return sum(kept.values())

    def _live(self) -> list[Node]:
        """Those whose results are wanted: gradients that nobody asked for are never computed."""
        wanted = {id(value.storage) for value in self.outputs}
        live = []
        for node in reversed(self.nodes):
            if node.stays or any(id(value.storage) in wanted for value in node.outputs):
                live.append(node)
                wanted.update(id(value.storage) for value in node.inputs)
        return live[::-1]

    def _kernels(self, nodes: list[Node]) -> list[list[Node]]:
        """Pointwise operators and the reductions at their end, if one takes what another has made, or both take the
        same tensor.

        A level is how many kernels must have ended before: two that have the same can be one without waiting for
        what lies between them.
        """
        level = _levels(nodes)
        places = {id(node): place for place, node in enumerate(nodes)}
        leader = list(range(len(nodes)))
        takers: dict[tuple[int, int, str], int] = {}
        maker: dict[int, int] = {}

        def lead(place: int) -> int:
            while leader[place] != place:
                leader[place] = place = leader[leader[place]]
            return place

        for place, node in enumerate(nodes):
            for value in node.inputs if node.fuses else ():
                before = maker.get(id(value.storage))
                together = before is not None and (level[before], nodes[before].part) == (level[place], node.part)
                if before is not None and together and _flows_on(nodes[before]):
                    leader[lead(place)] = lead(before)
                if value.elements == max(v.elements for v in node.outputs) > 1:
                    sibling = takers.setdefault((id(value.storage), level[place], node.part), place)
                    leader[lead(place)] = lead(sibling)
            maker.update({id(value.storage): place for value in node.outputs})
        kernels: dict[int, list[Node]] = {}
        for place, node in enumerate(nodes):
            kernels.setdefault(lead(place), []).append(node)
        # In the order of their last operators, so that what is read has been made.
        return sorted(kernels.values(), key=lambda kernel: places[id(kernel[-1])])

    def _uses(self, kernels: list[list[Node]]) -> dict[int, int]:
        uses: dict[int, int] = {id(value.storage): 1 for value in self.outputs}
        for kernel in kernels:
            made = {id(value.storage) for node in kernel for value in node.outputs}
            for storage in {id(value.storage) for node in kernel for value in node.inputs} - made:
                uses[storage] = uses.get(storage, 0) + 1
        return uses


def _levels(nodes: list[Node]) -> list[int]:
    """How many kernels must have ended before each; what is only needed later in its own part may wait."""
    maker: dict[int, int] = {}
    level: list[int] = []
    takers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        makers = {maker[id(value.storage)] for value in node.inputs if id(value.storage) in maker}
        level.append(max((level[one] + (not _flows_on(nodes[one])) for one in makers), default=0))
        for one in makers:
            takers[one].append(place)
        maker.update({id(value.storage): place for value in node.outputs})
    for place in reversed(range(len(nodes))):
        later = takers[place]
        if later and _flows_on(nodes[place]) and all(nodes[one].part == nodes[place].part for one in later):
            level[place] = min(level[one] for one in later)
    return level


def _settle_parts(nodes: list[Node]) -> None:
    """What is made for the update alone belongs to it, such as moments that fade; what the backward pass goes on with
    belongs to that."""
    takers: dict[int, set[str]] = {}
    for node in reversed(nodes):
        parts = {part for value in node.outputs for part in takers.get(id(value.storage), ())}
        if parts == {OPTIMIZER} and node.part == FORWARD and not node.flops and node.body is None:
            node.part = OPTIMIZER
        elif BACKWARD in parts and node.part == OPTIMIZER:
            node.part = BACKWARD
        for value in node.inputs:
            takers.setdefault(id(value.storage), set()).add(node.part)


def _flows_on(node: Node) -> bool:
    """What it makes can be taken on in the same kernel; that of a reduction is ready only when the kernel ends."""
    return node.fuses and node.kind != REDUCTION


def _unique(values: Iterable[Value]) -> list[Value]:
    return list({id(value.storage): value for value in values}.values())


def _tell(tally: Tally, kernel: list[Node], read: list[Value], written: list[Value], count: int) -> None:
    last = kernel[-1]
    moved = float(sum(value.bytes for value in (*read, *written)))
    alone = len(kernel) == 1
    kind = last.kind if alone else REDUCTION if any(node.kind == REDUCTION for node in kernel) else POINTWISE
    kind = OPTIMIZER if last.part == OPTIMIZER else kind
    computing = [value for value in (*read, *written) if "float" in value.dtype] or [*read, *written]
    widest = max(computing, key=lambda value: value.bytes)
    first = widest if last.flops == 0 else computing[0]
    details = dict(last.details) if alone else {}
    shapes = {"inputs": [v.shape for v in read], "outputs": [v.shape for v in written]}
    details.update({name: found for name, found in shapes.items() if len(found) <= 4 and -1 not in sum(found, ())})
    name = last.name if alone else "fusion"
    tally.add(kind, first.dtype, last.flops, moved, count=count, name=name, part=last.part, **details)

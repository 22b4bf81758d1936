"""The operators of one iteration, for all frameworks: their kinds, a tally that counts equal ones together, and a graph
of them for frameworks that compile.

A row is an Operation of `model/profile.py` as a dictionary with only the known fields.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_COUNTING_SECONDS = 5.0
"""If the probe needs more CPU time than this to count operations, they are not recorded. Waits for a CPU do not count:
on a busy machine a program would lose its operations, and with them every estimate for a GPU."""

MAX_ROWS = 3000
"""Beyond this many different operations they are counted without their shapes, which makes most of them equal."""

CONVOLUTION, MATMUL, ATTENTION, NORM = "convolution", "matmul", "attention", "norm"
POINTWISE, REDUCTION, EMBEDDING, RNN = "pointwise", "reduction", "embedding", "rnn"
OPTIMIZER, COPY, COMMUNICATION = "optimizer", "copy", "communication"

FORWARD, BACKWARD = "forward", "backward"

HALF_PRECISION = ("float16", "bfloat16", "float8")

Shape = tuple[int, ...]


def tf32_switched_off() -> bool:
    """True if the environment keeps NVIDIA's libraries from using TF32, whatever the program allows."""
    return os.environ.get("NVIDIA_TF32_OVERRIDE") == "0"


class Tally:
    """Counts equal operations."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], int] = {}
        self._details: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, kind: str, dtype: str, flops: float, bytes_moved: float, *, count: int = 1, **details: Any) -> None:
        """Count an operation. `details` are its other fields; empty ones are dropped."""
        details = {name: value for name, value in details.items() if value}
        if len(self._counts) >= MAX_ROWS:
            details = {name: value for name, value in details.items() if name in ("name", "part", "autocast", "norm")}
        key = (kind, dtype, flops, bytes_moved, *_hashable(sorted(details.items())))
        self._counts[key] = self._counts.get(key, 0) + count
        self._details[key] = details

    def rows(self) -> list[dict[str, Any]]:
        names = ("kind", "dtype", "flops", "bytes")
        return [{**dict(zip(names, key)), "count": count, **self._details[key]} for key, count in self._counts.items()]


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    return tuple(_hashable(item) for item in value) if isinstance(value, (list, tuple)) else value


def convolution_shape(
    *, channels_in: int, channels_out: int, kernel: Iterable[int], stride: Iterable[int], plane: Iterable[int],
    groups: int, transposed: bool = False,
) -> dict[str, Any] | None:  # fmt: skip
    """The fields of the shape of a convolution; None if one of its extents is not positive."""
    shape = {"kernel": [*map(int, kernel)], "stride": [*map(int, stride)], "plane": [*map(int, plane)]}
    if len(shape["stride"]) == 1:
        shape["stride"] *= len(shape["kernel"])
    extents = [channels_in, channels_out, groups, *shape["kernel"], *shape["stride"], *shape["plane"]]
    if any(extent < 1 for extent in extents) or len({len(sizes) for sizes in shape.values()}) > 1:
        return None
    fields = {"channels_in": int(channels_in), "channels_out": int(channels_out), **shape}
    fields.update({"groups": int(groups)} if groups != 1 else {}, **({"transposed": True} if transposed else {}))
    return fields


class Value:
    """A tensor that an operator of a graph reads or writes. Values with the same storage are views of one another."""

    __slots__ = ("depends_on_backward", "dtype", "itemsize", "shape", "storage")

    def __init__(self, shape: Shape, dtype: str, itemsize: int, *, view_of: Value | None = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.itemsize = itemsize
        """Bytes per element; 0 for what is not a tensor in memory: handles, lists, constants of the program."""
        self.storage: Value = self if view_of is None else view_of.storage
        self.depends_on_backward: bool = view_of is not None and view_of.depends_on_backward
        """It is computed from gradients: an operator outside the backward pass that reads it updates the weights."""

    @property
    def elements(self) -> int:
        """The number of elements; an unknown size, which is negative, counts as one."""
        return math.prod(max(1, size) if size < 0 else size for size in self.shape)

    @property
    def bytes(self) -> int:
        """The bytes in memory; a broadcast tensor is in memory only once."""
        storage = self.storage
        return min(self.elements * self.itemsize, storage.elements * storage.itemsize)


class OperatorNode:
    """An operator of a graph; one with a body runs another graph a number of times."""

    __slots__ = (
        "body", "can_fuse", "count", "details", "flops", "has_side_effects", "inputs", "kind", "name", "outputs",
        "part",
    )  # fmt: skip

    def __init__(
        self, name: str, kind: str, inputs: list[Value], outputs: list[Value], *, part: str, flops: float = 0.0,
        can_fuse: bool = False, has_side_effects: bool = False, body: Graph | None = None, count: int = 1,
        **details: Any,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.inputs = inputs
        self.outputs = outputs
        self.part = part
        self.flops = flops
        self.can_fuse = can_fuse
        """A compiler may fuse it with its neighbours into one kernel."""
        self.has_side_effects = has_side_effects
        """It does more than compute its outputs."""
        self.body = body
        self.count = count
        self.details = details
        for value in outputs:
            value.depends_on_backward = value.depends_on_backward or part != FORWARD


class Graph:
    """Operators in the order in which they may run."""

    def __init__(self) -> None:
        self.nodes: list[OperatorNode] = []
        self.outputs: list[Value] = []

    @property
    def flops(self) -> float:
        return sum(node.flops if node.body is None else node.count * node.body.flops for node in self.nodes)

    @property
    def updates(self) -> bool:
        """The graph updates weights, so it is a complete step."""
        return any(n.part == OPTIMIZER or (n.body is not None and n.body.updates) for n in self.nodes)

    def tally(self) -> tuple[Tally, int]:
        """The operations, and the bytes that the forward pass keeps for the backward pass."""
        tally = Tally()
        return tally, self._add_to(tally, 1)

    def _add_to(self, tally: Tally, count: int) -> int:
        nodes = self._live_nodes()
        _assign_shared_parts(nodes)
        kernels = self._fuse_kernels(nodes)
        used_outside = self._uses_outside(kernels)
        made: dict[int, int] = {}
        kept_bytes: dict[int, int] = {}
        for kernel in kernels:
            read = _unique(value for node in kernel for value in node.inputs)
            inside = {id(value.storage) for node in kernel for value in node.outputs}
            read = [value for value in read if id(value.storage) not in inside]
            written = _unique(v for n in kernel for v in n.outputs if used_outside.get(id(v.storage), 0))
            part = kernel[-1].part
            if part == BACKWARD:
                kept_bytes.update({id(v.storage): made[id(v.storage)] for v in read if id(v.storage) in made})
            elif part == FORWARD:
                made.update({id(v.storage): v.bytes for v in written})
            if len(kernel) == 1 and kernel[0].body is not None:
                body = kernel[0].body
                kept_bytes[id(body)] = body._add_to(tally, count * kernel[0].count)  # noqa: SLF001 # another object of the same class
            elif any(value.itemsize for value in written):
                _add_kernel(tally, kernel, [v for v in read if v.itemsize], [v for v in written if v.itemsize], count)
        return sum(kept_bytes.values())

    def _live_nodes(self) -> list[OperatorNode]:
        """The nodes whose results are used or that have side effects: unused gradients are never computed."""
        needed = {id(value.storage) for value in self.outputs}
        live = []
        for node in reversed(self.nodes):
            if node.has_side_effects or any(id(value.storage) in needed for value in node.outputs):
                live.append(node)
                needed.update(id(value.storage) for value in node.inputs)
        return live[::-1]

    def _fuse_kernels(self, nodes: list[OperatorNode]) -> list[list[OperatorNode]]:
        """Group the nodes into kernels: pointwise operators and the reductions at their end are fused if one reads the
        output of another, or if both read the same tensor.

        The level of a node is the number of kernels that must have ended before it. Two nodes of the same level can be
        in one kernel without waiting for anything between them.
        """
        level = _levels(nodes)
        position = {id(node): place for place, node in enumerate(nodes)}
        leader = list(range(len(nodes)))
        consumers: dict[tuple[int, int, str], int] = {}
        producer: dict[int, int] = {}

        def find_leader(place: int) -> int:
            while leader[place] != place:
                leader[place] = place = leader[leader[place]]
            return place

        for place, node in enumerate(nodes):
            for value in node.inputs if node.can_fuse else ():
                made_at = producer.get(id(value.storage))
                same = made_at is not None and (level[made_at], nodes[made_at].part) == (level[place], node.part)
                if made_at is not None and same and _can_fuse_onwards(nodes[made_at]):
                    leader[find_leader(place)] = find_leader(made_at)
                if value.elements == max(v.elements for v in node.outputs) > 1:
                    sibling = consumers.setdefault((id(value.storage), level[place], node.part), place)
                    leader[find_leader(place)] = find_leader(sibling)
            producer.update({id(value.storage): place for value in node.outputs})
        kernels: dict[int, list[OperatorNode]] = {}
        for place, node in enumerate(nodes):
            kernels.setdefault(find_leader(place), []).append(node)
        # In the order of their last operators, so that every input has been computed.
        return sorted(kernels.values(), key=lambda kernel: position[id(kernel[-1])])

    def _uses_outside(self, kernels: list[list[OperatorNode]]) -> dict[int, int]:
        uses: dict[int, int] = {id(value.storage): 1 for value in self.outputs}
        for kernel in kernels:
            made = {id(value.storage) for node in kernel for value in node.outputs}
            for storage in {id(value.storage) for node in kernel for value in node.inputs} - made:
                uses[storage] = uses.get(storage, 0) + 1
        return uses


def _levels(nodes: list[OperatorNode]) -> list[int]:
    """The level of each node: the number of kernels that must have ended before it. A node whose output is only needed
    later in its own part may run later."""
    producer: dict[int, int] = {}
    level: list[int] = []
    consumers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        producers = {producer[id(value.storage)] for value in node.inputs if id(value.storage) in producer}
        level.append(max((level[other] + (not _can_fuse_onwards(nodes[other])) for other in producers), default=0))
        for other in producers:
            consumers[other].append(place)
        producer.update({id(value.storage): place for value in node.outputs})
    for place in reversed(range(len(nodes))):
        later = consumers[place]
        if later and _can_fuse_onwards(nodes[place]) and all(nodes[other].part == nodes[place].part for other in later):
            level[place] = min(level[other] for other in later)
    return level


def _assign_shared_parts(nodes: list[OperatorNode]) -> None:
    """Correct the parts by the consumers: a node used only by the update, such as the decay of a moment, belongs to the
    optimizer; one whose output the backward pass uses belongs to the backward pass."""
    consumers: dict[int, set[str]] = {}
    for node in reversed(nodes):
        parts = {part for value in node.outputs for part in consumers.get(id(value.storage), ())}
        if parts == {OPTIMIZER} and node.part == FORWARD and not node.flops and node.body is None:
            node.part = OPTIMIZER
        elif BACKWARD in parts and node.part == OPTIMIZER:
            node.part = BACKWARD
        for value in node.inputs:
            consumers.setdefault(id(value.storage), set()).add(node.part)


def _can_fuse_onwards(node: OperatorNode) -> bool:
    """The output can be read in the same kernel; that of a reduction is complete only when the kernel ends."""
    return node.can_fuse and node.kind != REDUCTION


def _unique(values: Iterable[Value]) -> list[Value]:
    return list({id(value.storage): value for value in values}.values())


def _add_kernel(tally: Tally, kernel: list[OperatorNode], read: list[Value], written: list[Value], count: int) -> None:
    last = kernel[-1]
    bytes_moved = float(sum(value.bytes for value in (*read, *written)))
    is_single = len(kernel) == 1
    kind = last.kind if is_single else REDUCTION if any(node.kind == REDUCTION for node in kernel) else POINTWISE
    kind = OPTIMIZER if last.part == OPTIMIZER and kind != COMMUNICATION else kind
    computing = [value for value in (*read, *written) if "float" in value.dtype] or [*read, *written]
    widest = max(computing, key=lambda value: value.bytes)
    computing_value = widest if last.flops == 0 else computing[0]
    details = dict(last.details) if is_single else {}
    in_tf32 = details.pop("tf32", False) and computing_value.dtype == "float32" and not tf32_switched_off()
    dtype = "tf32" if in_tf32 else computing_value.dtype
    shapes = {"inputs": [v.shape for v in read], "outputs": [v.shape for v in written]}
    details.update({name: found for name, found in shapes.items() if len(found) <= 4 and -1 not in sum(found, ())})
    name = last.name if is_single else "fusion"
    tally.add(kind, dtype, last.flops, bytes_moved, count=count, name=name, part=last.part, **details)

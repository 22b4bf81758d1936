"""What each kernel of an iteration asks of a GPU, feature by feature, before anything is fitted.

A feature x_j is a time: F/peak, the arithmetic at the peak of the unit that does it, or B/bandwidth, the bytes at the
memory's speed, summed over the operations that it is about. Its coefficient says how many times slower than that real
kernels of this sort are; a prior comes with each, because it has a meaning:

norms          how often a pass goes over memory; few channels leave multiprocessors idle
pointwise      one pass; copies against the grain and reductions more
products       arithmetic padded to whole tiles; passes over memory where channels do not fill a vector
depthwise      at the peak of ordinary cores, by which of two kernels is taken
small ones     microseconds between kernels that follow one another

Limits: of forward and backward apart nothing is known but their work; no fusion by a compiler is undone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu
from trainfare.model.profile import Convolution, Operation

Array = NDArray[np.float64]

UPLOAD: Final = "host_to_device"
"""The name of an operation that brings a batch from the host, through memory that is not pinned."""

UNITS: Final = ("float16", "bfloat16", "tf32", "float32", "float64", "float8")
"""Dtypes that may have units of their own."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A column: what it is about, and what its coefficient should be near."""

    name: str
    kind: str
    """The class under which a prediction is explained."""
    prior: float
    compute: bool = False
    """Arithmetic; else bytes, or seconds between kernels."""
    plain_prior: float = 0.0
    """Of arithmetic on ordinary cores."""


MEMORY: Final = (
    Feature("batch norm", "norm", 1.8),
    Feature("batch norm of few channels", "norm", 0.8),
    Feature("group norm", "norm", 2.5),
    Feature("layer norm", "norm", 1.2),
    Feature("rows of layer norm", "norm", 1.0),
    Feature("other norm", "norm", 3.0),
    Feature("pointwise", "pointwise", 1.1),
    Feature("pointwise in cache", "pointwise", 0.7),
    Feature("pointwise beside layer norms", "pointwise", 1.3),
    Feature("pointwise in float32 under autocast", "pointwise", 1.0),
    Feature("copy", "copy", 1.5),
    Feature("copy in cache", "copy", 1.0),
    Feature("copy beside layer norms", "copy", 2.0),
    Feature("copy in float32 under autocast", "copy", 1.3),
    Feature("reduction", "reduction", 1.5),
    Feature("softmax", "reduction", 2.0),
    Feature("pooling", "reduction", 2.5),
    Feature("optimizer", "optimizer", 1.1),
    Feature("embedding", "embedding", 2.0),
    Feature("rnn bytes", "rnn", 1.0),
    Feature("attention bytes", "attention", 1.5),
    Feature("matmul bytes", "matmul", 1.2),
    Feature("matmul bytes, thin", "matmul", 0.3),
    Feature("matmul bytes, very thin", "matmul", 1.0),
    Feature("batched matmul bytes", "matmul", 1.5),
    Feature("batched matmul bytes, thin", "matmul", 0.5),
    Feature("convolution bytes", "convolution", 2.5),
    Feature("convolution bytes, odd channels", "convolution", 3.0),
    Feature("first convolution bytes", "convolution", 6.0),
    Feature("1x1 bytes", "convolution", 2.3),
    Feature("1x1 bytes, odd channels", "convolution", 1.0),
    Feature("1x1 bytes, strided", "convolution", 1.0),
    Feature("1x1 bytes, odd plane", "convolution", 0.3),
    Feature("1x1 bytes, under 32 channels", "convolution", 0.3),
    Feature("1x1 bytes, under 17 channels", "convolution", 0.3),
    Feature("depthwise bytes", "convolution", 2.0),
    Feature("depthwise bytes, strided", "convolution", 8.0),
    Feature("depthwise bytes, native", "convolution", 6.0),
    Feature("depthwise bytes beside layer norms", "convolution", 3.0),
    Feature("grouped bytes", "convolution", 3.0),
    Feature("grouped bytes, strided", "convolution", 4.0),
    Feature("convolution, the slower of both", "convolution", 0.3),
    Feature("1x1, the slower of both", "convolution", 0.3),
    Feature("grouped, the slower of both", "convolution", 0.3),
    Feature("matmul, the slower of both", "matmul", 0.3),
    Feature("between kernels", "launches", 5.0),
    Feature("upload", "upload", 1.0),
)

SLOWER: Final = tuple(feature.name for feature in MEMORY if feature.name.endswith("the slower of both"))
"""Arithmetic or bytes: loads go on while a kernel computes."""

COMPUTE: Final = (
    Feature("matmul", "matmul", 0.8, True, 0.8),
    Feature("matmul, little reuse", "matmul", 0.3, True, 0.1),
    Feature("batched matmul", "matmul", 1.5, True, 1.2),
    Feature("attention", "attention", 1.8, True, 1.3),
    Feature("rnn", "rnn", 2.0, True, 2.0),
    Feature("convolution", "convolution", 0.3, True, 0.4),
    Feature("convolution in tiles", "convolution", 0.5, True, 0.2),
    Feature("first convolution", "convolution", 3.0, True, 1.0),
    Feature("1x1 in tiles", "convolution", 0.5, True, 0.8),
    Feature("1x1 on small planes", "convolution", 0.3, True, 0.2),
    Feature("1x1 of many channels", "convolution", 0.3, True, 0.1),
    Feature("grouped", "convolution", 0.5, True, 1.0),
    Feature("grouped in tiles", "convolution", 0.9, True, 0.4),
    Feature("grouped, narrow", "convolution", 1.0, True, 0.5),
)

ORDINARY: Final = (
    Feature("depthwise", "convolution", 6.0, True),
    Feature("depthwise, native", "convolution", 12.0, True),
    Feature("depthwise gradient of few weights", "convolution", 4.0, True),
    Feature("depthwise beside layer norms", "convolution", 4.0, True),
    Feature("half on ordinary cores", "convolution", 0.3, True),
    Feature("depthwise in half on ordinary cores", "convolution", 10.0, True),
)
"""Arithmetic that never runs on tensor cores."""

HOST: Final = (
    Feature("launch convolution", "launches", 4.0),
    Feature("launch norm", "launches", 3.0),
    Feature("launch matmul", "launches", 2.0),
    Feature("launch reduction", "launches", 2.0),
    Feature("launch copy", "launches", 1.2),
    Feature("launch update", "launches", 0.7),
    Feature("launch other", "launches", 1.0),
)
"""What the host does for a launch, as multiples of the simplest."""
HOST_PRIORS: Final = np.array([feature.prior for feature in HOST])
_HOST_PLACE: Final = {
    "convolution": 0, "norm": 1, "matmul": 2, "attention": 2, "rnn": 2, "reduction": 3, "copy": 4, "embedding": 3,
    "optimizer": 5,
}  # fmt: skip

FEATURES: Final = (
    *MEMORY,
    *ORDINARY,
    *COMPUTE,
    *(Feature(f"{f.name} on ordinary cores", f.kind, f.plain_prior, True) for f in COMPUTE),
)
"""In the order of the columns."""

PRIORS: Final = np.array([feature.prior for feature in FEATURES])
IS_COMPUTE: Final = np.array([feature.compute for feature in FEATURES])
_PLACE: Final = {feature.name: place for place, feature in enumerate(FEATURES)}
_TENSOR: Final = slice(len(MEMORY) + len(ORDINARY), len(MEMORY) + len(ORDINARY) + len(COMPUTE))
_PLAIN: Final = slice(_TENSOR.stop, len(FEATURES))

MOST_GAPS: Final = 8000
"""So many launches count: with more of them, they are too small to fill the GPU anyway."""
UPLOAD_BYTES_PER_SECOND: Final = 6e9
ROW_BYTES: Final = 1280
TILE, DEPTH = 64, 32
_VIEWS: Final = {"aten._unsafe_view"}
"""They only look like work."""


@dataclass(frozen=True, slots=True)
class IterationWork:
    """An iteration, added up once for any number of GPUs."""

    flops: Array
    """By feature and unit."""
    bytes: Array
    """By feature."""
    launches: Array
    """By what the host does for them."""
    upload: float
    channels: Array
    """Of batch norms, with their bytes."""
    channel_bytes: Array
    sizes: Array
    """Bytes of each pointwise operation or copy, with how often it runs and its column in and out of the cache."""
    counts: Array
    columns: NDArray[np.int64]
    slower: Array
    """FLOPs and bytes of products, as many as count, with unit, column and how often."""
    op_flops: Array
    """Of each operation, for the bound: FLOPs, bytes, launches and unit."""
    op_bytes: Array
    op_counts: Array
    op_units: NDArray[np.int64]


def iteration_work(operations: Sequence[Operation]) -> IterationWork:
    return _Sum(operations).work()


class _Sum:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self.flops = np.zeros((len(FEATURES), len(UNITS)))
        self.bytes = np.zeros(len(FEATURES))
        self.launches = np.zeros(len(HOST))
        self.upload = 0.0
        self.channels: list[tuple[float, float]] = []
        self.cached: list[tuple[float, float, int]] = []
        self.slower: list[tuple[float, float, int, int, float]] = []
        self.operations = operations
        self.in_rows = _works_in_rows(operations)
        self.first = min((op.convolution.channels_in for op in operations if op.convolution), default=0)
        for operation in operations:
            self.launches[_HOST_PLACE.get(operation.kind, len(HOST) - 1)] += operation.count
            _ADD.get(operation.kind, _pointwise)(self, operation)

    def move(self, name: str, operation: Operation, factor: float = 1.0) -> None:
        self.bytes[_PLACE[name]] += factor * operation.bytes * operation.count

    def compute(self, name: str, operation: Operation, factor: float = 1.0) -> None:
        self.flops[_PLACE[name], _unit(operation)] += factor * operation.flops * operation.count

    def either(self, name: str, operation: Operation, flops: float, moved: float) -> None:
        """Factors on its arithmetic and its bytes."""
        self.slower.append(
            (flops * operation.flops, moved * operation.bytes, _unit(operation), _PLACE[name], operation.count)
        )

    def work(self) -> IterationWork:
        channels = np.array(self.channels or [(1.0, 0.0)])
        cached = self.cached or [(0.0, 0.0, 0)]
        ops = self.operations
        return IterationWork(
            flops=self.flops,
            bytes=self.bytes,
            launches=self.launches,
            upload=self.upload,
            channels=channels[:, 0],
            channel_bytes=channels[:, 1],
            sizes=np.array([size for size, _, _ in cached]),
            counts=np.array([count for _, count, _ in cached]),
            columns=np.array([column for _, _, column in cached]),
            slower=np.array(self.slower or [(0.0, 0.0, 0, _PLACE[SLOWER[0]], 0.0)]),
            op_flops=np.array([op.flops * _direct(op) for op in ops]),
            op_bytes=np.array([0.0 if op.name == UPLOAD else op.bytes for op in ops]),
            op_counts=np.array([float(op.count) for op in ops]),
            op_units=np.array([_unit(op) for op in ops], dtype=np.int64),
        )


def _works_in_rows(operations: Iterable[Operation]) -> bool:
    """A network of layer (or group) norms keeps its sum of residuals in float32 under autocast."""
    rows = pointwise = 0.0
    for operation in operations:
        if operation.norm in ("layer", "group", "rms"):
            rows += operation.bytes * operation.count
        elif operation.kind == "pointwise":
            pointwise += operation.bytes * operation.count
    return rows > 0.1 * pointwise > 0


def _direct(operation: Operation) -> float:
    """Winograd's algorithm needs fewer FLOPs than the direct one where a kernel is 3×3: measured down to 0.6."""
    shape = operation.convolution
    if operation.kind == "convolution" and (shape is None or max(shape.kernel) > 1):
        return 0.5
    return 1.0


def _unit(operation: Operation) -> int:
    """PyTorch lets convolutions of float32 use TF32 units unless told not to, and matrix products not."""
    dtype = operation.dtype
    if dtype == "float32" and operation.kind == "convolution":
        dtype = "tf32"
    if dtype.startswith("float8"):
        dtype = "float8"
    return UNITS.index(dtype) if dtype in UNITS else UNITS.index("float32")


def _norm(total: _Sum, op: Operation) -> None:
    if op.norm == "batch":
        total.move("batch norm", op)
        if op.row:
            itemsize = 2 if op.dtype in ("float16", "bfloat16") else 4
            passes = 3 if op.part == "backward" else 2
            total.channels.append((max(1.0, op.bytes / (passes * op.row * itemsize)), op.bytes * op.count))
    elif op.norm == "group":
        total.move("group norm", op)
    elif op.norm in ("layer", "rms"):
        total.move("layer norm", op)
        if op.row:
            rows = op.bytes / ((3 if op.part == "backward" else 2) * op.row * 4)
            total.bytes[_PLACE["rows of layer norm"]] += ROW_BYTES * rows * op.count
    else:
        total.move("other norm", op)


def _pointwise(total: _Sum, op: Operation) -> None:
    if op.name in _VIEWS:
        return
    if op.name == UPLOAD:
        total.upload += op.bytes * op.count
        return
    name = "copy" if op.kind == "copy" else "pointwise"
    if op.autocast:
        total.move(f"{name} in float32 under autocast", op)
    elif total.in_rows:
        total.move(f"{name} beside layer norms", op, _in_place(op))
    else:
        total.cached.append((op.bytes * _in_place(op), op.count, _PLACE[name]))


def _in_place(op: Operation) -> float:
    """What is written over has just been read: it counts once, as it does in the traces that coefficients come from."""
    if op.kind != "pointwise" or not (op.name or "").endswith("_"):
        return 1.0
    read = max(1, sum(math.prod(shape) > 1 for shape in op.inputs))
    return read / (read + 1)


def _reduction(total: _Sum, op: Operation) -> None:
    name = op.name or ""
    if "softmax" in name:
        total.move("softmax", op)
    elif "pool" in name or "reduce_window" in name or "select_and" in name:
        total.move("pooling", op)
    else:
        total.move("reduction", op)


def _matmul(total: _Sum, op: Operation) -> None:
    reuse = op.flops / max(op.bytes, 1.0)
    if _batched(op):
        total.compute("batched matmul", op)
        total.move("batched matmul bytes", op)
        if reuse < 16:
            total.move("batched matmul bytes, thin", op)
        return
    total.compute("matmul", op)
    total.move("matmul bytes", op)
    total.either("matmul, the slower of both", op, 1.0, 2.0)
    if reuse < 100:
        total.compute("matmul, little reuse", op)
    if reuse < 32:
        total.move("matmul bytes, thin", op)
    if reuse < 12:
        total.move("matmul bytes, very thin", op)


def _batched(op: Operation) -> bool:
    return "bmm" in (op.name or "") or any(len(shape) > 2 for shape in op.inputs[:2])


def _attention(total: _Sum, op: Operation) -> None:
    total.compute("attention", op)
    total.move("attention bytes", op)


def _rnn(total: _Sum, op: Operation) -> None:
    total.compute("rnn", op)
    total.move("rnn bytes", op)


def _simple(name: str) -> Callable[[_Sum, Operation], None]:
    return lambda total, op: total.move(name, op)


def _convolution(total: _Sum, op: Operation) -> None:
    shape = op.convolution
    if shape is None:
        total.compute("convolution", op, 1.5)
        total.move("convolution bytes", op)
    elif shape.groups > 1 and shape.groups == shape.channels_in:
        _depthwise(total, op, shape)
    elif shape.groups > 1:
        _grouped(total, op, shape)
    elif math.prod(shape.kernel) == 1:
        _pixelwise(total, op, shape)
    else:
        _dense(total, op, shape)


def _odd(shape: Convolution) -> bool:
    return bool(shape.channels_in % 8 or shape.channels_out % 8)


def _padded(channels: float, tile: int) -> float:
    """How much work whole tiles are, for as much as is wanted."""
    return math.ceil(channels / tile) * tile / channels


def _tiles(op: Operation, shape: Convolution, tile: int = TILE, depth: int = DEPTH) -> float:
    """Forward: outputs × depth of the sum; backward: half for the image, half for the weight."""
    window = math.prod(shape.kernel)
    inward, outward = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    forward = _padded(outward, tile) * _padded(inward * window, depth)
    if op.part != "backward":
        return forward
    image = _padded(inward, tile) * _padded(outward * window, depth)
    return (image + _padded(outward, tile) * _padded(inward * window, tile)) / 2


def _dense(total: _Sum, op: Operation, shape: Convolution) -> None:
    if shape.channels_in <= 4:
        total.compute("first convolution", op)
        total.move("first convolution bytes", op)
        return
    total.compute("convolution", op)
    total.compute("convolution in tiles", op, _tiles(op, shape))
    total.either("convolution, the slower of both", op, _tiles(op, shape), 3.0)
    total.move("convolution bytes", op)
    if _odd(shape):
        total.move("convolution bytes, odd channels", op)


def _pixelwise(total: _Sum, op: Operation, shape: Convolution) -> None:
    plane = math.prod(shape.plane)
    fewest, most = sorted((shape.channels_in, shape.channels_out))
    total.compute("1x1 in tiles", op, _tiles(op, shape))
    total.either("1x1, the slower of both", op, _tiles(op, shape), 3.0)
    total.move("1x1 bytes", op)
    if _odd(shape):
        total.move("1x1 bytes, odd channels", op)
    if max(shape.stride) > 1:
        total.move("1x1 bytes, strided", op)
    if max(shape.plane) < 15:
        total.compute("1x1 on small planes", op)
    if plane % 8:
        total.move("1x1 bytes, odd plane", op)
    if fewest < 32:
        total.move("1x1 bytes, under 32 channels", op)
    if fewest < 17:
        total.move("1x1 bytes, under 17 channels", op)
    if most > 300:
        total.compute("1x1 of many channels", op)


def _depthwise(total: _Sum, op: Operation, shape: Convolution) -> None:
    """cuDNN has kernels for half precision and ordinary shapes; PyTorch's own take the rest."""
    window = math.prod(shape.kernel)
    native = shape.channels_in < 32 or max(shape.kernel) > 5 or min(shape.plane) < 7
    if total.in_rows:
        total.compute("depthwise beside layer norms", op)
        total.move("depthwise bytes beside layer norms", op)
    elif native:
        total.compute("depthwise, native", op)
        total.move("depthwise bytes, native", op)
        if op.part == "backward":
            few = max(1.0, 164 / (shape.channels_in * window))
            total.compute("depthwise gradient of few weights", op, few / 2)
    elif max(shape.stride) > 1:
        total.compute("depthwise", op)
        total.move("depthwise bytes, strided", op)
    else:
        total.compute("depthwise", op)
        total.move("depthwise bytes", op)


def _grouped(total: _Sum, op: Operation, shape: Convolution) -> None:
    width = min(shape.channels_in, shape.channels_out) // shape.groups
    total.compute("grouped", op)
    total.compute("grouped in tiles", op, _padded(max(1, width), 16))
    total.either("grouped, the slower of both", op, 2 * _padded(max(1, width), 16), 4.0)
    if width < 8:
        total.compute("grouped, narrow", op)
    total.move("grouped bytes", op)
    if max(shape.stride) > 1:
        total.move("grouped bytes, strided", op)


_ADD: dict[str, Callable[[_Sum, Operation], None]] = {
    "norm": _norm,
    "pointwise": _pointwise,
    "copy": _pointwise,
    "reduction": _reduction,
    "matmul": _matmul,
    "attention": _attention,
    "rnn": _rnn,
    "convolution": _convolution,
    "optimizer": _simple("optimizer"),
    "embedding": _simple("embedding"),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """What GPUs do in a second, one row a GPU, as they are said to."""

    bandwidth: Array
    ordinary: Array
    """FLOPs of ordinary cores in float32."""
    unit: Array
    """FLOPs by unit."""
    tensor: NDArray[np.bool_]
    """Whether that unit is a tensor core."""
    cache: Array
    multiprocessors: Array

    @classmethod
    def of(cls, gpus: Sequence[Gpu]) -> "Rates":
        tensor = np.array(
            [
                [
                    bool(
                        {
                            "float16": gpu.fp16_tensor_tflops,
                            "bfloat16": gpu.bf16_tensor_tflops,
                            "tf32": gpu.tf32_tensor_tflops,
                            "float8": gpu.fp8_tensor_tflops,
                        }.get(unit)
                    )
                    for unit in UNITS
                ]
                for gpu in gpus
            ]
        )
        ordinary = np.array([gpu.fp32_tflops * 1e12 for gpu in gpus])
        # Half without tensor cores is only stored: cuDNN and cuBLAS then compute in float32.
        peak = np.array([[gpu.peak_flops_per_second(unit) for unit in UNITS] for gpu in gpus])
        double = np.array([unit == "float64" for unit in UNITS])
        return cls(
            bandwidth=np.array([gpu.memory_gb_per_second * 1e9 for gpu in gpus]),
            ordinary=ordinary,
            unit=np.where(tensor | double, peak, ordinary[:, None]),
            tensor=tensor,
            cache=np.array([(gpu.l2_mib or 4.0) * 2**20 for gpu in gpus]),
            multiprocessors=np.array([float(gpu.multiprocessors or 60) for gpu in gpus]),
        )


def features(work: IterationWork, rates: Rates) -> Array:
    """x_j in seconds, one row a GPU."""
    moved = np.tile(work.bytes, (len(rates.bandwidth), 1))
    idle = np.maximum(0.0, rates.multiprocessors[:, None] / work.channels - 1.0)
    moved[:, _PLACE["batch norm of few channels"]] = idle @ work.channel_bytes
    inside = work.sizes <= rates.cache[:, None]
    amounts = work.sizes * work.counts
    for name in ("pointwise", "copy"):
        own = np.where(work.columns == _PLACE[name], amounts, 0.0)
        moved[:, _PLACE[f"{name} in cache"]] = inside @ own
        moved[:, _PLACE[name]] = own.sum() - inside @ own
    x = moved / rates.bandwidth[:, None]
    x[:, _PLACE["between kernels"]] = 1e-6 * min(work.launches.sum(), MOST_GAPS)
    x[:, _PLACE["upload"]] = work.upload / UPLOAD_BYTES_PER_SECOND
    flops, bytes_, unit, column, count = work.slower.T
    slower = np.maximum(flops / rates.unit[:, unit.astype(int)], bytes_ / rates.bandwidth[:, None]) * count
    for name in SLOWER:
        x[:, _PLACE[name]] = slower @ (column == _PLACE[name])
    ordinary = slice(len(MEMORY), len(MEMORY) + len(ORDINARY))
    x[:, ordinary] = work.flops[ordinary].sum(axis=1) / rates.ordinary[:, None]
    # Half that no tensor core takes is turned into float32 and back; depthwise kernels then are not the good ones.
    for name, rows in (("half on ordinary cores", _TENSOR), ("depthwise in half on ordinary cores", ordinary)):
        halves = work.flops[rows, UNITS.index("float16")].sum()
        x[:, _PLACE[name]] = np.where(rates.tensor[:, UNITS.index("float16")], 0.0, halves) / rates.ordinary
    x[:, _TENSOR] = (rates.tensor / rates.unit) @ work.flops[_TENSOR].T
    x[:, _PLAIN] = (~rates.tensor / rates.unit) @ work.flops[_TENSOR].T
    return x


def roofline(work: IterationWork, rates: Rates) -> Array:
    """No kernel is faster than its arithmetic, nor than its traffic unless that stays in the cache. One a GPU."""
    arithmetic = work.op_flops / rates.unit[:, work.op_units]
    traffic = np.where(work.op_bytes > rates.cache[:, None], work.op_bytes, 0.3 * work.op_bytes)
    slower = np.maximum(arithmetic, 0.8 * traffic / rates.bandwidth[:, None])
    return np.asarray(slower @ work.op_counts)

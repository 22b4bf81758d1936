"""The features of an iteration on a GPU: the ideal time of each sort of kernel, before anything is fitted.

A feature x_j is a time: F/peak, the arithmetic at the peak of the unit that does it, or B/bandwidth, the bytes at the
memory's speed, summed over the operations of its sort. Its coefficient is how many times slower real kernels of this
sort are; each has a prior, because it has a meaning:

norms          the number of passes over memory; few channels leave multiprocessors idle
pointwise      one pass; strided copies and reductions need more
products       arithmetic padded to full tiles; passes over memory where channels do not fill a vector
depthwise      at the peak of ordinary cores, by which of two kernels is used
small kernels  microseconds between successive kernels

Limits: the forward and the backward pass differ only in their work; fusion by a compiler is not modelled.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu
from trainfare.model.profile import Convolution, Operation

Array = NDArray[np.float64]

UPLOAD: Final = "host_to_device"
"""The name of an operation that copies a batch from the host through memory that is not pinned."""

UNITS: Final = ("float16", "bfloat16", "tf32", "float32", "float64", "float8")
"""Dtypes that may have hardware units of their own."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A column, and the prior of its coefficient."""

    name: str
    kind: str
    """The class of operators under which a prediction shows it."""
    prior: float
    compute: bool = False
    """Arithmetic; otherwise bytes, or seconds between kernels."""
    ordinary_prior: float = 0.0
    """For the same arithmetic on ordinary cores."""


MEMORY: Final = (
    Feature("batch norm", "norm", 1.8),
    Feature("batch norm of few channels", "norm", 0.8),
    Feature("group norm", "norm", 2.5),
    Feature("layer norm", "norm", 1.2),
    Feature("rows of layer norm", "norm", 1.0),
    Feature("other norm", "norm", 3.0),
    Feature("pointwise", "pointwise", 1.1),
    Feature("pointwise in cache", "pointwise", 0.7),
    Feature("pointwise in layer-norm networks", "pointwise", 1.3),
    Feature("pointwise in float32 under autocast", "pointwise", 1.0),
    Feature("copy", "copy", 1.5),
    Feature("copy in cache", "copy", 1.0),
    Feature("copy in layer-norm networks", "copy", 2.0),
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
    Feature("depthwise bytes in layer-norm networks", "convolution", 3.0),
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
"""The slower of arithmetic and bytes: loads continue while a kernel computes."""

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
    Feature("depthwise in layer-norm networks", "convolution", 4.0, True),
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
"""The host time of a launch, as multiples of the simplest kind."""
HOST_PRIORS: Final = np.array([feature.prior for feature in HOST])
_HOST_COLUMN: Final = {
    "convolution": 0, "norm": 1, "matmul": 2, "attention": 2, "rnn": 2, "reduction": 3, "copy": 4, "embedding": 3,
    "optimizer": 5,
}  # fmt: skip

FEATURES: Final = (
    *MEMORY,
    *ORDINARY,
    *COMPUTE,
    *(Feature(f"{f.name} on ordinary cores", f.kind, f.ordinary_prior, True) for f in COMPUTE),
)
"""In the order of the columns."""

PRIORS: Final = np.array([feature.prior for feature in FEATURES])
IS_COMPUTE: Final = np.array([feature.compute for feature in FEATURES])
_COLUMN: Final = {feature.name: column for column, feature in enumerate(FEATURES)}
_TENSOR_UNITS: Final = slice(len(MEMORY) + len(ORDINARY), len(MEMORY) + len(ORDINARY) + len(COMPUTE))
_ORDINARY_UNITS: Final = slice(_TENSOR_UNITS.stop, len(FEATURES))

MAX_GAPS: Final = 8000
"""At most this many launches count: with more of them, they are too small to fill the GPU anyway."""
UPLOAD_BYTES_PER_SECOND: Final = 6e9
MAX_LOADS: Final = 36e9
"""Bytes per second that one multiprocessor can load in kernels that are not tuned to one GPU: some 24 KB in flight that
take 0.65 µs to arrive. Measured programs on GPUs up to the A100 agree with 20 to 45 GB/s."""
MULTIPROCESSOR_FLOPS: Final = 2 * 128 * 1.9e9
ROW_BYTES: Final = 1280
TILE, DEPTH = 64, 32
_VIEWS: Final = {"aten._unsafe_view"}
"""Operations without work."""


@dataclass(frozen=True, slots=True)
class IterationWork:
    """The work of an iteration, added up once for any number of GPUs."""

    flops: Array
    """By feature and unit."""
    bytes: Array
    """By feature."""
    launches: Array
    """By kind of launch."""
    upload: float
    channels: Array
    """Channels of each batch norm; next, its bytes."""
    channel_bytes: Array
    sizes: Array
    """Bytes of each pointwise operation or copy; next, how often it runs and its column."""
    counts: Array
    columns: NDArray[np.int64]
    slower: Array
    """One row per product: weighted FLOPs, weighted bytes, unit, column and how often it runs."""
    op_flops: Array
    """FLOPs of each operation, for the roofline; next, its bytes, launches and unit."""
    op_bytes: Array
    op_counts: Array
    op_units: NDArray[np.int64]


def iteration_work(operations: Sequence[Operation]) -> IterationWork:
    """The sums over the operations of one iteration. Communication is no work of a GPU: `parallel/` models it."""
    return _WorkSum([operation for operation in operations if operation.kind != "communication"]).work()


class _WorkSum:
    """Adds up operations by feature."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        # Lists: adding to an element of an array takes several times as long.
        self.flops = [[0.0] * len(UNITS) for _ in FEATURES]
        self.bytes = [0.0] * len(FEATURES)
        self.launches = [0.0] * len(HOST)
        self.upload = 0.0
        self.channels: list[tuple[float, float]] = []
        self.cached: list[tuple[float, float, int]] = []
        self.slower: list[tuple[float, float, int, int, float]] = []
        self.operations = operations
        self.has_row_norms = _uses_row_norms(operations)
        self.first = min((op.convolution.channels_in for op in operations if op.convolution), default=0)
        for operation in operations:
            self.launches[_HOST_COLUMN.get(operation.kind, len(HOST) - 1)] += operation.count
            _ADD_OPERATION.get(operation.kind, _pointwise)(self, operation)

    def add_bytes(self, name: str, operation: Operation, factor: float = 1.0) -> None:
        self.bytes[_COLUMN[name]] += factor * operation.bytes * operation.count

    def add_flops(self, name: str, operation: Operation, factor: float = 1.0) -> None:
        self.flops[_COLUMN[name]][_unit(operation)] += factor * operation.flops * operation.count

    def add_slower(self, name: str, operation: Operation, flops: float, traffic: float) -> None:
        """The slower of arithmetic and bytes; `flops` and `traffic` are factors on them."""
        self.slower.append(
            (flops * operation.flops, traffic * operation.bytes, _unit(operation), _COLUMN[name], operation.count)
        )

    def work(self) -> IterationWork:
        channels = np.array(self.channels or [(1.0, 0.0)])
        cached = self.cached or [(0.0, 0.0, 0)]
        ops = self.operations
        return IterationWork(
            flops=np.array(self.flops),
            bytes=np.array(self.bytes),
            launches=np.array(self.launches),
            upload=self.upload,
            channels=channels[:, 0],
            channel_bytes=channels[:, 1],
            sizes=np.array([size for size, _, _ in cached]),
            counts=np.array([count for _, count, _ in cached]),
            columns=np.array([column for _, _, column in cached]),
            slower=np.array(self.slower or [(0.0, 0.0, 0, _COLUMN[SLOWER[0]], 0.0)]),
            op_flops=np.array([op.flops * _min_flops_share(op) for op in ops]),
            op_bytes=np.array([0.0 if op.name == UPLOAD else op.bytes for op in ops]),
            op_counts=np.array([float(op.count) for op in ops]),
            op_units=np.array([_unit_of_dtype(op.dtype) for op in ops], dtype=np.int64),
        )


def _uses_row_norms(operations: Iterable[Operation]) -> bool:
    """True if layer or group norms are a tenth of the pointwise traffic: such a network keeps its sum of residuals in
    float32 under autocast."""
    rows = pointwise = 0.0
    for operation in operations:
        if operation.norm in ("layer", "group", "rms"):
            rows += operation.bytes * operation.count
        elif operation.kind == "pointwise":
            pointwise += operation.bytes * operation.count
    return rows > 0.1 * pointwise > 0


def _min_flops_share(operation: Operation) -> float:
    """The least share of the direct algorithm's FLOPs: Winograd's algorithm needs fewer for 3×3 kernels, measured down
    to 0.6."""
    shape = operation.convolution
    if operation.kind == "convolution" and (shape is None or max(shape.kernel) > 1):
        return 0.5
    return 1.0


def _unit(operation: Operation) -> int:
    """The index in UNITS. The dtype is `tf32` where the program allows it; a GPU without such units uses float32."""
    return _unit_of_dtype(operation.dtype)


@cache
def _unit_of_dtype(dtype: str) -> int:
    if dtype.startswith("float8"):
        dtype = "float8"
    return UNITS.index(dtype) if dtype in UNITS else UNITS.index("float32")


def _norm(total: _WorkSum, op: Operation) -> None:
    if op.norm == "batch":
        total.add_bytes("batch norm", op)
        if op.row:
            itemsize = 2 if op.dtype in ("float16", "bfloat16") else 4
            passes = 3 if op.part == "backward" else 2
            total.channels.append((max(1.0, op.bytes / (passes * op.row * itemsize)), op.bytes * op.count))
    elif op.norm == "group":
        total.add_bytes("group norm", op)
    elif op.norm in ("layer", "rms"):
        total.add_bytes("layer norm", op)
        if op.row:
            rows = op.bytes / ((3 if op.part == "backward" else 2) * op.row * 4)
            total.bytes[_COLUMN["rows of layer norm"]] += ROW_BYTES * rows * op.count
    else:
        total.add_bytes("other norm", op)


def _pointwise(total: _WorkSum, op: Operation) -> None:
    if op.name in _VIEWS:
        return
    if op.name == UPLOAD:
        total.upload += op.bytes * op.count
        return
    name = "copy" if op.kind == "copy" else "pointwise"
    if op.autocast:
        total.add_bytes(f"{name} in float32 under autocast", op)
    elif total.has_row_norms:
        total.add_bytes(f"{name} in layer-norm networks", op, _in_place_share(op))
    else:
        total.cached.append((op.bytes * _in_place_share(op), op.count, _COLUMN[name]))


def _in_place_share(op: Operation) -> float:
    """The factor on the bytes of an in-place operation: its output has just been read and counts once, as in the traces
    that the coefficients come from."""
    if op.kind != "pointwise" or not (op.name or "").endswith("_"):
        return 1.0
    read = max(1, sum(math.prod(shape) > 1 for shape in op.inputs))
    return read / (read + 1)


def _reduction(total: _WorkSum, op: Operation) -> None:
    name = op.name or ""
    if "softmax" in name:
        total.add_bytes("softmax", op)
    elif "pool" in name or "reduce_window" in name or "select_and" in name:
        total.add_bytes("pooling", op)
    else:
        total.add_bytes("reduction", op)


def _matmul(total: _WorkSum, op: Operation) -> None:
    reuse = op.flops / max(op.bytes, 1.0)
    if _is_batched(op):
        total.add_flops("batched matmul", op)
        total.add_bytes("batched matmul bytes", op)
        if reuse < 16:
            total.add_bytes("batched matmul bytes, thin", op)
        return
    total.add_flops("matmul", op)
    total.add_bytes("matmul bytes", op)
    total.add_slower("matmul, the slower of both", op, 1.0, 2.0)
    if reuse < 100:
        total.add_flops("matmul, little reuse", op)
    if reuse < 32:
        total.add_bytes("matmul bytes, thin", op)
    if reuse < 12:
        total.add_bytes("matmul bytes, very thin", op)


def _is_batched(op: Operation) -> bool:
    return "bmm" in (op.name or "") or any(len(shape) > 2 for shape in op.inputs[:2])


def _attention(total: _WorkSum, op: Operation) -> None:
    total.add_flops("attention", op)
    total.add_bytes("attention bytes", op)


def _rnn(total: _WorkSum, op: Operation) -> None:
    total.add_flops("rnn", op)
    total.add_bytes("rnn bytes", op)


def _bytes_only(name: str) -> Callable[[_WorkSum, Operation], None]:
    return lambda total, op: total.add_bytes(name, op)


def _convolution(total: _WorkSum, op: Operation) -> None:
    shape = op.convolution
    if shape is None:
        total.add_flops("convolution", op, 1.5)
        total.add_bytes("convolution bytes", op)
    elif shape.groups > 1 and shape.groups == shape.channels_in:
        _depthwise(total, op, shape)
    elif shape.groups > 1:
        _grouped(total, op, shape)
    elif math.prod(shape.kernel) == 1:
        _convolution_1x1(total, op, shape)
    else:
        _convolution_full(total, op, shape)


def _unaligned(shape: Convolution) -> bool:
    return bool(shape.channels_in % 8 or shape.channels_out % 8)


def _padded(channels: float, tile: int) -> float:
    """The work of full tiles relative to the work that is needed."""
    return math.ceil(channels / tile) * tile / channels


def _tiles(op: Operation, shape: Convolution, tile: int = TILE, depth: int = DEPTH) -> float:
    """The padding to tiles. Forward: outputs × depth of the sum; backward: half for the image, half for the weights."""
    window = math.prod(shape.kernel)
    inward, outward = shape.channels_in // shape.groups, shape.channels_out // shape.groups
    forward = _padded(outward, tile) * _padded(inward * window, depth)
    if op.part != "backward":
        return forward
    image = _padded(inward, tile) * _padded(outward * window, depth)
    return (image + _padded(outward, tile) * _padded(inward * window, tile)) / 2


def _convolution_full(total: _WorkSum, op: Operation, shape: Convolution) -> None:
    if shape.channels_in <= 4:
        total.add_flops("first convolution", op)
        total.add_bytes("first convolution bytes", op)
        return
    total.add_flops("convolution", op)
    total.add_flops("convolution in tiles", op, _tiles(op, shape))
    total.add_slower("convolution, the slower of both", op, _tiles(op, shape), 3.0)
    total.add_bytes("convolution bytes", op)
    if _unaligned(shape):
        total.add_bytes("convolution bytes, odd channels", op)


def _convolution_1x1(total: _WorkSum, op: Operation, shape: Convolution) -> None:
    plane = math.prod(shape.plane)
    fewest, most = sorted((shape.channels_in, shape.channels_out))
    total.add_flops("1x1 in tiles", op, _tiles(op, shape))
    total.add_slower("1x1, the slower of both", op, _tiles(op, shape), 3.0)
    total.add_bytes("1x1 bytes", op)
    if _unaligned(shape):
        total.add_bytes("1x1 bytes, odd channels", op)
    if max(shape.stride) > 1:
        total.add_bytes("1x1 bytes, strided", op)
    if max(shape.plane) < 15:
        total.add_flops("1x1 on small planes", op)
    if plane % 8:
        total.add_bytes("1x1 bytes, odd plane", op)
    if fewest < 32:
        total.add_bytes("1x1 bytes, under 32 channels", op)
    if fewest < 17:
        total.add_bytes("1x1 bytes, under 17 channels", op)
    if most > 300:
        total.add_flops("1x1 of many channels", op)


def _depthwise(total: _WorkSum, op: Operation, shape: Convolution) -> None:
    """cuDNN has kernels for half precision and ordinary shapes; PyTorch's native kernels do the rest."""
    window = math.prod(shape.kernel)
    native = shape.channels_in < 32 or max(shape.kernel) > 5 or min(shape.plane) < 7
    if total.has_row_norms:
        total.add_flops("depthwise in layer-norm networks", op)
        total.add_bytes("depthwise bytes in layer-norm networks", op)
    elif native:
        total.add_flops("depthwise, native", op)
        total.add_bytes("depthwise bytes, native", op)
        if op.part == "backward":
            few = max(1.0, 164 / (shape.channels_in * window))
            total.add_flops("depthwise gradient of few weights", op, few / 2)
    elif max(shape.stride) > 1:
        total.add_flops("depthwise", op)
        total.add_bytes("depthwise bytes, strided", op)
    else:
        total.add_flops("depthwise", op)
        total.add_bytes("depthwise bytes", op)


def _grouped(total: _WorkSum, op: Operation, shape: Convolution) -> None:
    width = min(shape.channels_in, shape.channels_out) // shape.groups
    total.add_flops("grouped", op)
    total.add_flops("grouped in tiles", op, _padded(max(1, width), 16))
    total.add_slower("grouped, the slower of both", op, 2 * _padded(max(1, width), 16), 4.0)
    if width < 8:
        total.add_flops("grouped, narrow", op)
    total.add_bytes("grouped bytes", op)
    if max(shape.stride) > 1:
        total.add_bytes("grouped bytes, strided", op)


_ADD_OPERATION: dict[str, Callable[[_WorkSum, Operation], None]] = {
    "norm": _norm,
    "pointwise": _pointwise,
    "copy": _pointwise,
    "reduction": _reduction,
    "matmul": _matmul,
    "attention": _attention,
    "rnn": _rnn,
    "convolution": _convolution,
    "optimizer": _bytes_only("optimizer"),
    "embedding": _bytes_only("embedding"),
}


@dataclass(frozen=True, slots=True)
class GpuRates:
    """Nominal rates per second, one row per GPU."""

    bandwidth: Array
    """Bytes."""
    reached_bandwidth: Array
    """Bytes that the kernels of frameworks reach (`reached_bandwidth`)."""
    ordinary: Array
    """FLOPs of ordinary cores in float32."""
    unit: Array
    """FLOPs by unit."""
    tensor: NDArray[np.bool_]
    """True if the unit is a tensor core."""
    cache: Array
    multiprocessors: Array

    @classmethod
    def of(cls, gpus: Sequence[Gpu]) -> "GpuRates":
        tensor = np.array(
            [
                [
                    bool(
                        {
                            "float16": gpu.fp16_tensor_tflops,
                            "bfloat16": gpu.bf16_tensor_tflops,
                            "tf32": None if gpu.vendor == "amd" else gpu.tf32_tensor_tflops,
                            "float8": gpu.fp8_tensor_tflops,
                        }.get(unit)
                    )
                    for unit in UNITS
                ]
                for gpu in gpus
            ]
        )
        ordinary = np.array([gpu.fp32_tflops * 1e12 for gpu in gpus])
        # Without tensor cores half precision is only a storage format: cuDNN and cuBLAS compute in float32.
        peak = np.array([[gpu.peak_flops_per_second(unit) for unit in UNITS] for gpu in gpus])
        double = np.array([unit == "float64" for unit in UNITS])
        return cls(
            bandwidth=np.array([gpu.memory_gb_per_second * 1e9 for gpu in gpus]),
            reached_bandwidth=np.array([reached_bandwidth(gpu) for gpu in gpus]),
            ordinary=ordinary,
            unit=np.where(tensor | double, peak, ordinary[:, None]),
            tensor=tensor,
            cache=np.array([(gpu.l2_mib or 4.0) * 2**20 for gpu in gpus]),
            multiprocessors=np.array([float(gpu.multiprocessors or 60) for gpu in gpus]),
        )


def reached_bandwidth(gpu: Gpu) -> float:
    """Bytes per second that the kernels of frameworks reach, which fall behind the nominal figure as it grows.

        reached = nominal / √(1 + (nominal / (multiprocessors · MAX_LOADS))²)

    A multiprocessor has a limited number of bytes in flight and each of them takes as long to arrive as ever (Little's
    law), so the memory of a fast GPU waits for requests. Without the number of multiprocessors, that of a chip with as
    many FP32 operations per second counts. Accelerators that are no GPUs load by other means and reach what they say.
    """
    nominal = gpu.memory_gb_per_second * 1e9
    if gpu.vendor not in ("nvidia", "amd"):
        return nominal
    multiprocessors = gpu.multiprocessors or gpu.fp32_tflops * 1e12 / MULTIPROCESSOR_FLOPS
    return nominal / math.hypot(1.0, nominal / (multiprocessors * MAX_LOADS))


def features(work: IterationWork, rates: GpuRates) -> Array:
    """x_j in seconds, one row per GPU."""
    traffic = np.tile(work.bytes, (len(rates.bandwidth), 1))
    idle = np.maximum(0.0, rates.multiprocessors[:, None] / work.channels - 1.0)
    traffic[:, _COLUMN["batch norm of few channels"]] = idle @ work.channel_bytes
    cached = work.sizes <= rates.cache[:, None]
    amounts = work.sizes * work.counts
    for name in ("pointwise", "copy"):
        own = np.where(work.columns == _COLUMN[name], amounts, 0.0)
        traffic[:, _COLUMN[f"{name} in cache"]] = cached @ own
        traffic[:, _COLUMN[name]] = ~cached @ own  # not a difference, which may round to less than nothing
    x = traffic / rates.reached_bandwidth[:, None]
    x[:, _COLUMN["between kernels"]] = 1e-6 * min(work.launches.sum(), MAX_GAPS)
    x[:, _COLUMN["upload"]] = work.upload / UPLOAD_BYTES_PER_SECOND
    flops, bytes_, unit, column, count = work.slower.T
    slower = np.maximum(flops / rates.unit[:, unit.astype(int)], bytes_ / rates.reached_bandwidth[:, None]) * count
    for name in SLOWER:
        x[:, _COLUMN[name]] = slower @ (column == _COLUMN[name])
    ordinary = slice(len(MEMORY), len(MEMORY) + len(ORDINARY))
    x[:, ordinary] = work.flops[ordinary].sum(axis=1) / rates.ordinary[:, None]
    # Half precision without tensor cores is converted to float32 and back; depthwise kernels are then the slow ones.
    for name, rows in (("half on ordinary cores", _TENSOR_UNITS), ("depthwise in half on ordinary cores", ordinary)):
        halves = work.flops[rows, UNITS.index("float16")].sum()
        x[:, _COLUMN[name]] = np.where(rates.tensor[:, UNITS.index("float16")], 0.0, halves) / rates.ordinary
    x[:, _TENSOR_UNITS] = (rates.tensor / rates.unit) @ work.flops[_TENSOR_UNITS].T
    x[:, _ORDINARY_UNITS] = (~rates.tensor / rates.unit) @ work.flops[_TENSOR_UNITS].T
    return x


def roofline(work: IterationWork, rates: GpuRates) -> Array:
    """The lower bound of the time on each GPU: no kernel is faster than its arithmetic, nor than its memory traffic
    unless that stays in the cache."""
    arithmetic = work.op_flops / rates.unit[:, work.op_units]
    traffic = np.where(work.op_bytes > rates.cache[:, None], work.op_bytes, 0.3 * work.op_bytes)
    slower = np.maximum(arithmetic, 0.8 * traffic / rates.bandwidth[:, None])
    return np.asarray(slower @ work.op_counts)

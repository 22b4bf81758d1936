"""Measured iterations with known operations, as our own tracer would have recorded them.

`vision_models_rtx3090/`        pytorch-image-models (Apache-2.0): large batches under autocast on one RTX 3090
`torchvision_models_six_gpus/`  pytorch-gpu-benchmark (MIT): batch 12 in float32 and in pure half, six GPUs

The tables have times, and FLOPs and bytes of every operator by class, traced in the dtype of the row. What they lack is
reconstructed from what their benchmark programs do:

shape of a convolution   solved in integers from the pair of its forward and its backward pass
kind of a norm           from its bytes in excess of the tensors: 8 per channel (batch), 4 per row (layer)
recurrent layers         traced step by step but run by one kernel: their products are added up
autocast                 keeps layer norms, softmax and the sum of residuals in float32; traced in half precision, they
                         have half of their bytes
update                   image models: SGD with Nesterov momentum, tensor by tensor, in float32; gradients are zeroed
                         and accumulated, weights and gradients cast.
                         torchvision: none, but gradients are zeroed, and the images come from the host each time
"""

import csv
import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from trainfare.measurements.families import family_of
from trainfare.measurements.gpu_names import find_gpu_name
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Convolution, Norm, Operation, OperationKind, StepPart

IMAGE_MODELS = "vision_models_rtx3090"
TORCHVISION = "torchvision_models_six_gpus"

OWN_TRACES = Path(__file__).parent / "data" / "operations_of_image_models.jsonl.gz"
"""Operations of image models for which the table has only times, traced by `benchmarks/traced/image_models.py`."""

UPLOAD = "host_to_device"
"""The name of a copy of a batch to the GPU through memory that is not pinned."""

UPDATE_PASSES = 15
"""The number of tensors read or written per parameter, in float32: gradient zeroed and accumulated; momentum × and +,
gradient + momentum, parameter +."""
UPDATE_LAUNCHES = 6
CAST_BYTES = 6
"""Autocast casts each weight to half precision, and its gradient back to float32."""

RESIDUAL_SUM = 11 / 6
"""Bytes of a sum of residuals under autocast, forward 4 + 2 + 4 and backward 4 + 4 + 4, relative to 2 + 2 + 2 in half
precision."""

RECURRENT_LAUNCHES = 300
"""A matrix product that is launched at least this often is a step of a recurrent layer."""

Pair = tuple[float, float]


def read_image_models(folder: Path) -> list[MeasuredIteration]:
    """The models with operations in `folder`; a missing table is a FileNotFoundError."""
    table = folder / IMAGE_MODELS
    return list(_image_models(_step_seconds(table), _traced(table / "operations.jsonl.gz")))


def read_own_image_traces(folder: Path) -> list[MeasuredIteration]:
    """The models for which `folder` has only times, with operations that we traced ourselves."""
    table = folder / IMAGE_MODELS
    published = {traced["model"] for traced in _traced(table / "operations.jsonl.gz")}
    own = (traced for traced in _traced(OWN_TRACES) if traced["model"] not in published)
    return list(_image_models(_step_seconds(table), own))


def _step_seconds(table: Path) -> dict[tuple[str, int], float]:
    return {
        (line["model"], int(line["train_batch_size"])): float(line["train_step_time"]) / 1e3
        for line in _lines(table / "train_amp_nchw.csv")
        if line["train_step_time"]
    }


def _image_models(
    times: Mapping[tuple[str, int], float], every: Iterable[Mapping[str, Any]]
) -> Iterator[MeasuredIteration]:
    for traced in every:
        seconds = times.get((traced["model"], traced["batch_size"]))
        if seconds:
            yield MeasuredIteration(
                source=IMAGE_MODELS,
                program=traced["model"],
                family=family_of(traced["model"]),
                gpu="RTX 3090",
                dtype=traced["dtype"],
                batch_size=traced["batch_size"],
                seconds=seconds,
                operations=_TracedNetwork.build(traced).operations() + _nesterov(traced),
            )


def read_torchvision(folder: Path) -> list[MeasuredIteration]:
    """The rows of one GPU and of several; the operations are those of one GPU."""
    table = folder / TORCHVISION
    known: dict[tuple[str, str, int], tuple[Operation, ...]] = {}
    for traced in _traced(table / "operations.jsonl.gz"):
        key = traced["model"], traced["dtype"], traced["batch_size"]
        known[key] = _TracedNetwork.build(traced).operations() + _zeroing(traced) + _upload(traced)
    rows = []
    seen = set()
    for line in _lines(table / "training.csv"):
        # The results of one machine occur twice, under two names.
        facts = tuple(value for name, value in line.items() if name != "folder")
        if facts in seen:
            continue
        seen.add(facts)
        operations = known.get((line["model"], line["dtype"], int(line["batch_size_per_gpu"])))
        if operations and line["median_ms"]:
            rows.append(
                MeasuredIteration(
                    source=TORCHVISION,
                    program=line["model"],
                    family=family_of(line["model"]),
                    gpu=find_gpu_name(line["gpu"]),
                    dtype=line["dtype"],
                    batch_size=int(line["batch_size_per_gpu"]),
                    seconds=float(line["median_ms"]) / 1e3,
                    gpus=int(line["gpus"]),
                    machine=line["folder"],
                    operations=operations,
                )
            )
    return rows


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _traced(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


# What the benchmark programs do in addition to forward and backward. The number of parameter tensors follows from the
# operators that have weights.


def _parameter_tensors(traced: Mapping[str, Any]) -> int:
    classes = _launched(traced)
    _join_steps(classes)
    count = {name: launched.total() for name, launched in classes.items()}
    weights = sum(count.get(name, 0) for name in ("conv_f", "conv1x1_f", "dw_f", "gconv_f", "rnn"))
    return max(1, 2 * (count.get("norm", 0) // 2) + weights + count.get("mm", 0) // 2)


def _parameter_bytes(traced: Mapping[str, Any]) -> float:
    """The bytes of all parameters: the traced optimizer reads and writes each once, in the dtype of the trace."""
    return float(sum(size for _, size in _launched(traced).get("opt", Counter()).elements())) / 2


def _nesterov(traced: Mapping[str, Any]) -> tuple[Operation, ...]:
    tensors = _parameter_tensors(traced)
    parameters = _parameter_bytes(traced) / _itemsize(traced["dtype"])
    update, cast = 4 * UPDATE_PASSES * parameters / (UPDATE_LAUNCHES * tensors), CAST_BYTES * parameters / tensors
    return (
        _operation("optimizer", "float32", 0, update, UPDATE_LAUNCHES * tensors, name="aten.add_", part="optimizer"),
        _operation("copy", "float32", 0, cast, 2 * tensors, name="aten._to_copy"),
    )


def _zeroing(traced: Mapping[str, Any]) -> tuple[Operation, ...]:
    tensors = _parameter_tensors(traced)
    size = _parameter_bytes(traced) / tensors
    return (_operation("optimizer", traced["dtype"], 0, size, tensors, name="aten.zero_", part="optimizer"),)


def _upload(traced: Mapping[str, Any]) -> tuple[Operation, ...]:
    size = traced["batch_size"] * 3 * 224 * 224 * _itemsize(traced["dtype"])
    return (_operation("copy", traced["dtype"], 0, size, 1, name=UPLOAD, part="forward"),)


def _itemsize(dtype: str) -> int:
    return 2 if dtype in ("float16", "bfloat16") else 4


def _operation(
    kind: OperationKind, dtype: str, flops: float, size: float, count: int, *, name: str, part: StepPart | None = None,
    **details: Any,
) -> Operation:  # fmt: skip
    return Operation(
        kind=kind, dtype=dtype, flops=float(flops), bytes=float(size), count=count, name=name, part=part, **details
    )


_PLAIN: dict[str, tuple[OperationKind, str]] = {
    "elem": ("pointwise", "aten.elementwise"),
    "copy": ("copy", "aten.copy_"),
    "reduce": ("reduction", "aten.sum"),
    "softmax": ("reduction", "aten._softmax"),
    "pool": ("reduction", "aten.max_pool2d_with_indices"),
    "mm": ("matmul", "aten.mm"),
    "bmm": ("matmul", "aten.bmm"),
    "attn": ("attention", "aten._scaled_dot_product_attention"),
    "embed": ("embedding", "aten.embedding"),
    "rnn": ("rnn", "torch.lstm"),
}
_CONVOLUTIONS = ("conv", "conv1x1", "dw", "gconv")


@dataclass(frozen=True, slots=True)
class _TracedNetwork:
    """One traced iteration: how often each class of operators was launched, by FLOPs and bytes."""

    batch: int
    dtype: str
    autocast: bool
    classes: Mapping[str, Counter[Pair]]

    @classmethod
    def build(cls, traced: Mapping[str, Any]) -> "_TracedNetwork":
        """Half precision is pure in one table and autocast in the other, which also has the number of parameters."""
        classes = _launched(traced)
        _join_steps(classes)
        half = _itemsize(traced["dtype"]) == 2
        return cls(traced["batch_size"], traced["dtype"], half and "params" in traced, classes)

    def operations(self) -> tuple[Operation, ...]:
        convolutions = [op for name in _CONVOLUTIONS for op in self._convolutions(name)]
        shapes = [op.convolution for op in convolutions if op.convolution]
        norms = list(self._norms({n for shape in shapes for n in (shape.channels_in, shape.channels_out)}))
        residuals = {3 * tensor for norm, tensor in norms if norm.autocast}
        return (
            *(norm for norm, _ in norms),
            *convolutions,
            *(_cast(norm, tensor) for norm, tensor in norms if norm.autocast),
            *(op for name in self.classes if name in _PLAIN for op in self._plain(name, residuals)),
        )

    def _plain(self, name: str, residuals: AbstractSet[int]) -> Iterator[Operation]:
        kind, operator = _PLAIN[name]
        for (flops, size), count in self.classes[name].items():
            if self.autocast and (name == "softmax" or (name == "elem" and size in residuals)):
                longer = 2.0 if name == "softmax" else RESIDUAL_SUM
                yield _operation(kind, "float32", flops, size * longer, count, name=operator, autocast=True)
            else:
                yield _operation(kind, self.dtype, flops, size, count, name=operator)

    def _norms(self, channels: AbstractSet[int]) -> Iterator[tuple[Operation, int]]:
        """Each norm, with the bytes of its tensor in the dtype of the trace."""
        sizes = self.classes.get("norm", Counter())
        itemsize = _itemsize(self.dtype)
        for pair, kind, found in _norm_kinds(sizes, self.batch, itemsize, channels):
            name = f"aten.native_{kind if kind in ('layer', 'group') else 'batch'}_norm"
            in_float32 = self.autocast and kind in ("layer", "group")
            norm = _operation(
                "norm",
                "float32" if in_float32 else self.dtype,
                0,
                pair[1] * (2 if in_float32 else 1),
                sizes[pair],
                name=f"{name}_backward" if found.backward else name,
                part="backward" if found.backward else "forward",
                norm=kind,
                row=found.row,
                autocast=in_float32,
            )
            yield norm, found.elements * itemsize

    def _convolutions(self, name: str) -> Iterator[Operation]:
        forward, backward = self.classes.get(f"{name}_f", Counter()), self.classes.get(f"{name}_b", Counter())
        # The programs keep PyTorch's defaults: float32 convolutions may use TF32, matrix products may not.
        dtype = "tf32" if self.dtype == "float32" else self.dtype
        for one, other, count, shape in _paired(forward, backward, self.batch, _itemsize(self.dtype), name):
            for part, pair in (("forward", one), ("backward", other)):
                if pair is not None:
                    operator = "aten.convolution" if part == "forward" else "aten.convolution_backward"
                    yield _operation(
                        "convolution", dtype, *pair, count, name=operator, part=part, convolution=shape  # type: ignore[arg-type] # `part` is one of the two literals above
                    )  # fmt: skip


def _launched(traced: Mapping[str, Any]) -> dict[str, Counter[Pair]]:
    """The number of launches of each operator: the public tables have a pair for each launch, ours a pair and its
    count."""
    if "launched" in traced:
        return {name: Counter({(f, b): n for f, b, n in rows}) for name, rows in traced["launched"].items()}
    return {
        name: Counter((flops, size) for flops, size in pairs if flops or size)
        for name, pairs in traced["flops_and_bytes_by_class"].items()
    }


def _cast(norm: Operation, tensor: int) -> Operation:
    """The casts of a norm in float32: its output becomes half precision for the next product; backward also back."""
    count = norm.count * (2 if norm.part == "backward" else 1)
    return _operation("copy", "float32", 0, 3 * tensor, count, name="aten._to_copy", part=norm.part)


@dataclass(frozen=True, slots=True, order=True)
class _NormCandidate:
    """A possible shape of a norm; the more likely candidate is greater."""

    likely: tuple[bool, ...]
    row: int | None
    elements: int
    backward: bool


def _norm_kinds(
    sizes: Counter[Pair], batch: int, itemsize: int, channels: AbstractSet[int]
) -> Iterator[tuple[Pair, Norm, _NormCandidate]]:
    """The kind of each norm, with the number of elements normalised together and whether it is a backward pass.

    Several kinds can have the same size; then the kind that fits most of the network is chosen. A size that fits none
    is a normalisation of weights to unit variance.
    """
    fitting = {pair: _plane_norms(int(pair[1]), batch, itemsize, channels) for pair in sizes}
    if any("batch" not in fits for fits in fitting.values()):
        for pair, fits in fitting.items():
            fits.update(_row_norms(int(pair[1]), batch, itemsize))
    votes: Counter[Norm] = Counter()
    for pair, fits in fitting.items():
        votes.update(dict.fromkeys(fits, sizes[pair]))
    weights = _NormCandidate((), None, 0, False)
    for pair, fits in fitting.items():
        if fits:
            kind = max(fits, key=lambda one: votes[one])
            yield pair, kind, fits[kind]
        else:
            yield pair, "instance", weights


def _plane_norms(size: int, batch: int, itemsize: int, channels: AbstractSet[int]) -> dict[Norm, _NormCandidate]:
    """The batch norm of a size, if it is one.

    batch  2NPC + 4C elements and 2C statistics of four bytes forward, 3NPC + 5C backward, for C channels and N samples
    of P pixels; C is more likely a number of channels that a convolution has
    """
    elements = size // itemsize
    found = []
    for passes, small in ((2, 4 + 8 // itemsize), (3, 5 + 8 // itemsize)):
        for count in _divisors(elements):
            samples = elements // count - small
            if samples > 0 and samples % (passes * batch) == 0 and _is_square(samples // (passes * batch)):
                row = samples // passes
                found.append(
                    (_NormCandidate((count in channels, count % 8 == 0), row, row * count, passes == 3), count)
                )
    return {"batch": max(found, key=lambda one: (one[0].likely, one[1]))[0]} if found else {}


def _row_norms(size: int, batch: int, itemsize: int) -> dict[Norm, _NormCandidate]:
    """The layer norm and the group norm of a size, if it is one.

    layer  2RD + 2D elements and 2R statistics of four bytes forward, 3RD + 4D backward, for R rows of D elements
    group  2NPC + 2C + 2NG elements forward, 3NPC + 3C + 2NG backward, for G groups
    """
    found: dict[Norm, _NormCandidate] = {}
    elements = size // itemsize
    for passes, small in ((2, 2), (3, 4)):
        rows, rest = np.divmod(size - small * _WIDTHS * itemsize, passes * _WIDTHS * itemsize + 8)
        right = np.flatnonzero((rest == 0) & (rows > 0) & (rows % batch == 0))
        if len(right):
            # Widths tend to be multiples of powers of two.
            place = max(right.tolist(), key=lambda one: (int(_WIDTHS[one] & -_WIDTHS[one]), one))
            width = int(_WIDTHS[place])
            found.setdefault("layer", _NormCandidate((), width, width * int(rows[place]), passes == 3))
    for (passes, small), groups in product(((2, 2), (3, 3)), (32, 1)):
        planes, rest = np.divmod(elements - small * _WIDTHS - 2 * batch * groups, passes * batch * _WIDTHS)
        right = np.flatnonzero((rest == 0) & (planes > 0))
        squares = [place for place in right if _is_square(int(planes[place]))]
        if squares:
            sample = int(planes[squares[-1]] * _WIDTHS[squares[-1]])
            found.setdefault("group", _NormCandidate((), max(1, sample // groups), sample * batch, passes == 3))
    return found


_WIDTHS = np.arange(8, 4097, 8)


def _is_square(number: int) -> bool:
    return math.isqrt(number) ** 2 == number


def _join_steps(classes: dict[str, Counter[Pair]]) -> None:
    """Joins the steps of recurrent layers, which are launched very often, into one kernel per product."""
    often = {pair: count for pair, count in classes.get("mm", {}).items() if count >= RECURRENT_LAUNCHES}
    if not often:
        return
    layers = max(1, sum(often.values()) // RECURRENT_LAUNCHES)
    flops, size = (sum(pair[i] * count for pair, count in often.items()) / layers for i in (0, 1))
    classes["rnn"] = Counter({(flops, size): layers})
    for name in ("mm", "elem", "copy", "reduce"):
        classes[name] = Counter({p: n for p, n in classes.get(name, {}).items() if n < RECURRENT_LAUNCHES})


@lru_cache(maxsize=100_000)
def _divisors(number: int) -> tuple[int, ...]:
    """All divisors up to 8192, the largest number of channels."""
    found = [1]
    rest, prime = number, 2
    while prime * prime <= rest and prime < 3000:
        power, powers = 1, [1]
        while rest % prime == 0:
            rest //= prime
            power *= prime
            powers.append(power)
        if len(powers) > 1:
            found = [one * other for one in found for other in powers if one * other <= 8192]
        prime += 1 if prime == 2 else 2
    if rest > 1:
        found += [one * rest for one in found if one * rest <= 8192]
    return tuple(sorted(found))


def _paired(
    forward: Counter[Pair], backward: Counter[Pair], batch: int, itemsize: int, name: str
) -> Iterator[tuple[Pair, Pair | None, int, Convolution | None]]:
    """Each forward pass with a backward pass of twice its FLOPs (the same FLOPs for the first layer) that gives a valid
    shape; the rest without a partner."""
    left = dict(backward)
    for one, launches in sorted(forward.items(), reverse=True):
        count = launches
        # First those that are launched as often: they probably belong together.
        others = sorted(
            (o for o in left if o[0] in (2 * one[0], one[0])), key=lambda o: (o[0] == one[0], left[o] != count)
        )
        for other in others:
            taken = min(count, left[other])
            if taken and (shape := _shape(one, other, batch, itemsize, name)) is not None:
                left[other] -= taken
                count -= taken
                yield one, other, taken, shape
        for other in others:
            taken = min(count, left[other])
            if taken and other[0] == 2 * one[0]:
                left[other] -= taken
                count -= taken
                yield one, other, taken, None
        if count:
            yield one, None, count, None
    for other, count in left.items():
        if count:
            yield (other[0], other[1]), None, count, None


@lru_cache(maxsize=100_000)
def _shape(forward: Pair, backward: Pair, batch: int, itemsize: int, name: str) -> Convolution | None:
    """The shape of a convolution over square planes of N samples, in elements, with a bias (b = 1) or without:

        forward   in + weight + b·C_out + out           FLOPs 2·K·out
        backward  2·in + 2·weight + b·C_out + out       of the first layer: in + 2·weight + b·C_out + out

    so that out + b·C_out = 2·forward − backward, or weight = backward − forward of the first layer. K = C_in/groups·k².
    """
    one, other = round(forward[1] / itemsize), round(backward[1] / itemsize)
    flops = round(forward[0])
    first = backward[0] == forward[0]
    best: tuple[tuple[Any, ...], Convolution] | None = None
    for outward, out, weight in _outputs(flops, one, other, batch, first=first):
        depth = flops // (2 * out)
        bias = outward if one - weight - out - outward > 0 else 0
        for inside in {one - weight - out, one - weight - out - bias}:
            for kernel, inward, groups in _kernels(depth, outward, name, first=first):
                if inside <= 0 or inside % (batch * inward):
                    continue
                plane_in, plane = inside // (batch * inward), out // (batch * outward)
                if not _is_square(plane_in):
                    continue
                side_in, side = math.isqrt(plane_in), math.isqrt(plane)
                stride = max(1, round(side_in / side))
                # Without padding it shrinks by its kernel at most.
                off = side_in - side * stride
                if not -stride < off <= max(kernel) or (name == "conv1x1" and abs(off) > stride):
                    continue
                rank = (off == 0, stride in (1, 2, max(kernel)), outward % 8 == 0, inward % 8 == 0, -stride, outward)
                shape = Convolution(
                    channels_in=inward,
                    channels_out=outward,
                    kernel=kernel,
                    stride=(stride, stride),
                    plane=(side, side),
                    groups=groups,
                )
                if best is None or rank > best[0]:
                    best = rank, shape
    return best[1] if best else None


def _outputs(flops: int, one: int, other: int, batch: int, *, first: bool) -> Iterator[tuple[int, int, int]]:
    """Possible output channels, output elements and weights of a convolution."""
    if first:
        weight = other - one
        for outward in _divisors(weight) if weight > 0 else ():
            depth = weight // outward
            out = flops // (2 * depth)
            if flops % (2 * depth) == 0 and out % (batch * outward) == 0 and _is_square(out // (batch * outward)):
                yield outward, out, weight
        return
    total = 2 * one - other
    for outward in _divisors(total) if total > 0 else ():
        for out in (total, total - outward):
            divides = out > 0 and flops % (2 * out) == 0 and out % (batch * outward) == 0
            if divides and _is_square(out // (batch * outward)):
                yield outward, out, outward * (flops // (2 * out))


_SQUARE = tuple((side, side) for side in (3, 5, 7, 2, 4, 1, 9, 11, 8, 14, 16, 32, 6, 10, 12, 13, 15))
_OBLONG = ((1, 7), (1, 3), (1, 5), (1, 11), (1, 21))


def _kernels(depth: int, outward: int, name: str, *, first: bool) -> Iterable[tuple[tuple[int, int], int, int]]:
    """Possible kernels, input channels and groups, by the class in the table."""
    if name == "conv1x1":
        return (((1, 1), depth, 1),)
    if name == "dw":
        side = math.isqrt(depth)
        return (((side, side), outward, outward),) if side * side == depth else ()
    kernels: Sequence[tuple[int, int]] = (*_SQUARE, *_OBLONG)
    plain = [(k, depth // (k[0] * k[1]), 1) for k in kernels if depth % (k[0] * k[1]) == 0]
    if name == "conv":
        return [shape for shape in plain if not first or shape[1] <= 4] or plain
    return [
        (kernel, width * groups, groups)
        for kernel, width, _ in plain
        for groups in {outward // width, *(2**power for power in range(1, 8)), *range(3, 12)}
        if groups > 1 and outward % groups == 0
    ]

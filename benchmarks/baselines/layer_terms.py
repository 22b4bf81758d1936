"""The physical terms of a single layer's time, in seconds: the features that the layer models are fitted with.

A layer of batch B turns a plane of n² pixels with C_in channels into one of o² with C_out by kernels of k²:

    x = B·n²·C_in     y = B·o²·C_out     w = k²·C_in·C_out     F = 2·B·o²·w   (elements; FLOPs of one pass)

The forward pass is a matrix product with rows B·o², columns C_out and depth k²·C_in; training adds the gradient of the
data (rows B·n², columns C_in) and of the weights (rows k²·C_in, columns C_out, depth B·o²), each of F FLOPs. A
product is computed in tiles, as many at a time as there are multiprocessors, so its FLOPs are those of complete waves:

    W = 2 · ⌈tiles / SMs⌉ · SMs · tile rows · tile columns · depth

and takes max(bytes / bandwidth, a·W / peak) for several a and tile sizes. Further terms are passes over x, y and w for
bias, activation, loss, the padding that TensorFlow copies when it is not symmetric, and the optimiser, which in these
measurements updates input and target too; and, as terms without size, the host's work for each of them.

A 1×1 kernel of stride 1, or one as large as the plane, is a plain product and has its own terms (`product`); others go
through cuDNN (`convolved`), whose algorithm is not known. Limits: 2D, square, one group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer

Array = NDArray[np.float64]
Terms = dict[str, Array]

HOST = "host"
"""Prefix of the names of the host's terms, which have no size."""
OPTIMIZERS = ("sgd", "adadelta", "adagrad", "momentum", "adam", "rmsprop")
ACTIVATIONS = ("relu", "tanh", "sigmoid")

KEPLER_PEAK, KEPLER_BANDWIDTH = 0.5, 0.8
"""Share of its nominal figures that Kepler reaches relative to later GPUs. Chosen on the K40 and the K80, whose fitted
coefficients are about twice those of the other four GPUs for arithmetic and 25% larger for traffic."""
TYPICAL_MULTIPROCESSORS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The effective figures of a GPU in one dtype."""

    flops_per_second: float
    bytes_per_second: float
    multiprocessors: int
    element_bytes: int


def figures_of(gpu: Gpu, dtype: str) -> Figures:
    kepler = gpu.architecture == "Kepler"
    return Figures(
        flops_per_second=gpu.peak_flops_per_second(dtype) * (KEPLER_PEAK if kepler else 1),
        bytes_per_second=gpu.memory_gb_per_second * 1e9 * (KEPLER_BANDWIDTH if kepler else 1),
        multiprocessors=gpu.multiprocessors or TYPICAL_MULTIPROCESSORS,
        element_bytes=2 if dtype in ("float16", "bfloat16") else 4,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shapes:
    """The letters of the module for many layers of one kind; `trained`, `product` and the like are 0 or 1."""

    dense: bool
    batch: Array
    side: Array
    out: Array
    kernel: Array
    stride: Array
    channels_in: Array
    channels_out: Array
    padded: Array
    lopsided: Array
    """Padding by an odd number of pixels."""
    bias: Array
    activation: Array
    """0 for none, else its position in ACTIVATIONS from 1 on; the same for `optimizer` and OPTIMIZERS."""
    optimizer: Array

    @property
    def x(self) -> Array:
        return self.batch * self.side**2 * self.channels_in

    @property
    def y(self) -> Array:
        return self.batch * self.out**2 * self.channels_out

    @property
    def w(self) -> Array:
        return self.kernel**2 * self.channels_in * self.channels_out

    @property
    def flops(self) -> Array:
        """FLOPs of the forward pass."""
        return 2 * self.batch * self.out**2 * self.w

    @property
    def trained(self) -> Array:
        return _flag(self.optimizer > 0)

    @property
    def product(self) -> Array:
        full_plane = (self.padded == 0) & (self.kernel == self.side)
        return _flag(((self.kernel == 1) & (self.stride == 1)) | full_plane)


def shapes_of(rows: Sequence[MeasuredLayer]) -> Shapes:
    """The shapes of rows of one kind."""
    if len({row.kind for row in rows}) > 1:
        raise ValueError("rows must be of one kind")

    def each(values: Sequence[float]) -> Array:
        return np.array(values, dtype=np.float64)

    side, kernel = each([row.side for row in rows]), each([row.kernel for row in rows])
    stride, padded = each([row.stride for row in rows]), each([row.padded for row in rows])
    out = np.maximum(np.ceil(np.where(padded > 0, side, side - kernel + 1) / stride), 1)
    padding = np.where(padded > 0, np.maximum((out - 1) * stride + kernel - side, 0), 0)
    return Shapes(
        dense=bool(rows) and rows[0].kind == "dense",
        batch=each([row.batch_size for row in rows]),
        side=side,
        out=out,
        kernel=kernel,
        stride=stride,
        channels_in=each([row.channels_in for row in rows]),
        channels_out=each([row.channels_out for row in rows]),
        padded=padded,
        lopsided=_flag(padding % 2 == 1),
        bias=each([row.bias for row in rows]),
        activation=each([_place(row.activation, ACTIVATIONS) for row in rows]),
        optimizer=each([_place(row.optimizer, OPTIMIZERS) for row in rows]),
    )


def _place(name: str | None, names: Sequence[str]) -> int:
    """The position of a name, from 1 on; an unknown name counts as the first."""
    return 0 if name is None else names.index(name) + 1 if name in names else 1


def _flag(condition: NDArray[np.bool_]) -> Array:
    return condition.astype(np.float64)


def roofline_seconds(shapes: Shapes, gpu: Gpu, dtype: str) -> Array:
    """max(FLOPs / peak, bytes / bandwidth) at nominal figures, with each tensor moved once per pass."""
    passes = 1 + 2 * shapes.trained
    moved = figures_of(gpu, dtype).element_bytes * (shapes.x + shapes.y + shapes.w) * passes
    computed = shapes.flops * passes / gpu.peak_flops_per_second(dtype)
    return np.asarray(np.maximum(computed, moved / (gpu.memory_gb_per_second * 1e9)))


def layer_terms(shapes: Shapes, figures: Figures) -> Terms:
    """All terms in seconds; those of the host are 0 or 1, and their coefficients are seconds."""
    return {**_host_terms(shapes), **_product_terms(shapes, figures), **_pass_terms(shapes, figures)}


def _host_terms(shapes: Shapes) -> Terms:
    trained, active = shapes.trained, _flag(shapes.activation > 0)
    terms = {
        HOST: np.ones_like(trained),
        "host activation": active,
        "host training": trained,
        "host training activation": trained * active,
        "host bias": shapes.bias,
        "host training bias": trained * shapes.bias,
    }
    for place, name in enumerate(OPTIMIZERS[1:], start=2):
        terms[f"host {name}"] = _flag(shapes.optimizer == place)
    return terms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixProduct:
    """A matrix product of rows × columns over a depth."""

    rows: Array
    columns: Array
    depth: Array

    def wave_flops(self, multiprocessors: int, tile: int) -> Array:
        """W of the module, with square tiles."""
        waves = np.ceil(self.tiles(tile) / multiprocessors)
        return np.asarray(2 * waves * multiprocessors * tile**2 * self.depth)

    def tiles(self, tile: int) -> Array:
        return np.asarray(np.ceil(self.rows / tile) * np.ceil(self.columns / tile))


def products(shapes: Shapes) -> Mapping[str, MatrixProduct]:
    """The products of the forward pass, of the gradient of the data and of that of the weights, each of F FLOPs."""
    outputs, inputs = shapes.batch * shapes.out**2, shapes.batch * shapes.side**2
    window = shapes.kernel**2 * shapes.channels_in
    return {
        "forward": MatrixProduct(rows=outputs, columns=shapes.channels_out, depth=window),
        "data": MatrixProduct(
            rows=inputs, columns=shapes.channels_in, depth=shapes.flops / (2 * inputs * shapes.channels_in)
        ),
        "weight": MatrixProduct(rows=window, columns=shapes.channels_out, depth=outputs),
    }


def _product_terms(shapes: Shapes, figures: Figures) -> Terms:
    peak = figures.flops_per_second
    moved = figures.element_bytes * (shapes.x + shapes.y + shapes.w) / figures.bytes_per_second
    computed = shapes.flops / peak
    terms: Terms = {}
    for name, of in products(shapes).items():
        runs = np.ones_like(moved) if name == "forward" else shapes.trained
        wave = {tile: of.wave_flops(figures.multiprocessors, tile) / peak for tile in (32, 64, 128)}
        kinds = {"product": shapes.product * runs}
        if not shapes.dense:
            kinds["convolved"] = (1 - shapes.product) * runs
        for kind, here in kinds.items():
            key = f"{kind} {name}"
            terms[f"{key} bytes"] = moved * here
            for tile, a in ((32, 1.0), (64, 0.5), (64, 1.0), (64, 2.0), (128, 1.0)):
                terms[f"{key} {tile} {a:g}"] = np.maximum(moved, a * wave[tile]) * here
            if not shapes.dense:
                strided = here * (shapes.stride > 1)
                terms[f"{key} flops"] = np.maximum(moved, computed) * here
                terms[f"{key} strided"] = np.maximum(moved, computed) * strided
                terms[f"{key} strided dense"] = np.maximum(moved, computed * shapes.stride**2) * strided
    return terms


def _pass_terms(shapes: Shapes, figures: Figures) -> Terms:
    once = figures.element_bytes / figures.bytes_per_second
    x, y, w, trained = shapes.x * once, shapes.y * once, shapes.w * once, shapes.trained
    active = _flag(shapes.activation > 0)
    terms = {
        "x": x,
        "y": y,
        "w": w,
        "y activation": y * active,
        "x training": x * trained,
        "y training": y * trained,
        "y training activation": y * trained * active,
    }
    if not shapes.dense:
        terms["y bias"] = y * shapes.bias
        terms["y training bias"] = y * shapes.bias * trained
        terms["x lopsided"] = x * shapes.lopsided
        terms["x training lopsided"] = x * shapes.lopsided * trained
    for place, name in enumerate(OPTIMIZERS, start=1):
        terms[f"optimizer {name}"] = (x + y + w) * (shapes.optimizer == place)
    return terms


def layer_columns(shapes: Shapes, figures: Figures, parts: Mapping[str, Array]) -> Terms:
    """The features of the learned correction: the shape, how it fills tiles and waves, and the share of each part.

    No figure of the GPU is a column, so that trees fitted on one GPU can be used for another.
    """
    total = np.maximum(sum(parts.values()), 1e-12)
    columns: Terms = {f"share {name}": seconds / total for name, seconds in parts.items()}
    columns |= {
        "batch": shapes.batch,
        "channels in": shapes.channels_in,
        "channels out": shapes.channels_out,
        "activation": shapes.activation,
        "optimizer": shapes.optimizer,
        "log flops": np.log(shapes.flops),
        "log x": np.log(shapes.x),
        "log y": np.log(shapes.y),
        "log w": np.log(shapes.w),
        "channels in of 32": shapes.channels_in % 32,
        "channels out of 32": shapes.channels_out % 32,
        "channels in of 4": shapes.channels_in % 4,
        "channels out of 4": shapes.channels_out % 4,
        "channels in fill": shapes.channels_in / 64 / np.ceil(shapes.channels_in / 64),
        "channels out fill": shapes.channels_out / 64 / np.ceil(shapes.channels_out / 64),
    }
    for name, of in products(shapes).items():
        columns[f"log rows {name}"] = np.log(of.rows)
        columns[f"log tiles {name}"] = np.log(of.tiles(64) / figures.multiprocessors)
        columns[f"waste {name} 64"] = np.log(of.wave_flops(figures.multiprocessors, 64) / shapes.flops)
        columns[f"waste {name} 128"] = np.log(of.wave_flops(figures.multiprocessors, 128) / shapes.flops)
    if not shapes.dense:
        columns |= {
            "side": shapes.side,
            "out": shapes.out,
            "kernel": shapes.kernel,
            "stride": shapes.stride,
            "kernel and stride": shapes.kernel * 10 + shapes.stride,
            "padded": shapes.padded,
            "lopsided": shapes.lopsided,
            "bias": shapes.bias,
            "product": shapes.product,
            "log intensity": np.log(shapes.flops / (shapes.x + shapes.y + shapes.w)),
        }
    return columns

"""The per-layer regression of Gianniti, Zhang and Ardagna (SBAC-PAD 2018): a baseline for layers and their sums.

    t_l = β0 + β1 · c_l        t_network = Σ_l t_l

for each type of layer and each direction, with c_l the complexity of one output position of one sample:

| layer | forward              | backward                  |
| ----- | -------------------- | ------------------------- |
| conv  | Hf·Wf·Cin·Cout       | (2·Hf·Wf·Cin + 1)·Cout    |
| fc    | Hin·Win·Cin·Cout     | 2·Hin·Win·Cin·Cout        |
| loss  | 4·Cout − 1           | Cout + 1                  |
| norm  | 5·Cout + Cn − 2      | 8·Cout + Cn − 1           |
| pool  | Hf·Wf·Cout           | (Hf·Wf + 1)·Cout          |
| relu  | 3·Cout               | 4·Cout                    |

The documents keep batch and plane of a network fixed; here both vary, so c_l is multiplied by them. Ordinary least
squares, one GPU at a time. Limits: a layer that moves much and computes little is predicted too fast.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainfare.model.measurement import MeasuredLayer
from trainfare.model.profile import Operation

Array = NDArray[np.float64]
LayerType = Literal["conv", "fc", "loss", "norm", "pool", "relu"]
Direction = Literal["forward", "backward", "training"]
"""`training` is both directions, measured together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer in one direction, as in the table above."""

    type: LayerType
    direction: Direction
    complexity: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRegression:
    """β0 and β1 by `<gpu>/<type>/<direction>`, and the lower bound of every answer."""

    lines: Mapping[str, tuple[float, float]]
    min_seconds: float

    def layer_seconds(self, layer: Layer, gpu: str) -> float | None:
        """None where this type was not measured in this direction on this GPU."""
        line = self.lines.get(f"{gpu}/{layer.type}/{layer.direction}")
        return None if line is None else max(line[0] + line[1] * layer.complexity, self.min_seconds)

    def predict(self, rows: Sequence[MeasuredLayer]) -> Array:
        """Seconds of every row; NaN on a GPU that was not measured."""
        answers = (self.layer_seconds(layer_of(row), row.gpu) for row in rows)
        return np.array([np.nan if seconds is None else seconds for seconds in answers], dtype=np.float64)

    def operations_seconds(self, operations: Iterable[Operation], gpu: str) -> float:
        """The sum over the layers of the operations; layers without a line are left out."""
        layers = layers_of(operations)
        return sum(layer.count * (self.layer_seconds(layer, gpu) or 0.0) for layer in layers)


def complexity(
    type_: LayerType,
    direction: Direction,
    *,
    channels_out: float,
    channels_in: float = 1,
    window: float = 1,
    normalised: float = 0,
) -> float:
    """c_l of the table above: `window` is Hf·Wf (Hin·Win of a fully connected layer), `normalised` is Cn."""
    if direction == "training":
        both: tuple[Direction, Direction] = ("forward", "backward")
        return sum(
            complexity(
                type_, each, channels_out=channels_out, channels_in=channels_in, window=window, normalised=normalised
            )
            for each in both
        )
    forward, backward = {
        "conv": (window * channels_in * channels_out, (2 * window * channels_in + 1) * channels_out),
        "fc": (window * channels_in * channels_out, 2 * window * channels_in * channels_out),
        "loss": (4 * channels_out - 1, channels_out + 1),
        "norm": (5 * channels_out + normalised - 2, 8 * channels_out + normalised - 1),
        "pool": (window * channels_out, (window + 1) * channels_out),
        "relu": (3 * channels_out, 4 * channels_out),
    }[type_]
    return float(forward if direction == "forward" else backward)


def layer_of(row: MeasuredLayer) -> Layer:
    """The layer of a row, without its activation, as in the documents; a training row has both directions."""
    direction: Direction = "training" if row.optimizer else "forward"
    positions = row.batch_size
    if row.kind == "convolution":
        positions *= max(ceil((row.side if row.padded else row.side - row.kernel + 1) / row.stride), 1) ** 2
    type_: LayerType = "conv" if row.kind == "convolution" else "fc"
    own = complexity(type_, direction, channels_in=row.channels_in, channels_out=row.channels_out, window=row.kernel**2)
    return Layer(type=type_, direction=direction, complexity=own * positions)


def fit_layer_regression(rows: Sequence[MeasuredLayer]) -> LayerRegression:
    """One line per GPU, type and direction; layers of a single complexity give their mean."""
    if not rows:
        raise ValueError("there must be layers to fit to")
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        layer = layer_of(row)
        groups[f"{row.gpu}/{layer.type}/{layer.direction}"].append((layer.complexity, row.seconds))
    return LayerRegression(
        lines={key: _line(np.array(points)) for key, points in groups.items()},
        min_seconds=min(row.seconds for row in rows) / 10,
    )


def _line(points: Array) -> tuple[float, float]:
    c, t = points.T
    spread = float(np.sum((c - c.mean()) ** 2))
    slope = float(np.sum((c - c.mean()) * (t - t.mean()))) / spread if spread > 0 else 0.0
    return float(t.mean() - slope * c.mean()), slope


_POINTWISE = ("relu", "gelu", "silu", "hardswish", "leaky_relu", "elu", "sigmoid", "tanh")


def layers_of(operations: Iterable[Operation]) -> tuple[Layer, ...]:
    """The layers of an iteration, from the operations with traced shapes."""
    found = (_layer_of_operation(operation) for operation in operations)
    return tuple(layer for layer in found if layer is not None)


def _layer_of_operation(operation: Operation) -> Layer | None:
    if operation.part not in ("forward", "backward") or not operation.outputs:
        return None
    direction: Direction = operation.part
    elements = max(prod(shape) for shape in (*operation.inputs, *operation.outputs))
    name = operation.name or ""
    own: float
    type_: LayerType
    if operation.convolution is not None:
        shape = operation.convolution
        type_, positions = "conv", _batch(operation) * prod(shape.plane)
        own = positions * complexity(
            "conv",
            direction,
            channels_in=shape.channels_in / shape.groups,
            channels_out=shape.channels_out,
            window=prod(shape.kernel),
        )
    elif operation.kind == "matmul":
        # Frameworks launch the two products of the backward pass separately: each is half of the table's.
        type_, own = "fc", operation.flops / 2
    elif operation.kind == "norm":
        type_, own = "norm", complexity("norm", direction, channels_out=elements, normalised=operation.row or 0)
    elif "pool" in name:
        type_, own = "pool", complexity("pool", direction, channels_out=elements)
    elif any(word in name for word in _POINTWISE):
        type_, own = "relu", complexity("relu", direction, channels_out=elements)
    elif "nll" in name or "cross_entropy" in name:
        type_, own = "loss", complexity("loss", direction, channels_out=elements)
    else:
        return None
    return Layer(type=type_, direction=direction, complexity=own, count=operation.count)


def _batch(operation: Operation) -> int:
    """The batch size, which is the first dimension of a convolution in every framework."""
    shapes = operation.inputs or operation.outputs
    return shapes[0][0] if shapes and shapes[0] else 1

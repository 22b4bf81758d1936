"""Makers of measured layers, and synthetic GPUs whose layers follow a simple law."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.baselines.layer_terms import roofline_seconds, shapes_of
from tests.makers import make_gpu
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredLayer


def make_layer(**changes: Any) -> MeasuredLayer:
    fields: dict[str, Any] = {
        "kind": "convolution",
        "gpu": "A",
        "batch_size": 8,
        "channels_in": 16,
        "channels_out": 32,
        "seconds": 1e-3,
    }
    return MeasuredLayer(**{**fields, **changes})


def made_gpus(*tflops: float) -> dict[str, Gpu]:
    """`GPU 5.0`: five TFLOP/s, with bandwidth and multiprocessors to match."""
    return {
        f"GPU {t}": make_gpu(
            name=f"GPU {t}",
            architecture="Pascal",
            fp32_tflops=t,
            memory_gb_per_second=50 * t,
            multiprocessors=int(5 * t),
        )
        for t in tflops
    }


def made_layers(
    gpus: Mapping[str, Gpu], rows: int, *, seed: int = 0, host: Mapping[str, float] | None = None, **changes: Any
) -> list[MeasuredLayer]:
    """Layers that take 0.2 ms (or `host`) and three times the roofline, with 2% of noise."""
    source = np.random.default_rng(seed)
    found = []
    for name, gpu in gpus.items():
        for _ in range(rows):
            side = int(source.integers(7, 60))
            row = make_layer(
                gpu=name,
                batch_size=int(source.integers(1, 40)),
                channels_in=int(source.integers(1, 300)),
                channels_out=int(source.integers(1, 300)),
                side=side,
                kernel=int(source.integers(1, 6)),
                stride=int(source.integers(1, 3)),
                optimizer=[None, "sgd", "adam"][int(source.integers(0, 3))],
                **changes,
            )
            device = 3 * float(roofline_seconds(shapes_of([row]), gpu, "float32")[0])
            seconds = ((host or {}).get(name, 2e-4) + device) * float(np.exp(0.02 * source.standard_normal()))
            found.append(replace_seconds(row, seconds))
    return found


def replace_seconds(row: MeasuredLayer, seconds: float) -> MeasuredLayer:
    return make_layer(**{name: getattr(row, name) for name in row.__slots__} | {"seconds": seconds})

"""The facts that decide how fast a GPU runs a program whose operations are unknown, and how similar two GPUs are.

Of a board's nominal figures the tensor rate is the most misleading. Gaming boards and some cloud boards are sold at
half the rate of the same chip on a workstation board, yet programs run nearly as fast; and a board of 150 W does not
sustain the clock that its figures are computed at. So the catalog's figures are complemented by

- the *chip's* rate: FP32 × the highest ratio of tensor rate to FP32 rate of any board with such a chip,
- its *clock*: FP32 / (2 · multiprocessors · cores per multiprocessor), which limits kernels too small to fill the chip,
- its *power*, in watts.

A chip family is an architecture and whether it was built for computing (float64 at a quarter of FP32 or more) or for
graphics: GA100 and GA102 are both Ampere and have little in common.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from trainfare.model.machine import Gpu

Array = NDArray[np.float64]

CORES = {
    "Kepler/computing": 192,
    "Pascal/computing": 64,
    "Volta/computing": 64,
    "Turing/graphics": 64,
    "Ampere/computing": 64,
}
"""FP32 operations per clock and multiprocessor, where not 128 (CUDA C++ Programming Guide, throughput table)."""

KEPLER_EFFICIENCY = 1 / 1.35
"""NVIDIA gives Maxwell 35% more performance per core (M. Harris, "Maxwell: The Most Advanced CUDA GPU Ever Made",
2014): Kepler cannot keep its 192 cores busy."""

GENERATIONS = {
    "Kepler": 0,
    "Maxwell": 1,
    "Pascal": 2,
    "Volta": 3,
    "Turing": 4,
    "Ampere": 5,
    "Ada": 6,
    "Hopper": 6,
    "Blackwell": 7,
    "Blackwell Ultra": 7,
}
FIRST_YEAR, YEARS_EACH = 2012, 2
"""The generation of Kepler; an architecture that is not listed gets its generation from its year."""

TYPICAL_WATTS = 300.0
DTYPES = ("float32", "tf32", "float16", "bfloat16")
LENGTHS = np.array([0.4, 0.6, 0.6, 0.4, 0.8])
"""The log ratio of bandwidth, tensor rate, FP32, watts and memory at which two GPUs stop being similar."""
WIDER = 2.0
OTHER_CHIP = 0.5
"""The similarity of two GPUs with equal figures and different chip families."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFacts:
    """Facts of chip families that no single Gpu has, by `chip_family`."""

    tensor_rates: Mapping[str, Mapping[str, float]]
    """By dtype: operations per FP32 operation, on the board with the most."""
    chip_watts: Mapping[str, float]
    """The median over the boards with the chip, for a board of unknown power."""


def chip_family(gpu: Gpu) -> str:
    """For example `Ampere/computing` or `Ampere/graphics`."""
    computing = (gpu.fp64_tflops or 0) >= 0.2 * gpu.fp32_tflops
    return f"{gpu.architecture}/{'computing' if computing else 'graphics'}"


def generations_apart(a: Gpu, b: Gpu) -> float:
    """0 within an architecture, at least 1 between two."""
    if a.architecture == b.architecture:
        return 0.0
    return max(1.0, abs(_generation(a) - _generation(b)))


def _generation(gpu: Gpu) -> float:
    return GENERATIONS.get(gpu.architecture, (gpu.launch_year - FIRST_YEAR) / YEARS_EACH)


def collect_chip_facts(gpus: Mapping[str, Gpu]) -> ChipFacts:
    """The facts of every chip family among `gpus`."""
    rates: dict[str, dict[str, float]] = {}
    watts: dict[str, list[float]] = {}
    for gpu in gpus.values():
        family_rates = rates.setdefault(chip_family(gpu), {})
        for dtype in DTYPES:
            family_rates[dtype] = max(family_rates.get(dtype, 0.0), _nominal_tflops(gpu, dtype) / gpu.fp32_tflops)
        if gpu.board_watts:
            watts.setdefault(chip_family(gpu), []).append(gpu.board_watts)
    return ChipFacts(
        tensor_rates=rates,
        chip_watts={chip: float(median(found)) for chip, found in watts.items()},
    )


def gpu_features(gpu: Gpu, dtype: str, chips: ChipFacts) -> Array:
    """Logarithms of bandwidth (TB/s), chip's rate (100 TFLOP/s), nominal/chip's rate, watts (300), clock (1.5 GHz),
    and the years since 2019 divided by five."""
    chip = _chip_tflops(gpu, dtype, chips)
    efficiency = KEPLER_EFFICIENCY if gpu.architecture == "Kepler" else 1.0
    clock = gpu.fp32_tflops * 1e3 / (2 * (gpu.multiprocessors or 100) * CORES.get(chip_family(gpu), 128))
    return np.array(
        [
            math.log(gpu.memory_gb_per_second / 1e3),
            math.log(chip * efficiency / 100),
            math.log(_nominal_tflops(gpu, dtype) / chip),
            math.log(_watts(gpu, chips) / TYPICAL_WATTS),
            math.log(clock / 1.5),
            (gpu.launch_year - 2019) / 5,
        ]
    )


def gpu_coordinates(gpu: Gpu, chips: ChipFacts, dtype: str = "float16") -> tuple[float, ...]:
    """The position of a GPU for `gpu_similarity`; for a program, with the rate at its own precision.

    A V100 has seven times the half-precision rate of a P100, which a program in float32 never uses.
    """
    figures = (
        gpu.memory_gb_per_second,
        _chip_tflops(gpu, dtype, chips),
        gpu.fp32_tflops,
        _watts(gpu, chips),
        gpu.memory_gib,
    )
    return tuple(math.log(figure) for figure in figures)


def gpu_similarity(
    some: Sequence[tuple[float, ...]],
    their_chips: Sequence[str],
    others: Sequence[tuple[float, ...]],
    other_chips: Sequence[str],
) -> Array:
    """exp(−½ Σ (difference/length)²) of the coordinates, halved across chip families: 1 for a GPU and itself, 0 for
    GPUs that have nothing in common."""
    if not some or not others:
        return np.zeros((len(some), len(others)))
    same = np.array(their_chips)[:, None] == np.array(other_chips)[None, :]
    return np.asarray(_kernel(some, others, LENGTHS) * np.where(same, 1.0, OTHER_CHIP), dtype=np.float64)


def wide_gpu_similarity(some: Sequence[tuple[float, ...]], others: Sequence[tuple[float, ...]]) -> Array:
    """The same with lengths WIDER times as long, whatever the chips: it ranks GPUs that are not similar."""
    return _kernel(some, others, WIDER * LENGTHS)


def _kernel(some: Sequence[tuple[float, ...]], others: Sequence[tuple[float, ...]], lengths: Array) -> Array:
    difference = (np.array(some)[:, None, :] - np.array(others)[None, :, :]) / lengths
    return np.asarray(np.exp(-0.5 * (difference**2).sum(-1)), dtype=np.float64)


def _nominal_tflops(gpu: Gpu, dtype: str) -> float:
    return gpu.peak_flops_per_second(dtype) / 1e12


def _chip_tflops(gpu: Gpu, dtype: str, chips: ChipFacts) -> float:
    own = _nominal_tflops(gpu, dtype) / gpu.fp32_tflops
    return gpu.fp32_tflops * chips.tensor_rates.get(chip_family(gpu), {}).get(dtype, own)


def _watts(gpu: Gpu, chips: ChipFacts) -> float:
    return gpu.board_watts or chips.chip_watts.get(chip_family(gpu), TYPICAL_WATTS)

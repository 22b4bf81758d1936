"""What decides how fast a GPU runs a program whose operations nobody knows, and how alike two GPUs are.

Of a board's nominal figures the tensor rate misleads most. Boards for games and some for clouds are sold at half the
rate of the same chip on a workstation's board, yet programs run nearly as fast; and a board of 150 W does not keep
the clock that its figures are computed at. So beside the figures of the catalog stand

- the *chip's* rate: FP32 × the most that any board with such a chip has of its tensor cores a FP32 operation,
- its *clock*: FP32 / (2 · multiprocessors · cores of one), which rules kernels too small to fill the chip,
- its *power*, in watts.

A chip is an architecture and whether it was built for computing (float64 at a quarter of FP32 or more) or for graphics:
GA100 and GA102 are both Ampere and have little in common.
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
"""FP32 operations a clock and multiprocessor, where they are not 128 (CUDA C++ Programming Guide, throughput table)."""

KEPLER_SHARE = 1 / 1.35
"""NVIDIA gives Maxwell 35 % more performance a core (M. Harris, "Maxwell: The Most Advanced CUDA GPU Ever Made", 2014):
Kepler cannot keep its 192 cores busy."""

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
"""Of Kepler; for an architecture that is not listed, a generation by its year."""

TYPICAL_WATTS = 300.0
DTYPES = ("float32", "tf32", "float16", "bfloat16")
LENGTHS = np.array([0.4, 0.6, 0.6, 0.4, 0.8])
"""Beyond what ratio (in logarithms) of bandwidth, tensor rate, FP32, watts and memory two GPUs stop being alike."""
FAR = 2.0
OTHER_CHIP = 0.5
"""How alike two GPUs of equal figures are when their chips differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """Facts of chips that no single Gpu tells, by `chip_of`."""

    tensor_rates: Mapping[str, Mapping[str, float]]
    """By dtype: operations for each of FP32, on the board with the most."""
    chip_watts: Mapping[str, float]
    """The middle of the boards with the chip: for a board whose power is not known."""


def chip_of(gpu: Gpu) -> str:
    computing = (gpu.fp64_tflops or 0) >= 0.2 * gpu.fp32_tflops
    return f"{gpu.architecture}/{'computing' if computing else 'graphics'}"


def generations_apart(a: Gpu, b: Gpu) -> float:
    """0 within an architecture, at least 1 between two."""
    if a.architecture == b.architecture:
        return 0.0
    return max(1.0, abs(_generation(a) - _generation(b)))


def _generation(gpu: Gpu) -> float:
    return GENERATIONS.get(gpu.architecture, (gpu.launch_year - FIRST_YEAR) / YEARS_EACH)


def chips_of(gpus: Mapping[str, Gpu]) -> Chips:
    rates: dict[str, dict[str, float]] = {}
    boards: dict[str, list[float]] = {}
    for gpu in gpus.values():
        of_chip = rates.setdefault(chip_of(gpu), {})
        for dtype in DTYPES:
            of_chip[dtype] = max(of_chip.get(dtype, 0.0), _nominal(gpu, dtype) / gpu.fp32_tflops)
        if gpu.board_watts:
            boards.setdefault(chip_of(gpu), []).append(gpu.board_watts)
    return Chips(
        tensor_rates=rates,
        chip_watts={chip: float(median(found)) for chip, found in boards.items()},
    )


def facts(gpu: Gpu, dtype: str, chips: Chips) -> Array:
    """Logarithms of bandwidth (TB/s), chip's rate (100 TFLOP/s), nominal/chip's rate, watts (300), clock (1.5 GHz),
    and the years since 2019 in fives."""
    chip = _chip_tflops(gpu, dtype, chips)
    share = KEPLER_SHARE if gpu.architecture == "Kepler" else 1.0
    clock = gpu.fp32_tflops * 1e3 / (2 * (gpu.multiprocessors or 100) * CORES.get(chip_of(gpu), 128))
    return np.array(
        [
            math.log(gpu.memory_gb_per_second / 1e3),
            math.log(chip * share / 100),
            math.log(_nominal(gpu, dtype) / chip),
            math.log(_watts(gpu, chips) / TYPICAL_WATTS),
            math.log(clock / 1.5),
            (gpu.launch_year - 2019) / 5,
        ]
    )


def place_of(gpu: Gpu, chips: Chips, dtype: str = "float16") -> tuple[float, ...]:
    """Where it stands among GPUs, for `likeness`; to a program, by the rate at its own precision.

    A V100 has seven times the half-precision rate of a P100, which a program in float32 never sees.
    """
    figures = (
        gpu.memory_gb_per_second,
        _chip_tflops(gpu, dtype, chips),
        gpu.fp32_tflops,
        _watts(gpu, chips),
        gpu.memory_gib,
    )
    return tuple(math.log(figure) for figure in figures)


def likeness(
    places: Sequence[tuple[float, ...]],
    of_chips: Sequence[str],
    others: Sequence[tuple[float, ...]],
    their_chips: Sequence[str],
) -> Array:
    """exp(−½ Σ (difference/length)²), halved across chips: 1 for a GPU and itself, 0 for GPUs without resemblance."""
    if not places or not others:
        return np.zeros((len(places), len(others)))
    same = np.array(of_chips)[:, None] == np.array(their_chips)[None, :]
    return np.asarray(_nearness(places, others, LENGTHS) * np.where(same, 1.0, OTHER_CHIP), dtype=np.float64)


def far_likeness(places: Sequence[tuple[float, ...]], others: Sequence[tuple[float, ...]]) -> Array:
    """The same with lengths FAR times as long, whatever the chips: of GPUs without resemblance, the next best."""
    return _nearness(places, others, FAR * LENGTHS)


def _nearness(places: Sequence[tuple[float, ...]], others: Sequence[tuple[float, ...]], lengths: Array) -> Array:
    apart = (np.array(places)[:, None, :] - np.array(others)[None, :, :]) / lengths
    return np.asarray(np.exp(-0.5 * (apart**2).sum(-1)), dtype=np.float64)


def _nominal(gpu: Gpu, dtype: str) -> float:
    return gpu.peak_flops_per_second(dtype) / 1e12


def _chip_tflops(gpu: Gpu, dtype: str, chips: Chips) -> float:
    own = _nominal(gpu, dtype) / gpu.fp32_tflops
    return gpu.fp32_tflops * chips.tensor_rates.get(chip_of(gpu), {}).get(dtype, own)


def _watts(gpu: Gpu, chips: Chips) -> float:
    return gpu.board_watts or chips.chip_watts.get(chip_of(gpu), TYPICAL_WATTS)

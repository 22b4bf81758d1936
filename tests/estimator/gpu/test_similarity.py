"""Chip families, and the similarity of GPUs."""

from dataclasses import replace

import numpy as np
import pytest

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.similarity import (
    chip_family,
    collect_chip_facts,
    generations_apart,
    gpu_coordinates,
    gpu_features,
    gpu_similarity,
    wide_gpu_similarity,
)
from trainfare.model.machine import Gpu

GPUS = load_gpus()


@pytest.mark.parametrize(
    ("name", "chip"),
    [("A100", "Ampere/computing"), ("RTX 3090", "Ampere/graphics"), ("K80", "Kepler/computing")],
)
def test_chip_family_distinguishes_computing_and_graphics(name: str, chip: str) -> None:
    assert chip_family(GPUS[name]) == chip


def test_boards_with_one_chip_share_its_rate() -> None:
    chips = collect_chip_facts(GPUS)
    game, work = (gpu_features(GPUS[name], "float16", chips) for name in ("RTX 4090", "RTX 6000 Ada"))
    assert work[1] - game[1] == pytest.approx(np.log(91.1 / 82.6))
    assert game[2] < work[2]


def test_gpu_is_most_similar_to_itself_then_to_its_sibling() -> None:
    chips = collect_chip_facts(GPUS)

    def similarity(a: Gpu, b: Gpu) -> float:
        return float(
            gpu_similarity(
                [gpu_coordinates(a, chips)], [chip_family(a)], [gpu_coordinates(b, chips)], [chip_family(b)]
            )[0, 0]
        )

    assert similarity(GPUS["A100"], GPUS["A100"]) == 1
    assert (
        similarity(GPUS["A100"], GPUS["A100-PCIe"])
        > similarity(GPUS["A100"], GPUS["V100"])
        > similarity(GPUS["A100"], GPUS["K80"])
    )


def test_tensor_cores_do_not_matter_to_float32_programs() -> None:
    chips = collect_chip_facts(GPUS)

    def similarity(dtype: str) -> float:
        pascal, volta = (gpu_coordinates(GPUS[name], chips, dtype) for name in ("P100", "V100"))
        return float(gpu_similarity([pascal], [chip_family(GPUS["P100"])], [volta], [chip_family(GPUS["V100"])])[0, 0])

    assert similarity("float32") > 10 * similarity("float16")


def test_wide_similarity_ranks_dissimilar_gpus() -> None:
    chips = collect_chip_facts(GPUS)
    kepler, pascal, volta = (gpu_coordinates(GPUS[name], chips, "float32") for name in ("K80", "P100", "V100"))
    assert wide_gpu_similarity([pascal], [volta])[0, 0] > 2 * wide_gpu_similarity([pascal], [kepler])[0, 0]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [("K40", "K80", 0), ("K80", "M60", 1), ("K80", "V100", 3), ("RTX 4090", "H100", 1), ("T4", "A100", 1)],
)
def test_generations_apart_is_symmetric(a: str, b: str, apart: float) -> None:
    assert generations_apart(GPUS[a], GPUS[b]) == generations_apart(GPUS[b], GPUS[a]) == apart


def test_unlisted_architecture_gets_its_generation_from_its_year() -> None:
    strange = replace(GPUS["A100"], architecture="of another make", launch_year=2020)
    assert generations_apart(strange, GPUS["K80"]) == 4
    assert generations_apart(strange, GPUS["T4"]) == 1

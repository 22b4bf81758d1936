"""What is certain about the memory of a program that has not trained yet, and what is only probable."""

import pytest

from trainfare.model.startup import ConstructedModel, MemoryReading, StartUp

GIB = 2**30


def make_model(**changes: int) -> ConstructedModel:
    fields = {
        "parameters": GIB,
        "trainable_parameters": GIB,
        "host_weight_bytes": 4 * GIB,
        "host_gradient_bytes": 4 * GIB,
        "optimizers": 1,
        "host_optimizer_bytes": 8 * GIB,
    }
    return ConstructedModel(**(fields | changes), optimizer="AdamW")


def make_memory(total: int = 12, available: int = 10, program: int = 1, **changes: float) -> MemoryReading:
    return MemoryReading(
        total_bytes=total * GIB,
        available_bytes=available * GIB,
        program_bytes=program * GIB,
        peak_program_bytes=program * GIB,
        **changes,
    )


def make_startup(model: ConstructedModel | None, memory: MemoryReading | None, *, gpu: bool = False) -> StartUp:
    return StartUp(seconds=30, frameworks=("torch",), model=model, memory=memory, has_accelerator=gpu)


@pytest.mark.parametrize(
    ("changes", "certain"),
    [
        ({}, True),
        ({"host_optimizer_bytes": 0}, False),
        ({"host_optimizer_bytes": 4 * GIB}, False),
        ({"host_optimizer_bytes": 0, "host_gradient_bytes": 0, "host_weight_bytes": 13 * GIB}, True),
        ({"processes": 2}, False),
        ({"optimizers": 100, "host_optimizer_bytes": 8 * GIB}, False),
        ({"optimizers": 100, "host_optimizer_bytes": 9 * GIB}, True),
    ],
    ids=["AdamW", "no state", "just fits", "weights alone", "shared by two", "one per layer", "state alone"],
)
def test_only_a_model_that_needs_more_than_there_is_is_certainly_too_large(
    changes: dict[str, int], certain: bool
) -> None:
    assert make_startup(make_model(**changes), make_memory()).certainly_too_large is certain


def test_nothing_is_certain_where_the_model_may_move_to_a_gpu() -> None:
    assert not make_startup(make_model(), make_memory(), gpu=True).certainly_too_large
    assert not make_startup(make_model(), make_memory(), gpu=True).probably_too_large


def test_nothing_is_certain_without_a_model_or_a_reading() -> None:
    assert not make_startup(None, make_memory()).certainly_too_large
    assert not make_startup(make_model(), None).certainly_too_large
    assert not make_startup(make_model(), None).probably_too_large


def test_memory_that_others_use_makes_a_model_probably_too_large() -> None:
    assert not make_startup(make_model(), make_memory(total=64, available=32)).probably_too_large
    assert make_startup(make_model(), make_memory(total=64, available=8)).probably_too_large


def test_a_machine_that_swaps_is_short_of_memory() -> None:
    assert make_memory(pressure=0.5).is_short
    assert not make_memory(pressure=0.05).is_short
    assert make_memory(available=1, swap_bytes_per_second=80e6).is_short
    assert not make_memory(available=8, swap_bytes_per_second=80e6).is_short
    assert make_startup(None, make_memory(pressure=0.5)).probably_too_large

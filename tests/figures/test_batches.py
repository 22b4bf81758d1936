"""Time and cost by batch size; sizes that exceed the memory are shaded."""

import pytest

from tests.figures.reading import dots, estimate, labels, layers, subtitle, views
from tests.makers import make_candidate, make_estimate
from trainfare.figures.batches import batches_figure
from trainfare.model.estimate import Estimate

SIZES = (32, 64, 128, 256)


def machine(name: str, *, gib_a_sample: float = 0.05) -> list[Estimate]:
    return [
        estimate(name, hours=2 + 100 / size, usd=1 + 50 / size, batch_size=size, needs_gib=gib_a_sample * size)
        for size in SIZES
    ]


OURS, OTHER = machine("g4dn.xlarge", gib_a_sample=0.1), machine("g5.xlarge", gib_a_sample=0.01)
SPEC = batches_figure([*OTHER, *OURS], chosen=OURS[1])


def test_each_machine_has_a_labelled_line_in_both_panels() -> None:
    assert [labels(view).count("aws g5.xlarge") for view in views(SPEC)] == [1, 1]
    assert [labels(view).count("aws g4dn.xlarge") for view in views(SPEC)] == [1, 1]


def test_the_ticks_are_the_batch_sizes() -> None:
    axis = next(layers(views(SPEC)[0], "point"))["encoding"]["x"]["axis"]
    assert axis["values"] == list(SIZES)


def test_a_size_that_exceeds_the_memory_is_a_shaded_cross_off_the_line() -> None:
    time = views(SPEC)[0]
    symbols = {row["x"]: row["symbol"] for row in dots(time) if row["machine"] == "aws g4dn.xlarge"}
    assert symbols[128] == "circle"
    assert symbols[256].startswith("M")
    (ground,) = layers(time, "rect")
    assert 128 < ground["encoding"]["x"]["datum"] < 256
    assert "exceeds the 16 GiB of aws g4dn.xlarge" in subtitle(time)
    assert max(row["x"] for layer in layers(time, "line") for row in layer["data"]["values"] if row["y"]) == 256
    assert {len(layer["data"]["values"]) for layer in layers(time, "line")} == {3, 4}


def test_a_size_that_may_exceed_the_memory_is_a_ring() -> None:
    tight = batches_figure(machine("g4dn.xlarge", gib_a_sample=0.115), chosen=OURS[1])
    fills = {row["x"]: row["fill"] for row in dots(views(tight)[0])}
    assert fills[128] != fills[32]
    assert "ring" in subtitle(views(tight)[0])


def test_intervals_are_drawn_for_the_chosen_machine_only() -> None:
    bars = [
        layer
        for layer in layers(views(SPEC)[0], "rule")
        if "y2" in layer["encoding"] and "low" in str(layer["encoding"]["y"])
    ]
    assert len(bars) == 1


def test_the_chosen_size_is_marked() -> None:
    assert labels(SPEC).count("chosen") == 2


def test_without_batch_sizes_there_is_nothing_to_draw() -> None:
    bare = make_estimate(candidate=make_candidate(batch_size=None))
    with pytest.raises(ValueError, match="batch size"):
        batches_figure([bare], chosen=bare)

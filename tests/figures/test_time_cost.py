"""Time and cost: the chosen machine filled and labelled, the front a line, limits as shaded areas."""

import json
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.figures.reading import dots, estimate, labels, layers, subtitle, ticks, title
from trainfare.figures.look import ACCENT, LABEL_SIZE, Spec, text_width
from trainfare.figures.place import overlap
from trainfare.figures.time_cost import time_cost_figure
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.names import machine_name

CHEAP = estimate("g4dn.xlarge", hours=4, usd=2)
MIDDLE = estimate("g5.xlarge", hours=2.5, usd=2.6)
FAST = estimate("p3.2xlarge", hours=1.5, usd=5)
WORSE = estimate("p2.xlarge", hours=5, usd=4.5)
FOUR = (CHEAP, MIDDLE, FAST, WORSE)
FRONT = (FAST, MIDDLE, CHEAP)


def figure(
    *estimates: Estimate, goal: Goal | None = None, width: int = 600, front: tuple[Estimate, ...] = FRONT
) -> Spec:
    return time_cost_figure(estimates or FOUR, chosen=CHEAP, front=front, knee=MIDDLE, goal=goal, width=width)


def test_every_machine_is_a_point_and_the_chosen_one_is_on_top() -> None:
    shown = dots(figure())
    assert {row["machine"]: row["role"] for row in shown} == {
        "aws p2.xlarge": "other",
        "aws p3.2xlarge": "front",
        "aws g5.xlarge": "knee",
        "aws g4dn.xlarge": "chosen",
    }
    assert shown[-1]["role"] == "chosen"


def test_a_point_has_a_tooltip() -> None:
    chosen = dots(figure())[-1]
    assert chosen["GPU"] == "T4"
    assert chosen["time"] == "4 h (90% interval: 2 h 40 min – 6 h)"
    assert chosen["cost"] == "$2.00 (90% interval: $1.33 – $3.00)"
    assert chosen["basis"] == "extrapolated"
    assert chosen["memory"] == "4 of 16 GiB, fits"


def test_the_title_is_the_answer_and_labels_replace_a_legend() -> None:
    spec = figure()
    assert title(spec) == "aws g4dn.xlarge: 4 h, $2.00"
    assert "10 epochs" in subtitle(spec)
    assert "bars are 90% intervals" in subtitle(spec)
    found = labels(spec)
    assert "aws g4dn.xlarge / 4 h, $2.00" in found
    assert "aws g5.xlarge / knee of the front" in found
    assert "aws p3.2xlarge · T4" in found
    assert "legend" not in json.dumps(spec)


def test_the_front_is_a_line_from_the_fastest_to_the_cheapest() -> None:
    (line,) = layers(figure(), "line")
    assert [row["usd"] for row in line["data"]["values"]] == [5, 2.6, 2]


def test_intervals_are_thin_bars_at_the_confidence_of_the_goal() -> None:
    bars = next(layer for layer in layers(figure(goal=Goal(confidence=0.5)), "rule") if "x2" in layer["encoding"])
    chosen = next(row for row in bars["data"]["values"] if row["role"] == "chosen")
    assert chosen["seconds_high"] == pytest.approx(CHEAP.seconds.at_confidence(0.5).high)


def test_of_many_points_only_the_front_has_bars() -> None:
    many = [estimate(f"m{i}", hours=5 + i / 10, usd=6 + i / 7) for i in range(40)]
    bars = next(layer for layer in layers(figure(*FOUR, *many), "rule") if "x2" in layer["encoding"])
    assert {row["role"] for row in bars["data"]["values"]} == {"chosen", "knee", "front"}


def test_the_area_outside_a_limit_is_shaded_and_labelled() -> None:
    spec = figure(goal=Goal(deadline_seconds=4.5 * 3600, budget_usd=4))
    shades = {key: each["datum"] for layer in layers(spec, "rect") for key, each in layer["encoding"].items()}
    assert shades["x"] == 4.5 * 3600 < shades["x2"]
    assert shades["y"] == 4 < shades["y2"]
    assert {"deadline 4 h 30 min", "budget $4.00"} <= set(labels(spec))


def test_a_distant_limit_is_only_in_the_subtitle() -> None:
    spec = figure(goal=Goal(deadline_seconds=90 * 86400, budget_usd=5000))
    assert not list(layers(spec, "rect"))
    assert "the deadline of 90 d is to the right of the figure" in subtitle(spec)
    assert "the budget of $5,000.00 is above the figure" in subtitle(spec)


def test_axes_start_at_zero_together_or_are_logarithmic_together() -> None:
    for more, kind in ((FOUR, "linear"), ((*FOUR, estimate("slow", hours=4, usd=400)), "log")):
        (points,) = layers(figure(*more), "point")
        scales = [points["encoding"][channel]["scale"] for channel in ("x", "y")]
        assert [scale["type"] for scale in scales] == [kind, kind]
        assert all((scale["domain"][0] == 0) == (kind == "linear") for scale in scales)
        assert all(
            ("logarithmic" in points["encoding"][channel]["axis"]["title"]) == (kind == "log") for channel in "xy"
        )


def test_ticks_are_hours_and_dollars() -> None:
    assert "'2 h'" in ticks(figure(), "x")
    assert "'$2'" in ticks(figure(), "y")


def test_machines_that_are_too_small_are_not_drawn() -> None:
    assert "aws small" not in {row["machine"] for row in dots(figure(*FOUR, estimate("small", needs_gib=90)))}


def test_one_machine_alone_can_be_drawn() -> None:
    spec = time_cost_figure([CHEAP], chosen=CHEAP)
    assert len(dots(spec)) == 1
    assert labels(spec) == ["aws g4dn.xlarge / 4 h, $2.00"]


def test_batch_sizes_are_in_the_labels_if_they_differ() -> None:
    spec = figure(*FOUR, estimate("g6.xlarge", hours=3, usd=3.5, batch_size=128))
    assert any(label.startswith("aws g4dn.xlarge, batch 64") for label in labels(spec))


def test_the_chosen_one_is_larger_and_the_only_one_in_colour() -> None:
    """Colour is never the only difference."""
    (points,) = layers(figure(), "point")
    by_role = {each["test"]: each["value"] for each in points["encoding"]["fill"]["condition"]}
    assert [test for test, colour in by_role.items() if colour == ACCENT] == ["datum.role === 'chosen'"]
    sizes = {each["test"]: each["value"] for each in points["encoding"]["size"]["condition"]}
    assert max(sizes, key=lambda test: sizes[test]) == "datum.role === 'chosen'"


def boxes(spec: Spec) -> list[tuple[float, float, float, float]]:
    """Of the labels, as the renderer will draw them."""
    found = []
    for layer in list(layers(spec, "text"))[1::2]:
        bold = layer["mark"]["fontWeight"] == "bold"
        for row in layer["data"]["values"]:
            lines = row["label"] if isinstance(row["label"], list) else [row["label"]]
            width = max(text_width(line, bold=bold) for line in lines)
            left = row["x"] - (width if layer["mark"]["align"] == "right" else 0)
            top = row["y"] - 0.75 * LABEL_SIZE
            found.append((left, top, left + width, top + 15 * (len(lines) - 1) + LABEL_SIZE))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 8, 30, 150]), st.sampled_from([360, 600]))
def test_labels_never_overlap_and_the_chosen_one_and_the_knee_have_theirs(seed: int, count: int, width: int) -> None:
    chance = random.Random(seed)
    every = [
        estimate(
            f"machine-{i}.{'x' * chance.randint(1, 9)}large",
            hours=chance.lognormvariate(1, 1),
            usd=chance.lognormvariate(1, 1),
        )
        for i in range(count)
    ]
    front: list[Estimate] = []
    for each in sorted(every, key=lambda e: e.seconds.value):
        if not front or each.usd.value < front[-1].usd.value:
            front.append(each)
    goal = Goal(deadline_seconds=chance.uniform(1, 20) * 3600, budget_usd=chance.uniform(1, 20))
    spec = time_cost_figure(every, chosen=every[0], front=front, knee=front[0], goal=goal, width=width)
    assert not any(overlap(one, other) for one, other in combinations(boxes(spec), 2))
    found = labels(spec)
    assert sum(label.startswith(machine_name(every[0].candidate.offer)) for label in found) == 1
    assert any("knee of the front" in label for label in found) == (front[0] != every[0])

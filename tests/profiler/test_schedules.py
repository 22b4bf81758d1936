"""The learning rate of epochs to come, against what the same programs show when they run to their end."""

from functools import cache
from typing import Any

import pytest

from tests.frameworks.runs import Seen, alone, seen

EPOCHS, BATCHES = 14, 6
PLAYED = (
    "step",
    "multistep",
    "exponential",
    "cosine",
    "restarts",
    "sequential",
    "option",
    "own",
    "one_cycle",
    "step_by_iteration",
    "hugging_face",
)


@cache
def to_the_end(kind: str) -> dict[str, Any]:
    return alone("torch_schedules.py", kind)


@cache
def watched(kind: str) -> Seen:
    return seen("torch_schedules.py", kind, iterations=20, trace=False)


@pytest.mark.parametrize("kind", PLAYED)
def test_plan_is_what_the_program_does_when_it_runs_to_its_end(kind: str) -> None:
    plan, rates = watched(kind).profile.learning_rate_plan, to_the_end(kind)["rates"]
    assert len(plan) >= EPOCHS
    assert list(plan[:EPOCHS]) == pytest.approx(rates, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", PLAYED)
def test_playing_a_schedule_leaves_the_program_as_it_was(kind: str) -> None:
    alone, own = to_the_end(kind), watched(kind).own
    assert own["losses"] == alone["losses"][: len(own["losses"])]
    assert own["rates"] == alone["rates"][: len(own["rates"])]


def test_plan_ends_where_the_schedule_does() -> None:
    assert len(watched("one_cycle").profile.learning_rate_plan) == EPOCHS


@pytest.mark.parametrize("kind", ["plateau", "telling"])
def test_schedule_that_needs_a_metric_or_does_more_than_compute_has_no_plan(kind: str) -> None:
    profile = watched(kind).profile
    assert profile.learning_rate_plan == ()
    assert profile.learning_rate_schedule in ("ReduceLROnPlateau", "LambdaLR")


def test_function_of_the_program_is_not_called_more_often_than_it_calls_it() -> None:
    assert watched("telling").own["calls"] == 1 + 20 // BATCHES

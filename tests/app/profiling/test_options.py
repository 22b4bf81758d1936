"""The options of a profile: when measuring ends, and combinations that are refused."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from trainfare.app.profiling.options import ProfileKeywords, ProfileOptions
from trainfare.errors import UsageError
from trainfare.profiler.stopping import STEADY, UntilEpochs, UntilStable, UntilSteady


def test_a_length_that_contradicts_itself_is_refused_before_the_program_runs() -> None:
    with pytest.raises(UsageError, match="both set the length"):
        ProfileOptions(steps=100, tokens=1e9)


def test_keywords_are_the_fields_of_the_options() -> None:
    assert get_type_hints(ProfileKeywords) == get_type_hints(ProfileOptions)
    assert set(get_type_hints(ProfileKeywords)) == {field.name for field in fields(ProfileOptions)}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, STEADY),
        ({"iterations": 7}, STEADY),
        ({"max_seconds": 9}, UntilSteady(max_seconds=9)),
        ({"epochs": 2, "max_seconds": 9}, UntilEpochs(epochs=2, max_seconds=9)),
        ({"until_stable": True}, UntilStable(patience=5)),
        ({"until_stable": True, "patience": 3}, UntilStable(patience=3)),
    ],
)
def test_stopping_rule_follows_from_the_options(options: dict[str, Any], rule: object) -> None:
    assert ProfileOptions(**options).stopping_rule == rule


@pytest.mark.parametrize(
    ("options", "iterations"),
    [
        ({}, 50),
        ({"iterations": 7}, 7),
        ({"max_seconds": 9.0}, None),
        ({"epochs": 2}, None),
        ({"until_stable": True}, None),
    ],
)
def test_default_number_of_iterations_is_used_without_another_rule(
    options: dict[str, Any], iterations: int | None
) -> None:
    assert ProfileOptions(**options).target_iterations(default=50) == iterations


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"iterations": 5, "epochs": 2}, "epochs"),
        ({"epochs": 2, "until_stable": True}, "until_stable"),
        ({"patience": 3}, "patience"),
        ({"iterations": 5, "max_seconds": 9.0}, "max_seconds"),
        ({"iterations": 1}, "iterations"),
        ({"epochs": 0}, "epochs"),
        ({"until_stable": True, "patience": 0}, "patience"),
    ],
)
def test_invalid_combination_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as refusal:
        ProfileOptions(**options)
    assert refusal.value.field == field
    assert "--" not in refusal.value.message

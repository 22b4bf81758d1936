"""Typed access to the values of a reason."""

from collections.abc import Callable

import pytest

from trainfare.model.reason import Value
from trainfare.views import values as read

VALUES: dict[str, Value] = {
    "count": 3,
    "share": 0.5,
    "name": "aws a",
    "flag": True,
    "nothing": None,
    "names": ("a", "b"),
    "record": {"machine": "a"},
    "records": ({"machine": "a"}, {"machine": "b"}),
}


def test_values_of_the_right_type_are_returned() -> None:
    assert (read.number(VALUES, "count"), read.number(VALUES, "share")) == (3, 0.5)
    assert (read.integer(VALUES, "count"), read.text(VALUES, "name")) == (3, "aws a")
    assert read.texts(VALUES, "names") == ("a", "b")
    assert read.record(VALUES, "record") == {"machine": "a"}
    assert [each["machine"] for each in read.records(VALUES, "records")] == ["a", "b"]


@pytest.mark.parametrize("name", ["nothing", "absent"])
def test_optional_values_are_none_if_missing(name: str) -> None:
    assert read.optional_number(VALUES, name) is None
    assert read.optional_text(VALUES, name) is None
    assert read.record(VALUES, name) is None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (read.number, "name"),
        (read.number, "flag"),
        (read.integer, "share"),
        (read.integer, "flag"),
        (read.text, "count"),
        (read.optional_number, "name"),
        (read.texts, "name"),
        (read.record, "names"),
        (read.records, "record"),
        (read.records, "names"),
    ],
)
def test_a_value_of_another_type_is_a_type_error_that_names_it(function: Callable[..., object], name: str) -> None:
    with pytest.raises(TypeError, match=name):
        function(VALUES, name)

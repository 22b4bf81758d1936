"""Typed access to the values of a Reason."""

from collections.abc import Mapping, Sequence

from trainfare.model.reason import Scalar, Value
from trainfare.units import plural

Values = Mapping[str, Value] | Mapping[str, Scalar]


def number(values: Values, name: str) -> float:
    """A number that must be there."""
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return value


def optional_number(values: Values, name: str) -> float | None:
    """A number, or None if it is None or absent."""
    return None if values.get(name) is None else number(values, name)


def integer(values: Values, name: str) -> int:
    """An integer that must be there."""
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return value


def flag(values: Values, name: str) -> bool:
    """A flag; False if it is absent."""
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be true or false, got {value!r}")
    return value


def text(values: Values, name: str) -> str:
    """A text that must be there."""
    value = values[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {value!r}")
    return value


def optional_text(values: Values, name: str) -> str | None:
    """A text, or None if it is None or absent."""
    return None if values.get(name) is None else text(values, name)


def texts(values: Values, name: str) -> tuple[str, ...]:
    """A list of texts."""
    value = values[name]
    if not isinstance(value, tuple | list):
        raise TypeError(f"{name} must be a list, got {value!r}")
    return tuple(str(each) for each in value)


def record(values: Values, name: str) -> Mapping[str, Scalar] | None:
    """A small record, or None if it is None or absent."""
    value = values.get(name)
    if value is None or isinstance(value, Mapping):
        return value
    raise TypeError(f"{name} must be a record, got {value!r}")


def records(values: Values, name: str) -> tuple[Mapping[str, Scalar], ...]:
    """A list of small records."""
    value = values[name]
    if not isinstance(value, tuple | list):
        raise TypeError(f"{name} must be a list, got {value!r}")
    found = []
    for each in value:
        if not isinstance(each, Mapping):
            raise TypeError(f"{name} must be a list of records, got {each!r} in it")
        found.append(each)
    return tuple(found)


def length(values: Values) -> str:
    """A number of epochs, in steps where the training is counted in them: `90 epochs`, `26,000 steps`."""
    epochs, steps = integer(values, "epochs"), optional_number(values, "iterations_per_epoch")
    return plural(epochs, "epoch") if steps is None else plural(round(epochs * steps), "step")


def listed(words: Sequence[str]) -> str:
    """The words in one phrase: `64, 128 and 256`."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last

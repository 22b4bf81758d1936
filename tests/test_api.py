"""`import trainfare` is quick, and offers the use cases and the nouns."""

import subprocess
import sys

import pytest

import trainfare


@pytest.mark.parametrize("name", [name for name in trainfare.__all__ if name != "__version__"])
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(trainfare, name)
    assert found.__name__ == name
    assert found.__module__ == trainfare._HOMES[name]


def test_what_is_public_and_what_is_loaded_on_first_use_are_the_same() -> None:
    assert set(trainfare.__all__) == {"__version__", *trainfare._HOMES}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recomend'"):
        trainfare.recomend  # noqa: B018 asking is the test


def test_importing_it_loads_nothing_heavy() -> None:
    script = "import sys, trainfare; print([m for m in ('sqlalchemy', 'rich', 'typer', 'msgspec') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"

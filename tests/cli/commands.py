"""Run commands in this process, and store profiles for them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trainfare.cli.arguments import spell_error
from trainfare.cli.console import out
from trainfare.cli.main import app, options_of
from trainfare.errors import TrainfareError
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def store(*profiles: Profile) -> None:
    """Add profiles to the store of the test."""
    with open_history(read_settings().store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def run(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def succeed(*words: object, stdin: str | None = None) -> Result:
    """The result of a command that must end with exit code 0."""
    result = run(*words, stdin=stdin)
    if result.exception is not None:
        raise result.exception
    return result


def read_json(*words: object, stdin: str | None = None) -> Any:
    """The JSON that the command prints."""
    return json.loads(succeed(*words, "--json", stdin=stdin).stdout)


def in_one_line(*words: object) -> str:
    """The stdout of the command with every run of white space as one space."""
    return " ".join(succeed(*words).stdout.split())


def error_of(*words: object) -> TrainfareError:
    """The error with which the command ends."""
    result = run(*words)
    assert isinstance(result.exception, TrainfareError), (result.exception, result.output)
    return result.exception


def complaint(*words: object) -> str:
    """The paragraph that the command prints for its error."""
    return spell_error(error_of(*words), [str(word) for word in words], options_of)


@contextmanager
def terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A terminal of that width."""
    with monkeypatch.context() as changes:
        changes.setenv("COLUMNS", str(columns))
        out.cache_clear()
        yield
    out.cache_clear()

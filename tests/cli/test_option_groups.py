"""Options that several commands share, declared once as the fields of a dataclass."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trainfare.cli.option_groups import expand_options

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    nodes: Annotated[int, typer.Option(help="Number of nodes.")]
    seed: Annotated[int, typer.Option(min=0)] = 7


@app.command()
@expand_options
def first(*, name: Annotated[str, typer.Option()] = "fifo", shared: Shared) -> None:
    """Print the options."""
    typer.echo(f"{name} {shared}")


@app.command()
@expand_options
def second(*, shared: Shared) -> None:
    typer.echo(f"{shared}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    colour: Annotated[str, typer.Option()] = "red"


@app.command()
@expand_options
def third(*, shared: Shared, other: Other) -> None:
    typer.echo(f"{shared} {other}")


def test_a_command_may_have_several_groups() -> None:
    result = CliRunner().invoke(app, ["third", "--nodes", "3", "--colour", "blue"])
    assert result.stdout == f"{Shared(nodes=3, seed=7)} {Other(colour='blue')}\n"


def test_a_command_gets_the_fields_as_options() -> None:
    result = CliRunner().invoke(app, ["first", "--nodes", "3", "--name", "edf"])
    assert result.stdout == f"edf {Shared(nodes=3, seed=7)}\n"
    result = CliRunner().invoke(app, ["second", "--nodes", "2", "--seed", "1"])
    assert result.stdout == f"{Shared(nodes=2, seed=1)}\n"


def test_the_help_has_the_docstring_and_every_option() -> None:
    shown = CliRunner().invoke(app, ["first", "--help"]).stdout
    assert "Print the options." in shown
    assert "Number of nodes." in shown
    assert all(option in shown for option in ("--name", "--nodes", "--seed"))


@pytest.mark.parametrize("words", [["first"], ["first", "--nodes", "x"], ["second", "--nodes", "2", "--seed", "-1"]])
def test_a_missing_or_invalid_option_is_refused(words: list[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2

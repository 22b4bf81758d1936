"""`trainfare epochs`: the answer, the plot in characters, JSON and the figure."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli import commands
from tests.cli.commands import store
from tests.estimator.epochs.test_profile_epochs import EXPONENTIAL, make_curve
from tests.makers import make_profile
from trainfare.errors import UsageError
from trainfare.model.profile import Profile


def run(*arguments: object) -> Result:
    return commands.run("epochs", *arguments)


def text(*arguments: object) -> str:
    return commands.succeed("epochs", *arguments).stdout


@pytest.fixture
def profile() -> Profile:
    made = make_profile(id="p1", epochs=100, samples=50_000, learning_rate_plan=EXPONENTIAL, curve=make_curve(20))
    store(made)
    return made


def test_the_first_line_has_the_answer_its_interval_and_its_rule(profile: Profile) -> None:
    first = text("p1").splitlines()[0]
    assert "epochs are enough" in first
    assert "90%:" in first
    assert "by its learning rates" in first


def test_the_number_that_the_program_trains_is_printed(profile: Profile) -> None:
    assert "the program declares 100 epochs" in text("p1")


def test_the_plot_shows_the_measured_epochs_the_form_and_the_interval(profile: Profile) -> None:
    shown = text("p1")
    assert all(mark in shown for mark in ("●", "·", "│", "░", "● val_loss", "epoch 100"))


def test_far_from_the_profiled_batch_size_only_a_range_is_printed(profile: Profile) -> None:
    first, *_ = text("p1", "--batch", "512").splitlines()
    assert first.startswith("Between ")
    assert "no single number" in first


def test_an_unknown_number_is_explained() -> None:
    store(make_profile(id="p2"))
    first, _, why, *_ = text("p2").splitlines()
    assert first.startswith("Not known yet")
    assert "No epoch was seen" in why


def test_json_has_the_answer_of_each_rule(profile: Profile) -> None:
    found: dict[str, Any] = json.loads(text("p1", "--json"))
    answer, (one,) = found["answer"], found["profiles"]
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert (answer["rule"], answer["refused"], one["declared"], one["schedule"]) == ("schedule", False, 100, "smooth")
    assert one["by_curve"]["rule"] == "curve"


@pytest.mark.parametrize(("name", "start"), [("curve.png", b"\x89PNG"), ("curve.svg", b"<?xml")])
def test_a_figure_is_drawn(profile: Profile, tmp_path: Path, name: str, start: bytes) -> None:
    assert f"drawn as {tmp_path / name}" in text("p1", "--plot", str(tmp_path / name)).replace("\n", "")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_figure_shows_where_a_target_is_reached(profile: Profile, tmp_path: Path) -> None:
    seen = [epoch.metrics["val_loss"] for epoch in profile.curve]
    target = (str(seen[9]), str(tmp_path / "curve.json"))
    answer = json.loads(text("p1", "--target", target[0], "--plot", target[1], "--json"))["answer"]
    drawn = (tmp_path / "curve.json").read_text()
    assert f"{answer['value']:.0f} epochs" in drawn
    assert "reaches its target" in drawn


def test_an_unknown_number_can_be_drawn(tmp_path: Path) -> None:
    store(make_profile(id="p2", curve=make_curve(2)))
    text("p2", "--plot", str(tmp_path / "two.png"))
    assert (tmp_path / "two.png").exists()


@pytest.mark.parametrize("name", ["curve.pdf", "curve", "nowhere/curve.png"])
def test_a_figure_that_cannot_be_written_is_refused_first(tmp_path: Path, name: str) -> None:
    result = run("p9", "--plot", str(tmp_path / name))
    assert isinstance(result.exception, UsageError)
    assert "cannot be drawn" in str(result.exception)


def test_a_profile_without_a_curve_has_nothing_to_draw(tmp_path: Path) -> None:
    store(make_profile(id="p2", epochs=100, learning_rate_plan=EXPONENTIAL))
    result = run("p2", "--plot", str(tmp_path / "curve.png"))
    assert isinstance(result.exception, UsageError)
    assert "nothing to draw" in str(result.exception)


def test_zero_epochs_are_refused(profile: Profile) -> None:
    assert isinstance(run("p1", "--epochs", "0").exception, UsageError)

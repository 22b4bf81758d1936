"""`trainfare epochs`: the answer first, a plot in characters, JSON, a figure."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.app.recommending.test_epochs import EXPONENTIAL, make_curve, store
from tests.makers import make_profile
from trainfare.cli.main import app
from trainfare.errors import UsageError
from trainfare.model.profile import Profile


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["epochs", *arguments])


def text(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


@pytest.fixture
def profile() -> Profile:
    made = make_profile(id="p1", epochs=100, samples=50_000, learning_rate_plan=EXPONENTIAL, curve=make_curve(20))
    store(made)
    return made


def test_the_answer_stands_first_with_its_interval_and_its_rule(profile: Profile) -> None:
    first = text("p1").splitlines()[0]
    assert "epochs are enough" in first
    assert "90%:" in first
    assert "by its learning rates" in first


def test_what_the_program_trains_is_said_too(profile: Profile) -> None:
    assert "the program declares 100 epochs" in text("p1")


def test_the_plot_shows_what_was_seen_the_form_and_where_it_settles(profile: Profile) -> None:
    shown = text("p1")
    assert all(mark in shown for mark in ("●", "·", "│", "░", "● val_loss", "epoch 100"))


def test_far_from_what_is_known_only_a_range_is_told(profile: Profile) -> None:
    first, *_ = text("p1", "--batch-size", "512").splitlines()
    assert first.startswith("Between ")
    assert "no single number" in first


def test_a_refusal_says_so_first_and_then_why() -> None:
    store(make_profile(id="p2"))
    first, _, why, *_ = text("p2").splitlines()
    assert first.startswith("Not known yet")
    assert "No epoch was seen" in why


def test_json_has_the_answer_and_what_each_rule_says(profile: Profile) -> None:
    found: dict[str, Any] = json.loads(text("p1", "--json"))
    answer, (one,) = found["answer"], found["profiles"]
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert (answer["rule"], answer["refused"], one["declared"], one["schedule"]) == ("schedule", False, 100, "smooth")
    assert one["by_curve"]["rule"] == "curve"


@pytest.mark.parametrize(("name", "start"), [("curve.png", b"\x89PNG"), ("curve.svg", b"<?xml")])
def test_a_figure_is_drawn(profile: Profile, tmp_path: Path, name: str, start: bytes) -> None:
    assert f"drawn as {tmp_path / name}" in text("p1", "--plot", str(tmp_path / name)).replace("\n", "")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_target_is_drawn_where_it_is_reached(profile: Profile, tmp_path: Path) -> None:
    seen = [epoch.metrics["val_loss"] for epoch in profile.curve]
    target = (str(seen[9]), str(tmp_path / "curve.json"))
    answer = json.loads(text("p1", "--target", target[0], "--plot", target[1], "--json"))["answer"]
    drawn = (tmp_path / "curve.json").read_text()
    assert f"{answer['value']:.0f} epochs" in drawn
    assert "reaches its target" in drawn


def test_a_refusal_can_be_drawn(tmp_path: Path) -> None:
    store(make_profile(id="p2", curve=make_curve(2)))
    text("p2", "--plot", str(tmp_path / "two.png"))
    assert (tmp_path / "two.png").exists()


@pytest.mark.parametrize("name", ["curve.pdf", "curve", "nowhere/curve.png"])
def test_a_figure_that_cannot_be_written_is_said_before_anything_is_asked(tmp_path: Path, name: str) -> None:
    result = run("p9", "--plot", str(tmp_path / name))
    assert isinstance(result.exception, UsageError)
    assert "cannot be drawn" in str(result.exception)


def test_a_profile_without_a_curve_has_nothing_to_draw(tmp_path: Path) -> None:
    store(make_profile(id="p2", epochs=100, learning_rate_plan=EXPONENTIAL))
    result = run("p2", "--plot", str(tmp_path / "curve.png"))
    assert isinstance(result.exception, UsageError)
    assert "nothing to draw" in str(result.exception)


def test_zero_epochs_are_refused(profile: Profile) -> None:
    assert run("p1", "--epochs", "0").exit_code == 2

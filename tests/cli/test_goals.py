"""What `trainfare recommend` looks for, within which limits, and what it chooses from."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.makers import make_profile, make_program
from trainfare.cli.main import app
from trainfare.errors import AskedWrongly, Infeasible, NotFound
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

COMMAND = make_program(command=("python", "train.py", "--batch-size", "64"))


@pytest.fixture(autouse=True)
def _kept() -> None:
    with open_history(read_settings().store) as history:
        history.add_profile(traced())


def traced(**changes: Any) -> Profile:
    """A program of which the operations are known, with a batch size that its command sets."""
    return make_profile(**({"activation_bytes": 50_000_000, "samples": 6400, "program": COMMAND} | changes))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["recommend", "--epochs", "300", *arguments])


def found(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan


def error(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code != 0, result.stdout
    assert isinstance(result.exception, AskedWrongly | Infeasible), result.exception
    return str(result.exception)


def test_a_deadline_is_kept_at_the_end_of_the_interval_by_the_cheapest_that_does() -> None:
    free = found()
    limit = free["chosen"]["seconds_high"] * 0.9
    plan = found("--deadline", f"{limit}s", "--all")
    assert (plan["goal"], plan["chosen"]["seconds_high"] <= limit) == ("cheapest", True)
    steady = [e for e in plan["estimates"] if e["fits"] is not False and e["market"] == "on_demand"]
    in_time = [e["usd"] for e in steady if e["seconds_high"] <= limit]
    assert free["chosen"]["usd"] < plan["chosen"]["usd"] == min(in_time)


def test_within_a_budget_it_is_the_fastest() -> None:
    limit = 3 * found()["chosen"]["usd_high"]
    plan = found("--budget", str(limit))
    assert (plan["goal"], plan["chosen"]["usd_high"] <= limit) == ("fastest", True)
    assert plan["budget_usd"] == limit


def test_less_confidence_lets_more_in() -> None:
    limit = f"{found()['chosen']['seconds_high'] * 0.9}s"
    sure, less = (found("--deadline", limit, "--confidence", c)["chosen"]["usd"] for c in ("0.9", "0.2"))
    assert less < sure


def test_weights_lie_between_the_cheapest_and_the_fastest() -> None:
    by_weight = {w: found("--weight-time", w)["chosen"] for w in ("0", "0.5", "1")}
    assert by_weight["0"] == found()["chosen"]
    assert by_weight["1"] == found("--goal", "fastest")["chosen"]
    assert by_weight["1"]["seconds"] <= by_weight["0.5"]["seconds"] <= by_weight["0"]["seconds"]
    assert by_weight["0"]["usd"] <= by_weight["0.5"]["usd"] <= by_weight["1"]["usd"]


def test_what_cannot_be_had_is_an_answer_with_the_limit_that_would_do() -> None:
    result = run("--deadline", "1s")
    assert isinstance(result.exception, Infeasible)
    assert result.exception.exit_code == 3
    suggested = str(result.exception).rpartition("--deadline ")[2].split(".")[0].split()[0]
    assert found("--deadline", suggested)["chosen"]


def test_the_front_has_the_fastest_the_cheapest_and_a_knee() -> None:
    plan = found()
    seconds, usd = ([e[name] for e in plan["front"]] for name in ("seconds", "usd"))
    assert seconds == sorted(seconds)
    assert usd == sorted(usd, reverse=True)
    assert usd[-1] == plan["chosen"]["usd"]
    assert plan["knee"] in plan["front"]
    shown = run().stdout
    assert "on the Pareto front" in shown
    assert "◆" in shown


def test_only_what_is_asked_for_is_chosen_from() -> None:
    plan = found("--only", "provider=gcp", "--only", "gpu=a100", "--all")
    assert {(e["provider"], e["gpu"]) for e in plan["estimates"]} == {("gcp", "A100")}
    assert found("--only", "gpu-gib=75")["chosen"]["memory_available_gib"] >= 75
    assert found("--only", "region=us-east-2")["chosen"]["region"] == "us-east-2"
    assert found("--only", "machine=g5.xlarge")["chosen"]["machine"] == "g5.xlarge"


def test_other_batch_sizes_take_part_with_the_epochs_that_they_need() -> None:
    plan = found("--all")
    assert {e["batch_size"] for e in plan["estimates"]} == {16, 32, 64, 128, 256}
    epochs = {e["batch_size"]: (e["epochs"], e["epochs_low"], e["epochs_high"]) for e in plan["estimates"]}
    assert epochs[64] == (300, 300, 300)
    assert epochs[256][0] > 300
    assert epochs[256][1] < epochs[256][0] < epochs[256][2]
    assert {e["batch_size"] for e in found("--batch", "64", "--all")["estimates"]} == {64}
    stated = found("--batch", "200")["chosen"]
    assert (stated["batch_size"], stated["epochs"], stated["epochs_high"]) == (200, 300, 300)


def test_without_a_way_to_set_it_the_batch_size_stays_unless_any_is_asked_for() -> None:
    with open_history(read_settings().store) as history:
        history.add_profile(traced(id="pbare", program=make_program(command=("python", "train.py"))))
    assert {e["batch_size"] for e in found("pbare", "--all")["estimates"]} == {64}
    assert len({e["batch_size"] for e in found("pbare", "--batch", "any", "--all")["estimates"]}) == 5


def test_clusters_take_part_where_they_are_asked_for() -> None:
    alone, together = found("--all"), found("--nodes", "4", "--quota", "aws=8", "--all")
    assert {e["nodes"] for e in alone["estimates"]} == {1}
    assert {e["nodes"] for e in together["estimates"]} == {1, 2, 4}
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "aws") <= 8
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "gcp") > 8


def test_a_baseline_is_held_against_it() -> None:
    assert any("g4dn.xlarge" in reason and "Δ" in reason for reason in found("--baseline", "g4dn.xlarge")["reasons"])


def test_what_is_drawn_is_written_before_the_answer(tmp_path: Path) -> None:
    picture, page = tmp_path / "fare.svg", tmp_path / "all.html"
    assert run("--plot", str(picture)).exit_code == 0
    assert found()["chosen"]["machine"] in picture.read_text()
    assert run("--plot", str(page), "--view", "all").exit_code == 0
    assert page.stat().st_size > 10_000


def test_a_recommendation_draws_itself_in_a_notebook() -> None:
    bundle = trainfare.recommend(epochs=5).figure("epochs")._repr_mimebundle_()
    assert {"application/vnd.vegalite.v5+json", "image/png"} <= set(bundle)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--deadline", "soon"), "not a duration"),
        (("--budget", "-1"), "positive"),
        (("--weight-time", "2"), "from 0, the cheapest, to 1"),
        (("--weight-time", "1", "--goal", "fastest"), "one of them"),
        (("--confidence", "1"), "between 0 and 1"),
        (("--target", "accuracy=0.9"), "give one of them"),
        (("--only", "gpus=A100"), "Did you mean gpu?"),
        (("--only", "gpu=A1000"), "Did you mean A100?"),
        (("--only", "gpu-gib=many"), "a number of GiB"),
        (("--only", "provider"), "needs a name"),
        (("--quota", "A100"), "as A100=8"),
        (("--quota", "A1000=3"), "Did you mean A100?"),
        (("--batch", "large"), "or any"),
        (("--batch", "0"), "or any"),
        (("--nodes", "0"), "at least 1"),
        (("--early", "loss"), "loss=0.5@2h"),
        (("--baseline", "g4dn.xlarg"), "Did you mean aws/g4dn.xlarge?"),
        (("--plot", "fare.pdf"), ".html, .png, .svg or .json"),
        (("--plot", "nowhere/fare.png"), "no folder"),
        (("--only", "yours"), "none is what --only"),
    ],
)
def test_what_is_asked_wrongly_is_said(arguments: tuple[str, ...], words: str) -> None:
    assert words in error(*arguments)


def test_a_target_that_nobody_can_foresee_is_not_guessed() -> None:
    result = CliRunner().invoke(app, ["recommend", "--target", "accuracy=0.9"])
    assert isinstance(result.exception, AskedWrongly | Infeasible | NotFound)

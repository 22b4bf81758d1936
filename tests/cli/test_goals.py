"""What `trainfare recommend` looks for, within which limits, and what it chooses from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import trainfare
from tests.makers import make_profile, make_program
from trainfare.cli.console import out
from trainfare.cli.main import app
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.model.profile import Epoch, Profile
from trainfare.settings import read_settings
from trainfare.store.open import open_history

COMMAND = make_program(command=("python", "train.py", "--batch-size", "64"))


@pytest.fixture(autouse=True)
def _kept() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(traced())


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
    assert isinstance(result.exception, UsageError | InfeasibleError), result.exception
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
    assert isinstance(result.exception, InfeasibleError)
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
    assert epochs[16][0] == 300, "fewer may do, but nobody asked for fewer"
    assert epochs[16][1] < 300
    assert {e["batch_size"] for e in found("--batch", "64", "--all")["estimates"]} == {64}
    stated = found("--batch", "200")["chosen"]
    assert (stated["batch_size"], stated["epochs"], stated["epochs_high"]) == (200, 300, 300)


def test_without_a_way_to_set_it_the_batch_size_stays_unless_any_is_asked_for() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(traced(id="pbare", program=make_program(command=("python", "train.py"))))
    assert {e["batch_size"] for e in found("pbare", "--all")["estimates"]} == {64}
    assert len({e["batch_size"] for e in found("pbare", "--batch", "any", "--all")["estimates"]}) == 5


def test_clusters_take_part_where_they_are_asked_for() -> None:
    alone, together = found("--all"), found("--nodes", "4", "--quota", "aws=8", "--all")
    assert {e["nodes"] for e in alone["estimates"]} == {1}
    assert {e["nodes"] for e in together["estimates"]} == {1, 2, 4}
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "aws") <= 8
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "gcp") > 8


def test_spot_that_is_not_asked_for_is_told_of_where_the_machine_is_at_its_best() -> None:
    told = [e for e in found("--all")["estimates"] if e["market"] == "spot"]
    asked = [e for e in found("--all", "--spot")["estimates"] if e["market"] == "spot"]
    assert {e["machine"] for e in told} == {e["machine"] for e in asked}
    assert len(told) < len(asked) / 2
    cheapest = min(e["usd"] for e in asked if e["fits"])
    assert min(e["usd"] for e in told if e["fits"]) <= 1.1 * cheapest


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


def test_a_view_that_is_not_there_is_said() -> None:
    with pytest.raises(NotFoundError, match="there is no view epoch"):
        trainfare.recommend(epochs=3).figure("epoch")  # type: ignore[arg-type]  # as somebody types it


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
        (("--view", "epochs"), "--plot FILE --view epochs"),
        (("--only", "yours"), "none is what --only"),
    ],
)
def test_what_is_asked_wrongly_is_said(arguments: tuple[str, ...], words: str) -> None:
    assert words in error(*arguments)


def test_a_target_that_nobody_can_foresee_is_not_guessed() -> None:
    result = CliRunner().invoke(app, ["recommend", "--target", "accuracy=0.9"])
    assert isinstance(result.exception, UsageError | InfeasibleError | NotFoundError)


def curved(**changes: Any) -> Profile:
    """With a curve that comes to an accuracy of 0.93."""
    curve = tuple(Epoch(number=i, metrics={"val_accuracy": 0.93 - 0.6 * 0.8**i}) for i in range(1, 13))
    return traced(**({"id": "pcurve", "curve": curve} | changes))


def keep(profile: Profile) -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(profile)


def test_a_batch_size_that_is_named_twice_is_one() -> None:
    once, twice = found("--batch", "128"), found("--batch", "128", "--batch", "128")
    assert (twice["considered"], twice["chosen"]) == (once["considered"], once["chosen"])


def test_any_batch_size_and_one_more() -> None:
    plan = found("--batch", "any", "--batch", "200", "--all")
    assert {e["batch_size"] for e in plan["estimates"]} == {16, 32, 64, 128, 200, 256}


def test_a_batch_size_means_nothing_where_nobody_knows_the_profiled_one() -> None:
    keep(traced(id="pbare", micro_batch_size=None, samples=None))
    assert "nobody knows the batch size of profile pbare" in error("pbare", "--batch", "64")


def test_epochs_of_other_batch_sizes_are_told_in_words_that_fit() -> None:
    smaller = "\n".join(found("--batch", "16", "--batch", "17")["reasons"])
    assert "at batch size 17 instead of 64" in smaller or "at batch size 16 instead of 64" in smaller
    assert "larger batches can lose accuracy" not in smaller
    larger = "\n".join(found("--batch", "256", "--batch", "255")["reasons"])
    assert "; larger batches can lose accuracy" in larger
    one = CliRunner().invoke(app, ["recommend", "--epochs", "1", "--batch", "128", "--batch", "127"]).stdout
    assert "1 epochs" not in one


def test_what_wins_at_other_numbers_of_epochs_does_not_win_at_this_one() -> None:
    """Each batch size takes epochs of its own, so machines are held against each other at that of the chosen one."""
    keep(traced(id="plarge", parameters=3_000_000_000, optimizer_bytes=24_000_000_000, activation_bytes=12 * 10**9))
    for epochs in (2, 10, 40, 300):
        result = CliRunner().invoke(app, ["recommend", "plarge", "--epochs", str(epochs), "--json"])
        plan = json.loads(result.stdout)
        told = "\n".join(plan["reasons"])
        assert all(int(n) > plan["epochs"] for n in re.findall(r"from (\d+) epochs on", told))
        assert all(int(n) < plan["epochs"] for n in re.findall(r"with (\d+) epochs? ?(?:or fewer)?", told))


def test_a_target_that_is_there_after_one_epoch() -> None:
    keep(curved())
    text = CliRunner().invoke(app, ["recommend", "pcurve", "--target", "val_accuracy=0.4", "--json"]).stdout
    reasons = "\n".join(json.loads(text)["reasons"])
    assert "1 epoch is expected: " in reasons
    assert "1 – 1" not in reasons


def test_what_is_wanted_too_early_is_said_with_its_numbers() -> None:
    keep(curved())
    told = error("pcurve", "--early", "val_accuracy=0.9@1min")
    assert told.startswith("no machine alone has val_accuracy at 0.9 within 1 min with 90 % confidence, and no two")


def test_spot_machines_are_no_legs_under_a_deadline() -> None:
    """How long one waits for the next is in the risk of a single machine, and not in the time of a leg."""
    free = found("--spot", "--goal", "cheapest")["chosen"]
    for factor in (0.6, 0.8, 1.1, 1.5):
        arguments = ("--spot", "--legs", "--deadline", f"{factor * free['seconds_high']}s")
        result = run(*arguments, "--json")
        legs = json.loads(result.stdout)["legs"] if result.exit_code == 0 else None
        assert all(leg["market"] != "spot" for leg in (legs or {"legs": []})["legs"])


def test_machines_without_a_gpu_are_not_called_a_lack_of_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text("[half]\nslice = true\nusd_per_hour = 0.02\nvcpus = 0.5\n")
    monkeypatch.setenv("TRAINFARE_MACHINES", str(tmp_path / "mine.toml"))
    assert "trainfare profile --on local/half -- python train.py" in error("--only", "provider=local")


def test_one_iteration_is_not_called_a_lack_of_operations() -> None:
    keep(traced(id="pone", iteration_seconds=(1.0,)))
    assert "profile pone saw only its first iteration" in error("pone")


@pytest.fixture
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal so wide."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    out.cache_clear()
    yield request.param
    out.cache_clear()


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200], indirect=True)
def test_machine_time_and_cost_are_in_the_table_however_narrow(columns: int) -> None:
    lines = run("--nodes", "4").stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if {"machine", "time", "cost"} <= set(line.split()))
    assert max(len(line.rstrip()) for line in lines[head:]) <= columns
    assert lines[head + 1].startswith("✔")
    assert "…" not in lines[head + 1]
    assert columns < 100 or all("$" in line for line in lines[head + 1 : head + 9])  # no name is folded

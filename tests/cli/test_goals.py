"""`trainfare recommend`: goals, limits, and the candidates to choose from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import trainfare
from tests.cli import commands
from tests.cli.commands import store, terminal
from tests.makers import make_profile, make_program
from trainfare.errors import InfeasibleError, NotFoundError, TrainfareError, UsageError
from trainfare.model.interval import Interval
from trainfare.model.profile import Epoch, Profile

COMMAND = make_program(command=("python", "train.py", "--batch-size", "64"))


@pytest.fixture(autouse=True)
def _stored() -> None:
    store(traced())


def traced(**changes: Any) -> Profile:
    """A program whose operations are known, with a batch size that its command sets."""
    return make_profile(**({"activation_bytes": 50_000_000, "samples": 6400, "program": COMMAND} | changes))


def run(*arguments: object) -> Result:
    return commands.run("recommend", "--epochs", 300, *arguments)


def found(*arguments: object) -> dict[str, Any]:
    plan: dict[str, Any] = commands.read_json("recommend", "--epochs", 300, *arguments)
    return plan


def error(*arguments: object) -> TrainfareError:
    return commands.error_of("recommend", "--epochs", 300, *arguments)


def complaint(*arguments: object) -> str:
    return commands.complaint("recommend", "--epochs", 300, *arguments)


def bound(estimate: dict[str, Any], quantity: str) -> float:
    """The bound that holds with 90%."""
    ends = {end: estimate[f"{quantity}{suffix}"] for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high"))}
    return Interval(**ends).upper_bound(0.9)


def test_a_deadline_is_met_with_its_confidence_by_the_cheapest() -> None:
    free = found()
    limit = bound(free["chosen"], "seconds") * 0.9
    plan = found("--deadline", f"{limit}s", "--all")
    assert (plan["goal"], bound(plan["chosen"], "seconds") <= limit) == ("cheapest", True)
    steady = [e for e in plan["estimates"] if e["fits"] is not False and e["market"] == "on_demand"]
    in_time = [e["usd"] for e in steady if bound(e, "seconds") <= limit]
    assert free["chosen"]["usd"] < plan["chosen"]["usd"] == min(in_time)


def test_within_a_budget_the_fastest_is_chosen() -> None:
    limit = 3 * found()["chosen"]["usd_high"]
    plan = found("--budget", str(limit))
    assert (plan["goal"], bound(plan["chosen"], "usd") <= limit) == ("fastest", True)
    assert plan["budget_usd"] == limit


def test_less_confidence_allows_a_cheaper_machine() -> None:
    limit = f"{bound(found()['chosen'], 'seconds') * 0.9}s"
    usual, less = (found("--deadline", limit, "--confidence", c)["chosen"]["usd"] for c in ("0.9", "0.2"))
    assert less < usual


def test_a_weight_of_time_gives_a_result_between_the_cheapest_and_the_fastest() -> None:
    by_weight = {w: found("--weight-time", w)["chosen"] for w in ("0", "0.5", "1")}
    assert by_weight["0"] == found()["chosen"]
    assert by_weight["1"] == found("--goal", "fastest")["chosen"]
    assert by_weight["1"]["seconds"] <= by_weight["0.5"]["seconds"] <= by_weight["0"]["seconds"]
    assert by_weight["0"]["usd"] <= by_weight["0.5"]["usd"] <= by_weight["1"]["usd"]


def test_an_impossible_deadline_suggests_one_that_is_met() -> None:
    failure = error("--deadline", "1s")
    assert isinstance(failure, InfeasibleError)
    assert failure.exit_code == 3
    suggested = failure.remedies[0].arguments["deadline"]
    assert f"`--deadline {suggested}`" in complaint("--deadline", "1s")
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


def test_only_restricts_the_candidates() -> None:
    plan = found("--only", "provider=gcp", "--only", "gpu=a100", "--all")
    assert {(e["provider"], e["gpu"]) for e in plan["estimates"]} == {("gcp", "A100")}
    assert found("--only", "gpu-gib=75")["chosen"]["memory_available_gib"] >= 75
    assert found("--only", "region=us-east-2")["chosen"]["region"] == "us-east-2"
    assert found("--only", "machine=g5.xlarge")["chosen"]["machine"] == "g5.xlarge"


def test_other_batch_sizes_are_considered_with_their_own_epochs() -> None:
    plan = found("--all")
    assert {e["batch_size"] for e in plan["estimates"]} == {16, 32, 64, 128, 256}
    epochs = {e["batch_size"]: (e["epochs"], e["epochs_low"], e["epochs_high"]) for e in plan["estimates"]}
    assert epochs[64] == (300, 300, 300)
    assert epochs[256][0] == 300, "without evidence the epochs stay"
    assert epochs[256][1] <= 300 < epochs[256][2]
    assert epochs[16][0] == 300, "fewer may be enough, but 300 were requested"
    assert epochs[16][1] < 300
    assert {e["batch_size"] for e in found("--batch", "64", "--all")["estimates"]} == {64}
    stated = found("--batch", "200")["chosen"]
    assert (stated["batch_size"], stated["epochs"], stated["epochs_high"]) == (200, 300, 300)


def test_a_batch_size_that_the_command_does_not_set_is_fixed_unless_any_is_given() -> None:
    store(traced(id="pbare", program=make_program(command=("python", "train.py"))))
    assert {e["batch_size"] for e in found("pbare", "--all")["estimates"]} == {64}
    assert len({e["batch_size"] for e in found("pbare", "--batch", "any", "--all")["estimates"]}) == 5


def test_nodes_and_quotas_limit_clusters() -> None:
    alone, together = found("--all"), found("--nodes", "4", "--quota", "aws=8", "--all")
    assert {e["nodes"] for e in alone["estimates"]} == {1}
    assert {e["nodes"] for e in together["estimates"]} == {1, 2, 4}
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "aws") <= 8
    assert max(e["gpus"] for e in together["estimates"] if e["provider"] == "gcp") > 8


def test_without_the_option_spot_is_estimated_only_at_the_best_size_of_each_machine() -> None:
    listed = [e for e in found("--all")["estimates"] if e["market"] == "spot"]
    considered = [e for e in found("--all", "--spot")["estimates"] if e["market"] == "spot"]
    assert {e["machine"] for e in listed} == {e["machine"] for e in considered}
    assert len(listed) < len(considered) / 2
    cheapest = min(e["usd"] for e in considered if e["fits"])
    assert min(e["usd"] for e in listed if e["fits"]) <= 1.1 * cheapest


def test_a_baseline_is_compared() -> None:
    assert any("g4dn.xlarge" in reason and "Δ" in reason for reason in found("--baseline", "g4dn.xlarge")["reasons"])


def test_figures_are_written(tmp_path: Path) -> None:
    picture, page = tmp_path / "fare.svg", tmp_path / "all.html"
    assert run("--plot", picture).exit_code == 0
    assert found()["chosen"]["machine"] in picture.read_text()
    assert run("--plot", page, "--view", "all").exit_code == 0
    assert page.stat().st_size > 10_000


def test_a_recommendation_draws_itself_in_a_notebook() -> None:
    bundle = trainfare.recommend(epochs=5).figure("epochs")._repr_mimebundle_()
    assert {"application/vnd.vegalite.v5+json", "image/png"} <= set(bundle)


def test_an_unknown_view_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="there is no view epoch"):
        trainfare.recommend(epochs=3).figure("epoch")  # type: ignore[arg-type] # the wrong argument is what is tested


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--deadline", "soon"), "--deadline: 'soon' is not a duration"),
        (("--budget", "-1"), "--budget: must be a positive number"),
        (("--weight-time", "2"), "--weight-time: must lie between 0 (cheapest) and 1 (fastest)"),
        (("--weight-time", "1", "--goal", "fastest"), "--weight-time: "),
        (("--confidence", "1"), "--confidence: must lie between 0 and 1"),
        (("--target", "accuracy=0.9"), "--epochs: "),
        (("--target", "accuracy"), "--target: takes a metric and its value"),
        (("--only", "gpus=A100"), "Did you mean gpu?"),
        (("--only", "gpu=A1000"), "Did you mean A100?"),
        (("--only", "gpu-gib=many"), "--only: gpu-gib takes a number of GiB"),
        (("--only", "provider"), "--only: provider needs a name"),
        (("--quota", "A100"), "--quota: takes a name and a number, such as A100=8"),
        (("--quota", "A1000=3"), "Did you mean A100?"),
        (("--batch", "large"), "--batch: takes a whole number of samples, or `any`"),
        (("--batch", "0"), "--batch: takes a whole number of samples, or `any`"),
        (("--nodes", "0"), "--nodes: must be at least 1"),
        (("--early", "loss"), "--early: takes a metric, its value and a time, such as loss=0.5@2h"),
        (("--early", "loss=0.5@soon"), "--early: 'soon' is not a duration"),
        (("--baseline", "g4dn.xlarg"), "Did you mean aws/g4dn.xlarge?"),
        (("--plot", "fare.pdf"), ".html, .png, .svg or .json"),
        (("--plot", "nowhere/fare.png"), "no folder"),
        (("--view", "epochs"), "--view: "),
        (("--only", "yours"), "machines.toml"),
    ],
)
def test_a_wrong_argument_is_explained(arguments: tuple[str, ...], message: str) -> None:
    assert isinstance(error(*arguments), UsageError | InfeasibleError)
    assert message in complaint(*arguments)


def test_a_target_that_cannot_be_predicted_is_an_error() -> None:
    failure = commands.error_of("recommend", "--target", "accuracy=0.9")
    assert isinstance(failure, UsageError | InfeasibleError)


def curved(**changes: Any) -> Profile:
    """A profile with a curve that converges to an accuracy of 0.93."""
    curve = tuple(Epoch(number=i, metrics={"val_accuracy": 0.93 - 0.6 * 0.8**i}) for i in range(1, 13))
    return traced(**({"id": "pcurve", "curve": curve} | changes))


def test_a_batch_size_that_is_given_twice_counts_once() -> None:
    once, twice = found("--batch", "128"), found("--batch", "128", "--batch", "128")
    assert (twice["considered"], twice["chosen"]) == (once["considered"], once["chosen"])


def test_any_can_be_combined_with_a_batch_size() -> None:
    plan = found("--batch", "any", "--batch", "200", "--all")
    assert {e["batch_size"] for e in plan["estimates"]} == {16, 32, 64, 128, 200, 256}


def test_other_batch_sizes_need_a_profile_with_a_batch_size() -> None:
    store(traced(id="pbare", micro_batch_size=None, samples=None))
    failure = error("pbare", "--batch", "64")
    assert isinstance(failure, UsageError)
    assert failure.field == "batch_sizes"
    assert "pbare" in failure.message


def test_sentences_about_epochs_agree_with_the_batch_size() -> None:
    smaller = "\n".join(found("--batch", "16", "--batch", "17")["reasons"])
    assert "at batch size 17 instead of 64" in smaller or "at batch size 16 instead of 64" in smaller
    assert "larger batches can lose accuracy" not in smaller
    larger = "\n".join(found("--batch", "256", "--batch", "255")["reasons"])
    assert "; larger batches can lose accuracy" in larger
    one = commands.succeed("recommend", "--epochs", 1, "--batch", 128, "--batch", 127).stdout
    assert "1 epochs" not in one


def test_the_chosen_machine_wins_at_the_requested_number_of_epochs() -> None:
    """Each batch size needs its own number of epochs, so machines are compared at that of the chosen one."""
    store(traced(id="plarge", parameters=3_000_000_000, optimizer_bytes=24_000_000_000, activation_bytes=12 * 10**9))
    for epochs in (2, 10, 40, 300):
        plan = commands.read_json("recommend", "plarge", "--epochs", epochs)
        text = "\n".join(plan["reasons"])
        assert all(int(n) > plan["epochs"] for n in re.findall(r"with (\d+) epochs or more", text))
        assert all(int(n) < plan["epochs"] for n in re.findall(r"with (\d+) epochs? or fewer", text))


def test_a_target_that_is_reached_after_one_epoch() -> None:
    store(curved())
    reasons = "\n".join(commands.read_json("recommend", "pcurve", "--target", "val_accuracy=0.4")["reasons"])
    assert "1 epoch is expected: " in reasons
    assert "1 – 1" not in reasons


def test_an_early_target_that_cannot_be_reached_is_infeasible() -> None:
    store(curved())
    failure = error("pcurve", "--early", "val_accuracy=0.9@1min")
    assert isinstance(failure, InfeasibleError)
    assert "val_accuracy 0.9 within 1 min with 90% confidence" in failure.message


def test_a_split_under_a_deadline_uses_no_spot_machine() -> None:
    """The wait for the next spot machine is part of the risk of a single machine, not of the time of a segment."""
    free = found("--spot", "--goal", "cheapest")["chosen"]
    for factor in (0.6, 0.8, 1.1, 1.5):
        limit = f"{factor * free['seconds_high']}s"
        result = run("--spot", "--split", "--deadline", limit, "--only", "provider=aws", "--json")
        split = json.loads(result.stdout)["legs"] if result.exit_code == 0 else None
        assert all(segment["market"] != "spot" for segment in (split or {"legs": []})["legs"])


def test_machines_without_a_gpu_need_a_profile_on_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text("[half]\nslice = true\nusd_per_hour = 0.02\nvcpus = 0.5\n")
    monkeypatch.setenv("TRAINFARE_MACHINES", str(tmp_path / "mine.toml"))
    assert "`trainfare profile --on local/half -- python train.py --batch-size 64`" in complaint(
        "--only", "provider=local"
    )


def test_a_profile_of_one_iteration_is_not_enough() -> None:
    store(traced(id="pone", iteration_seconds=(1.0,)))
    assert "only the first iteration" in complaint("pone")
    assert "trainfare profile --iterations " in complaint("pone")


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_machine_time_and_cost_are_in_the_table_at_any_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(columns, monkeypatch):
        lines = run("--nodes", "4").stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if {"machine", "time", "cost"} <= set(line.split()))
    assert max(len(line.rstrip()) for line in lines[head:]) <= columns
    assert lines[head + 1].startswith("✔")
    assert "…" not in lines[head + 1]
    assert columns < 100 or all("$" in line for line in lines[head + 1 : head + 9])  # no name is folded

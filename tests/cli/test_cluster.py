"""`trainfare cluster`: the workers of a parameter server."""

import json

import pytest

from tests.cli.commands import complaint, error_of, store, succeed
from tests.makers import make_profile
from trainfare.errors import InfeasibleError, NotFoundError, TrainfareError, UsageError
from trainfare.model.machine import Host

SERVER = ("--server", "m4.large=0.125", "--server-mbps", "450")
WORKERS = ("--worker", "m4.xlarge=0.25", "--worker", "t2.xlarge=0.2336", "--worker", "c4.xlarge=0.231")
MBPS = (
    "--mbps-per-worker",
    "m4.xlarge=120",
    "--mbps-per-worker",
    "t2.xlarge=180",
    "--mbps-per-worker",
    "c4.xlarge=110",
)


def run(*flags: str) -> str:
    return succeed("cluster", *flags).stdout


def found(*flags: str) -> tuple[str, int]:
    record = json.loads(run(*flags, "--json"))
    return record["worker"], record["workers"]


def test_the_four_algorithms_have_different_answers() -> None:
    six = (*SERVER, *WORKERS, "--max-workers", "6")
    assert found("--algorithm", "cost-opt", *six) == ("c4.xlarge", 6)
    assert found("--algorithm", "time-opt", *six) == ("m4.xlarge", 6)
    assert found("--algorithm", "scala-opt", *six, *MBPS) == ("t2.xlarge", 2)
    mine = ("--worker", "c4.xlarge=0.231", "--mbps-per-worker", "110", "--max-workers", "6")
    assert found("--algorithm", "scala-opt-m", *SERVER, *mine) == ("c4.xlarge", 3)


def test_a_budget_is_for_the_server_and_all_workers() -> None:
    record = json.loads(run(*SERVER, *WORKERS, "--algorithm", "cost-opt", "--budget-per-hour", "2", "--json"))
    assert record["workers"] == 8
    assert record["usd_per_hour"] == pytest.approx(0.125 + 8 * 0.231)


def test_the_answer_comes_first_then_why_then_every_type() -> None:
    shown = run(*SERVER, *WORKERS, *MBPS, "--budget-per-hour", "2")
    assert shown.startswith("Take  2 × t2.xlarge  behind  m4.large:")
    assert "one t2.xlarge sends 180 Mbps" in shown
    assert all(name in shown for name in ("m4.xlarge", "c4.xlarge"))


def test_a_catalog_machine_needs_no_price() -> None:
    record = json.loads(
        run(*SERVER, "--worker", "aws/g4dn.xlarge", "--mbps-per-worker", "90", "--max-workers", "9", "--json")
    )
    assert record["workers"] == 4
    assert record["worker_usd_per_hour"] == pytest.approx(0.526, rel=0.2)


def test_the_server_with_the_fastest_network_is_chosen() -> None:
    shown = run(
        *("--server", "small=0.1", "--server", "large=1", "--server-mbps", "small=450", "--server-mbps", "large=1000"),
        *("--worker", "w=0.2", "--mbps-per-worker", "90", "--budget-per-hour", "9"),
    )
    assert shown.startswith("Take  10 × w  behind  large:")


def store_t4_profile(**changes: object) -> None:
    store(make_profile(host=Host(name="rented", vm_type="aws/g4dn.xlarge"), **changes))


def test_the_traffic_of_a_worker_is_read_from_its_profile() -> None:
    """1.25 MB each 0.1 s are 100 Mbps: four fit in 0.95 × 450."""
    store_t4_profile(world_size=2, sent_bytes=1_250_000, received_bytes=1_000_000)
    record = json.loads(run(*SERVER, "--profile", "p7k2", "--max-workers", "9", "--json"))
    assert record["worker"] == "aws/g4dn.xlarge"
    assert record["worker_mbps"] == pytest.approx(100)
    assert record["workers"] == 4


def test_a_profile_without_a_server_sends_its_gradient_once_per_iteration() -> None:
    """400 kB each 0.1 s + 2 × 400 kB at 450 Mbps."""
    store_t4_profile()
    record = json.loads(run(*SERVER, "--profile", "p7k2", "--max-workers", "9", "--json"))
    assert record["worker_mbps"] == pytest.approx(8 * 0.4 / (0.1 + 2 * 0.4 * 8 / 450))


@pytest.mark.parametrize(
    ("flags", "error", "words"),
    [
        ((*WORKERS, "--max-workers", "6"), UsageError, "a parameter server is needed"),
        ((*SERVER, "--max-workers", "6"), UsageError, "at least one type of worker"),
        ((*SERVER, *WORKERS, *MBPS), UsageError, "`--budget-per-hour 2` or `--max-workers 6`"),
        ((*SERVER, *WORKERS, "--max-workers", "6"), UsageError, "--mbps-per-worker m4.xlarge=N"),
        (("--algorithm", "scala"), NotFoundError, "Did you mean scala-opt"),
        (("--server", "ps=0.1", *WORKERS, *MBPS, "--max-workers", "6"), UsageError, "--server-mbps ps=N"),
        ((*SERVER, "--worker", "g4dn.xlrge", "--max-workers", "6"), UsageError, "Did you mean g4dn.xlarge"),
        ((*SERVER, "--worker", "t2.xlarge", "--max-workers", "6"), UsageError, "--worker t2.xlarge=0.2336"),
        ((*SERVER, "--worker", "w=cheap", "--max-workers", "6"), UsageError, "takes a positive number, not 'cheap'"),
        (
            (*SERVER, *WORKERS, *MBPS, "--mbps-per-worker", "t3.xlarge=9", "--max-workers", "6"),
            NotFoundError,
            "no worker t3.xlarge. Did you mean t2.xlarge",
        ),
        (
            (*SERVER, *WORKERS, *MBPS, "--algorithm", "scala-opt-m", "--max-workers", "6"),
            UsageError,
            "exactly one type of worker",
        ),
        ((*SERVER, *WORKERS, *MBPS, "--budget-per-hour", "0.2"), InfeasibleError, "which cost $0.36"),
        ((*SERVER, *WORKERS, *MBPS, "--max-workers", "6", "--fill", "1.5"), UsageError, "--fill"),
    ],
)
def test_a_wrong_argument_is_an_error_that_says_what_to_do(
    flags: tuple[str, ...], error: type[TrainfareError], words: str
) -> None:
    assert isinstance(error_of("cluster", *flags), error)
    assert words in complaint("cluster", *flags)


def test_a_profile_without_a_machine_type_is_no_worker() -> None:
    store(make_profile())
    with pytest.raises(UsageError, match="machine type of profile p7k2 is not known"):
        run(*SERVER, "--profile", "p7k2", "--max-workers", "6")


BIG = ("--server", "ps=0.5", "--server-mbps", "10000")


def compared(*flags: str) -> dict[str, dict[str, object]]:
    record = json.loads(run(*BIG, "--max-workers", "6", "--epochs", "50", "--profile", "p7k2", *flags, "--json"))
    return {each["by"]: each for each in record["rated"]}


def test_with_a_profile_the_choices_of_fc2_are_compared_with_ours() -> None:
    store_t4_profile()
    found = compared("--worker", "g4dn.xlarge", "--worker", "g5.xlarge")
    assert list(found)[:4] == ["cost-opt", "time-opt", "scala-opt", "scala-opt-m"]
    ours = next(each for name, each in found.items() if name.startswith("ours, cheapest"))
    for each in found.values():
        assert each["usd"] == pytest.approx(each["usd_per_hour"] * each["seconds"] / 3600)  # type: ignore[operator] # JSON has numbers here
        assert each["usd"] >= ours["usd"]  # type: ignore[operator] # JSON has numbers here
        assert each["seconds"] >= found.get("ours, fastest", ours)["seconds"]  # type: ignore[operator] # JSON has numbers here
    assert ours["over_cheapest"] == 0


def test_the_traffic_of_types_without_a_profile_is_predicted() -> None:
    store_t4_profile()
    record = json.loads(run(*BIG, "--profile", "p7k2", "--worker", "g5.xlarge", "--max-workers", "6", "--json"))
    assert record["worker_mbps"] > 0


def test_a_profile_of_any_machine_predicts_for_workers_that_are_named() -> None:
    store(make_profile())
    shown = run(*BIG, "--profile", "p7k2", "--worker", "g5.xlarge", "--max-workers", "6", "--epochs", "20")
    assert "By predicted time and cost of 20 epochs" in shown
    assert "ours, cheapest" in shown
    assert "each worker keeps its batch size of 64" in shown


def test_a_type_without_a_prediction_is_named() -> None:
    store_t4_profile()
    shown = run(
        *(*BIG, "--profile", "p7k2", "--worker", "g5.xlarge", "--worker", "mine=0.4", "--mbps-per-worker", "90"),
        *("--max-workers", "6", "--epochs", "20"),
    )
    assert "no time is predicted for mine" in shown


def test_without_the_length_of_an_epoch_only_fc2_answers() -> None:
    store_t4_profile(iterations_per_epoch=None, samples=None)
    shown = run(*BIG, "--profile", "p7k2", "--max-workers", "6")
    assert shown.startswith("Take  6 × aws/g4dn.xlarge")
    assert "times are not predicted" in shown
    assert "--iterations-per-epoch" in shown
    with pytest.raises(UsageError, match="iterations in an epoch"):
        run(*BIG, "--profile", "p7k2", "--max-workers", "6", "--epochs", "5")


def test_without_a_profile_nothing_is_predicted() -> None:
    record = json.loads(run(*SERVER, *WORKERS, *MBPS, "--max-workers", "6", "--json"))
    assert (record["rated"], record["epochs"], record["remarks"]) == ([], None, [])


def test_nodes_that_share_this_machine_have_no_network_to_measure() -> None:
    said = complaint("cluster", "--measure", "--on", "local/here", "--max-workers", "2", "--", "python", "train.py")
    assert "nodes of local/here share this machine: there is no network between them." in said

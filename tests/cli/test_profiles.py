"""`trainfare profiles`: list, show, remove and import stored profiles."""

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.commands import error_of, succeed
from tests.makers import NOON, make_profile, make_program
from trainfare.cli.cards.profile import card_lines, iteration_time
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.machine import Host
from trainfare.store.logs import save_log
from trainfare.store.open import open_history


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with two profiles."""
    store = str(tmp_path / "history.db")
    monkeypatch.setenv("TRAINFARE_STORE", store)
    with open_history(store) as history:
        history.profiles.add(make_profile())
        rented = Host(name="ip-10-0-0-1", vm_type="aws/g4dn.xlarge")
        history.profiles.add(make_profile(id="p9", host=rented, measured_at=NOON - timedelta(days=9)))
    return store


def printed(*arguments: str, stdin: str | None = None) -> str:
    return succeed("profiles", *arguments, stdin=stdin).stdout


def test_list_names_notebooks_and_tells_programs_of_one_name_apart(store: str) -> None:
    kernel = ("python", "-m", "ipykernel_launcher", "-f", "/run/kernel-1.json")
    with open_history(store) as history:
        history.profiles.add(make_profile(id="pa", program=make_program(directory="/home/ada/gpt")))
        history.profiles.add(make_profile(id="pb", program=make_program(command=kernel)))
        history.profiles.add(make_profile(id="pc", program=make_program(command=("jupyter", "execute", "lab.ipynb"))))
    shown = {line.split()[0]: line for line in printed("list").splitlines()}
    assert "  project/train.py  " in shown["p7k2"]
    assert "  gpt/train.py  " in shown["pa"]
    assert "  a notebook  " in shown["pb"]
    assert "  lab.ipynb  " in shown["pc"]


@pytest.mark.usefixtures("store")
def test_list_is_a_table_the_newest_first() -> None:
    header, first, second = printed("list").splitlines()
    assert header.split() == ["profile", "program", "batch", "iteration", "machine", "measured"]
    assert first.split()[:3] == ["p7k2", "train.py", "64"]
    assert "100 ms ± 3 ms" in first
    assert "laptop" in first
    assert second.startswith("p9")
    assert "aws/g4dn.xlarge" in second


@pytest.mark.usefixtures("store")
def test_list_as_json_has_what_show_prints() -> None:
    listed = json.loads(printed("list", "--json"))
    assert listed == [json.loads(printed("show", name, "--json")) for name in ("p7k2", "p9")]


def test_an_empty_store_names_the_command_that_makes_a_profile(tmp_path: Path) -> None:
    open_history(str(tmp_path / "new.db")).close()
    result = succeed("profiles", "list", "--store", tmp_path / "new.db")
    assert "trainfare profile -- python train.py" in result.stderr
    assert result.stdout == ""
    assert json.loads(printed("list", "--json", "--store", str(tmp_path / "new.db"))) == []


def test_a_damaged_profile_is_named_on_stderr_and_the_others_are_listed(store: str) -> None:
    connection = sqlite3.connect(store)
    with connection:
        connection.execute("UPDATE profiles SET document = '{' WHERE id = 'p9'")
    connection.close()
    result = succeed("profiles", "list")
    assert "note: profile p9 in" in result.stderr
    assert "p7k2" in result.stdout
    assert [record["id"] for record in json.loads(printed("list", "--json"))] == ["p7k2"]


@pytest.mark.usefixtures("store")
def test_show_prints_the_command_the_machine_and_the_card() -> None:
    command, machine, card, *_ = printed("show", "p9").splitlines()
    assert command == "p9  python train.py"
    assert machine.startswith("measured on aws/g4dn.xlarge, 2026-11-0")
    assert card.startswith("PyTorch · on CPU · 100k parameters · batch 64 · 23 iterations per epoch")


@pytest.mark.usefixtures("store")
def test_a_mistyped_id_names_the_nearest() -> None:
    error = error_of("profiles", "show", "p7kk2")
    assert isinstance(error, NotFoundError)
    assert error.near == "p7k2"


@pytest.mark.usefixtures("store")
def test_rm_without_a_terminal_needs_yes() -> None:
    with pytest.raises(UsageError, match="--yes"):
        printed("rm", "p9")
    assert len(json.loads(printed("list", "--json"))) == 2


@pytest.mark.usefixtures("store")
def test_rm_with_yes_removes() -> None:
    assert json.loads(printed("rm", "p9", "p7k2", "--yes", "--json")) == {"removed": ["p9", "p7k2"]}
    assert json.loads(printed("list", "--json")) == []


def test_a_profile_can_be_moved_to_another_store(store: str, tmp_path: Path) -> None:
    text = printed("show", "p9", "--json")
    home = str(tmp_path / "home.db")
    assert json.loads(printed("import", "-", "--json", "--store", home, stdin=text))["imported"] == "p9"
    assert printed("show", "p9", "--json", "--store", home) == text


def test_names_from_a_profile_are_not_markup(store: str) -> None:
    with open_history(store) as history:
        program = make_program(command=("python", "[bold]train[/nope].py"))
        history.profiles.add(make_profile(id="p1", program=program, host=Host(name="[red]")))
    assert "[bold]train[/nope].py" in printed("show", "p1")
    assert "[red]" in printed("list")


def test_the_card_breaks_between_facts_and_not_within_them() -> None:
    profile = make_profile(iteration_seconds=(1.9, *(0.214,) * 48))
    wide, narrow = card_lines(profile, width=160), card_lines(profile, width=60)
    assert len(wide) == 3
    assert " · ".join(narrow) == " · ".join(wide)
    assert max(map(len, narrow)) <= 75
    assert "then 214 ms ± 0 ms  ██████████████████ 48 iterations, steady" in wide[1]


def test_the_card_shows_a_trend_of_iterations() -> None:
    growing = tuple(0.1 + 0.01 * n for n in range(20))
    assert "getting slower" in card_lines(make_profile(iteration_seconds=growing), width=160)[1]
    assert "getting faster" in card_lines(make_profile(iteration_seconds=growing[::-1]), width=160)[1]


def test_the_card_shows_trained_and_all_parameters_and_the_memory_of_a_large_model() -> None:
    adapted = make_profile(
        parameters=4_194_304, frozen_parameters=1_640_000_000, weight_bytes=3 * 2**30, gradient_bytes=16 * 2**20,
        optimizer_bytes=32 * 2**20, activation_bytes=2**30,
    )  # fmt: skip
    first, *_, last = card_lines(adapted, width=400)
    assert "4.19M of 1.64G parameters are trained" in first
    assert "weights 3.0 GiB, gradients 16 MiB, optimizer state 32 MiB, activations 1.0 GiB" in last


def test_the_card_names_what_is_unknown() -> None:
    nothing_known = make_profile(
        iteration_seconds=(1.0,), operations=(), loss=(), validation_seconds=(), micro_batch_size=None, samples=None,
        iterations_per_epoch=None, init_seconds=None, parameters=None, device=None,
    )  # fmt: skip
    assert card_lines(nothing_known, width=160) == (
        "PyTorch · batch size unknown · length of an epoch unknown · number of epochs unknown",
        "first iteration 1 s · only one iteration was measured",
        "operations not traced",
    )
    assert iteration_time(nothing_known) == "–"


def test_log_prints_the_output_of_the_program(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_LOGS", str(tmp_path))
    save_log(tmp_path, "p7k2", "epoch 1\nloss 0.1\n")
    assert printed("show", "p7k2", "--log") == "epoch 1\nloss 0.1\n"
    assert json.loads(printed("show", "p7k2", "--log", "--json")) == {"profile": "p7k2", "log": "epoch 1\nloss 0.1\n"}
    assert isinstance(error_of("profiles", "show", "p9", "--log"), UsageError)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ((0.1,) * 30 + (0.01,) * 30 + (0.001,) * 30, "StepLR, drops after epochs 30, 60"),
        ((0.1,) * 30 + (0.01,) * 30, "StepLR, drops after epoch 30"),
        (tuple(0.5 ** (n // 5) for n in range(40)), "StepLR, drops after epochs 5, 10, 15, 20 …"),
        ((0.1, 0.05, 0.025), "StepLR, 0.1, 0.025 in epoch 3"),
        ((0.1, 0.2, 0.3, 0.2, 0.0), "StepLR, 0.1, up to 0.3 in epoch 3, then 0 in epoch 5"),
        ((0.1, 0.1), "StepLR, 0.1 throughout"),
    ],
)
def test_the_card_describes_the_learning_rate_schedule(plan: tuple[float, ...], words: str) -> None:
    profile = make_profile(learning_rate_schedule="StepLR", learning_rate_plan=plan)
    assert f"learning rate: {words}" in " · ".join(card_lines(profile, width=300)).split(" · ")

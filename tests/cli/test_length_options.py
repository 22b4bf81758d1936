"""The options that state how long a training is, in every command that takes epochs."""

import pytest

from tests.cli.commands import complaint, in_one_line, read_json, store, succeed
from tests.makers import make_profile
from trainfare.app.queue.listing import list_queue
from trainfare.cli.main import COMMANDS, options_of
from trainfare.cli.parsing import parse_amount
from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.profiler.host import this_host_name
from trainfare.views.profile import length_arguments, source_sentences

ON_T4 = Host(name="h", vm_type="aws/g4dn.xlarge")
LANGUAGE_MODEL = {"host": ON_T4, "micro_batch_size": 8, "tokens_per_sample": 1024, "iterations_per_epoch": 100}


@pytest.mark.parametrize(
    ("text", "number"), [("20000", 2e4), ("600k", 6e5), ("300B", 3e11), ("1.5T", 1.5e12), ("3e9", 3e9), ("20,000", 2e4)]
)
def test_amounts_are_written_as_people_write_them(text: str, number: float) -> None:
    assert parse_amount("tokens", text) == number


@pytest.mark.parametrize("text", ["", "many", "k", "-3", "nan", "0"])
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_amount("tokens", text)


@pytest.mark.parametrize(
    ("options", "iterations"),
    [(("--epochs", "1.5"), 150), (("--steps", "2k"), 2000), (("--tokens", "8192k"), 1000), (("--epochs", "3"), 300)],
)
def test_every_length_can_be_estimated(options: tuple[str, ...], iterations: int) -> None:
    store(make_profile(**LANGUAGE_MODEL))
    found = read_json("estimate", "--on", "g4dn.xlarge", *options)
    assert found["iterations"] == iterations
    assert found["tokens_per_second"] == pytest.approx(1024 * found["samples_per_second"])


def test_a_program_without_epochs_is_recommended_by_its_steps() -> None:
    store(make_profile(host=ON_T4, iterations_per_epoch=None, samples=None, epochs=None))
    found = read_json("recommend", "--steps", 2000)
    assert found["chosen"]["iterations"] == 2000
    assert "2,000 in all" in " ".join(found["reasons"])


def test_samples_and_batch_size_of_the_profile_can_be_stated() -> None:
    store(make_profile(host=ON_T4, iterations_per_epoch=None, samples=None, micro_batch_size=None))
    said = complaint("estimate", "--on", "g4dn.xlarge", "--epochs", 2, "--samples", 640)
    assert "--batch-size B" in said
    found = read_json("estimate", "--on", "g4dn.xlarge", "--epochs", 2, "--samples", 640, "--batch-size", 64)
    assert (found["iterations"], found["batch_size"]) == (20, 64)


TAKE_A_LENGTH = (
    "recommend",
    "estimate",
    "probe",
    "cluster",
    "compare",
    "epochs",
    "queue submit",
    "profile",
    "train",
)


@pytest.mark.parametrize("command", TAKE_A_LENGTH)
def test_what_takes_epochs_takes_steps_tokens_and_the_facts_of_the_profile(command: str) -> None:
    """`import` is not among them: a log does not say how many tokens a step has."""
    assert {"--epochs", "--steps", "--tokens", "--samples", "--batch-size"} <= options_of(command.split())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("schedule", "import")])
def test_no_command_takes_epochs_alone(command: str) -> None:
    assert "--epochs" not in options_of([command]) or command in TAKE_A_LENGTH


def test_steps_and_tokens_are_compared_in_their_own_unit() -> None:
    store(make_profile(**LANGUAGE_MODEL))
    assert "cheapest: aws/g4dn.xlarge at batch size 8, whatever the number of steps" in in_one_line(
        "compare", "--steps", "500,2k"
    )
    assert "2,000 steps" in succeed("compare", "--steps", "500,2k").stdout
    assert "1.5B tokens" in succeed("compare", "--tokens", "1.5B").stdout
    assert "1.5 epochs" in succeed("compare", "--epochs", "1.5").stdout


def test_free_machines_are_compared_without_a_ratio_of_costs() -> None:
    store(make_profile(host=Host(name=this_host_name()), iterations_per_epoch=10))
    found = in_one_line("compare", "--steps", "100")
    assert "local/here" in found
    assert "Δ" not in found


def test_the_length_of_a_run_can_be_stated_in_tokens_for_its_epochs() -> None:
    store(make_profile(**LANGUAGE_MODEL))
    (by_tokens,), (by_epochs,) = (
        read_json("epochs", *o)["profiles"] for o in (("--tokens", "8192k"), ("--epochs", 10))
    )
    assert by_tokens["declared"] == by_epochs["declared"] == 10


def test_steps_without_the_length_of_an_epoch_say_what_to_state() -> None:
    store(make_profile(iterations_per_epoch=None, samples=None))
    assert complaint("epochs", "--steps", "2000").endswith("Try `--iterations-per-epoch N` or `--epochs N`.")
    (found,) = read_json("epochs", "--steps", "2000", "--iterations-per-epoch", "100")["profiles"]
    assert found["declared"] == 20


def test_two_lengths_are_refused() -> None:
    store(make_profile(host=ON_T4))
    assert complaint("recommend", "--epochs", 3, "--steps", 100).startswith("--steps: epochs and steps both set")
    assert complaint("recommend", "--steps", 3, "--target", "loss=0.5").startswith("--steps: a number of steps and")


def test_another_batch_size_of_an_unknown_one_is_refused_with_what_to_do() -> None:
    store(make_profile(host=ON_T4, micro_batch_size=None))
    said = complaint("predict", "--on", "g4dn.xlarge", "--batch", 256)
    assert said.startswith("--batch: profile p7k2 has no batch size")
    assert "`--batch-size B`" in said


def test_steps_can_be_submitted() -> None:
    store(make_profile(**LANGUAGE_MODEL))
    assert "2,000 steps" in succeed("queue", "submit", "--steps", "2000").stdout
    assert list_queue().submissions[0].steps == 2000


@pytest.mark.parametrize(
    ("facts", "arguments"),
    [
        ({"epochs": 1.5, "planned_iterations": 35}, {"epochs": 1.5}),
        ({"epochs": 87, "planned_iterations": 2000}, {"steps": 2000}),
        ({"epochs": 6}, {"epochs": 6}),
        ({"epochs": None}, {"epochs": "N"}),
        ({"epochs": None, "iterations_per_epoch": None, "samples": None}, {"steps": "N"}),
    ],
)
def test_hints_repeat_what_the_program_does(facts: dict[str, object], arguments: dict[str, object]) -> None:
    assert length_arguments(make_profile(**facts)) == arguments


def test_the_card_names_length_sources_and_tokens() -> None:
    sources = {"planned_iterations": "argument --max_iters", "micro_batch_size": "argument --batch_size"}
    store(
        make_profile(
            **LANGUAGE_MODEL | {"iterations_per_epoch": None, "planned_iterations": 2000}, samples=None, sources=sources
        )
    )
    shown = in_one_line("profiles", "show", "p7k2")
    assert "batch 8 × 1,024 tokens · 2,000 iterations in all" in shown
    assert "iterations from argument --max_iters · batch size from argument --batch_size" in shown
    assert "tokens/s" in shown


def test_what_the_loader_tells_needs_no_source() -> None:
    assert source_sentences(make_profile(sources={"micro_batch_size": "the data loader"})) == []

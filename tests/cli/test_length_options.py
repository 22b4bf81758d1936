"""The options that state how long a training is, in every command that takes epochs."""

import pytest

from tests.cli.commands import complaint, in_one_line, read_json, store, succeed
from tests.makers import make_profile
from trainfare.app.queue.listing import list_queue
from trainfare.cli.parsing import parse_amount
from trainfare.errors import UsageError
from trainfare.model.machine import Host
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
    assert "2,000 steps" in succeed("schedule", "submit", "--steps", "2000").stdout
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

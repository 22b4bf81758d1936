"""Python argument names as flags of the command that is run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainfare.cli.arguments import POSITIONAL, flag, spell_arguments, spell_error, spell_remedy
from trainfare.cli.main import COMMANDS, options_of
from trainfare.errors import InfeasibleError, Remedy, UsageError

SRC = Path(__file__).parents[2] / "src" / "trainfare"
GROUPS = {
    "queue": ("submit", "list", "cancel", "plan"),
    "schedule": ("simulate", "compare", "generate", "import", "bound"),
    "profiles": ("list", "show", "rm", "import"),
    "plans": ("list", "show"),
    "catalog": ("list", "show", "commitments", "gpus", "import", "update"),
}
EVERY_COMMAND = [
    *([name] for name in COMMANDS if name not in GROUPS),
    *([group, name] for group, names in GROUPS.items() for name in names),
]
ONLY_IN_PYTHON = {"directory", "kind", "tables", "trace"}
"""Arguments that the command line has as words without a flag, or not at all."""


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("batch_sizes", ["profile"], "--batch-sizes"),
        ("batch_sizes", ["recommend", "p7k2"], "--batch"),
        ("batch_size", ["estimate", "--on", "T4"], "--batch"),
        ("batch_size", ["import", "csv", "log.csv"], "--batch-size"),
        ("batch_size", ["epochs"], "--batch"),
        ("command", ["import", "csv", "log.csv"], "--command"),
        ("command", ["profile"], None),
        ("max_seconds", ["profile"], "--max-time"),
        ("profile_ids", ["cluster"], "--profile"),
        ("profile_ids", ["recommend"], None),
        ("tick_seconds", ["schedule", "simulate", "--nodes", "2"], "--tick"),
        ("quotas", ["queue", "plan"], "--quota"),
        ("deadline", ["queue", "plan"], None),
    ],
)
def test_a_flag_is_that_of_the_command(name: str, words: list[str], expected: str | None) -> None:
    assert flag(name, options_of(words)) == expected


def test_arguments_are_spelled_as_words_to_type() -> None:
    assert spell_arguments({"spot": True, "deadline": "2h12m", "batch_sizes": [64, 128]}) == (
        "--spot --deadline 2h12m --batch 64 --batch 128"
    )
    assert spell_arguments({"reserved": False, "epochs": None, "profile_id": "p7k2"}) == "--no-reserved p7k2"
    assert spell_arguments({"command": "python train.py"}, {"--command"}) == "--command 'python train.py'"


def test_a_remedy_can_be_another_command() -> None:
    remedy = Remedy({"epochs": 10}, command="profile", program="python train.py")
    assert spell_remedy(remedy) == "trainfare profile --epochs 10 -- python train.py"


def test_an_error_names_the_flag_and_what_to_type() -> None:
    error = UsageError(
        "There are no sizes.",
        field="batch_sizes",
        remedies=[Remedy({"batch_sizes": "64,128"}), Remedy({"batch_size": 64}, command="import csv")],
    )
    assert spell_error(error, ["profile", "--", "true"], options_of) == (
        "--batch-sizes: there are no sizes. Try `--batch-sizes 64,128` or `trainfare import csv --batch-size 64`."
    )


def test_a_message_ends_with_a_full_stop() -> None:
    assert spell_error(UsageError("the table is empty")) == "the table is empty."
    assert spell_error(UsageError("is it empty?")) == "is it empty?"


def test_the_first_word_of_a_message_is_lower_case_unless_it_is_a_name() -> None:
    assert spell_error(InfeasibleError("None would.")) == "none would."
    assert spell_error(InfeasibleError("A GPU is needed.")) == "a GPU is needed."
    assert spell_error(InfeasibleError("GPUs are needed.")) == "GPUs are needed."
    assert spell_error(InfeasibleError("SkyPilot's table is empty.")) == "SkyPilot's table is empty."


def named_arguments() -> Iterator[tuple[str, str | None, str]]:
    """The argument names in errors and remedies of all modules, with the command of the remedy and the place."""
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            place = f"{path.relative_to(SRC)}:{node.lineno}"
            field = keywords.get("field")
            if isinstance(field, ast.Constant) and isinstance(field.value, str):
                yield field.value, None, place
            if isinstance(node.func, ast.Name) and node.func.id == "Remedy":
                command = keywords.get("command")
                of = str(command.value) if isinstance(command, ast.Constant) else None
                for mapping in (*node.args, *filter(None, [keywords.get("arguments")])):
                    keys = mapping.keys if isinstance(mapping, ast.Dict) else []
                    yield from ((str(key.value), of, place) for key in keys if isinstance(key, ast.Constant))


def test_every_argument_that_an_error_names_is_an_option() -> None:
    options = {" ".join(words): options_of(words) for words in EVERY_COMMAND}
    unknown = []
    found = list(named_arguments())
    for name, command, place in found:
        known = options.values() if command is None else [options_of(command.split())]
        if name not in POSITIONAL | ONLY_IN_PYTHON and not any(flag(name, each) for each in known):
            unknown.append(f"{place}: {name}")
    assert len(found) > 100
    assert not unknown, "\n".join(unknown)

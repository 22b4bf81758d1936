"""Every command in the documentation exists: `trainfare …` with its flags, and `python -m …`. Nothing is executed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from trainfare.cli.main import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])

HELP = {"--help", "-h"}
SHELL_FENCES = ("```", "```sh", "```bash", "```console")

COMMAND_LINE = re.compile(r"(?:\$ |next: |ssh \S+ )?(trainfare [^ :].*)")
"""A line of a code block that is a command, or an output that suggests one."""
REMARK = re.compile(r" +#.*$|  +(?![-[ ]).*$")
"""The rest of a line after its command: a comment, or an explanation after two spaces."""
PLACEHOLDER = re.compile(r"[\[\]…|<>]|^[A-Z]+$")
"""A word that stands for others: `[--epochs`, `N`, `COMMAND…`, `cheapest|fastest`."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_and_prose(page: Path) -> tuple[list[list[str]], str]:
    """The code blocks of a page, except fenced ones in another language than the shell's, and its other text."""
    blocks: list[list[str]] = [[]]
    prose: list[str] = []
    fence: str | None = None
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            fence = line.strip() if fence is None else None
            blocks.append([])
        elif fence is not None:
            if fence in SHELL_FENCES:
                blocks[-1].append(line)
        elif line.startswith("    "):
            blocks[-1].append(line[4:])
        else:
            blocks.append([])
            prose.append(line)
    return [block for block in blocks if block], "\n".join(prose)


def block_commands(block: list[str]) -> Iterator[str]:
    """The commands of a code block.

    A line after a backslash, and a line that begins with a bracket, continue the command before them.
    """
    text = re.sub(r"\\\n *|\n +(?=\[)", " ", "\n".join(block)).replace(" | trainfare ", "\ntrainfare ")
    for line in text.splitlines():
        found = COMMAND_LINE.match(line)
        if found:
            yield REMARK.sub("", found[1])


def inline_commands(prose: str) -> list[str]:
    spans = (re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", prose))
    return [span for span in spans if span.startswith("trainfare ")]


def is_complete(command: str) -> bool:
    """False for a usage line or an example with placeholders, which cannot be parsed as it stands."""
    return not any(PLACEHOLDER.search(word) for word in shlex.split(command))


def unknown_words(command: str) -> list[str]:
    """The words of a command that the command line does not know: a command name or a flag."""
    words = [word.strip("[],") for word in re.sub(r"'[^']*'", "VALUE", command).split()[1:]]
    words = words[: words.index("--")] if "--" in words else words
    here = typer.main.get_command(app)
    context = typer.Context(here)
    while isinstance(here, TyperGroup) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in here.list_commands(context):
            return [name]
        found = here.get_command(context, name)
        assert found is not None
        here = found
    known = HELP.union(*([*parameter.opts, *parameter.secondary_opts] for parameter in here.params))
    flags = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    return [flag for flag in flags if flag not in known]


def parse_error(command: str) -> str | None:
    """The parser's objection to a complete command; None if it accepts the command, which is not run."""
    words = shlex.split(command)[1:]
    here = typer.main.get_command(app)
    context = typer.Context(here)
    if words[0].startswith("-"):
        return None  # a flag of `trainfare` itself acts while it is parsed, such as --install-completion
    try:
        while isinstance(here, TyperGroup) and (words or not here.invoke_without_command):
            _, found, words = here.resolve_command(context, words)
            assert found is not None
            here = found
        here.make_context("trainfare", list(words), parent=context)
    except typer.TyperException as error:
        return f"{type(error).__name__} {error}"
    return None


def refused_commands(page: Path) -> list[str]:
    """The commands of a page that the command line would refuse, each with the reason.

    Only commands in code blocks are parsed as a whole: `trainfare estimate` inside a sentence is not a full command.
    """
    blocks, prose = code_and_prose(page)
    in_blocks = [command for block in blocks for command in block_commands(block)]
    refused = []
    for command in (*in_blocks, *inline_commands(prose)):
        if words := unknown_words(command):
            refused.append(f"{command}: there is no {', '.join(words)}")
        elif command in in_blocks and is_complete(command) and (error := parse_error(command)):
            refused.append(f"{command}: {error}")
    return refused


def is_runnable(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_trainfare_command_of_a_page_is_accepted(page: Path) -> None:
    assert refused_commands(page) == []


def test_an_unknown_command_an_unknown_flag_and_a_wrong_value_are_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Run `trainfare recommend --cheap` or `trainfare\nfly`, then `trainfare profiles list`.\n\n"
        "    $ trainfare recommend --epochs 90 --deadline 5h    # accepted\n"
        "    trainfare recommend [PROFILE…] [--epochs N]\n"
        "                        [--budget USD] [--fast]\n"
        "    trainfare profile --epochs 2     --patience 3 -- python train.py --any-flag\n"
        "    trainfare catalog list                    every machine\n"
        "    trainfare recommend --epochs many\n"
        "    ssh rented trainfare profiles show p7k2 --json | trainfare profiles imp -\n\n"
        "```python\ntrainfare recommend --none\n```\n"
    )
    assert [refusal.partition(":")[0] for refusal in refused_commands(page)] == [
        "trainfare recommend [PROFILE…] [--epochs N] [--budget USD] [--fast]",
        "trainfare recommend --epochs many",
        "trainfare profiles imp -",
        "trainfare recommend --cheap",
        "trainfare fly",
    ]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_module_that_a_page_runs_exists(page: Path) -> None:
    modules = re.findall(r"python -m ((?:benchmarks|tests)(?:\.\w+)+)", page.read_text())
    assert [module for module in modules if not is_runnable(module)] == []


def test_every_benchmark_in_the_table_of_the_readme_exists() -> None:
    rows = README.read_text().partition("\n| `python -m benchmarks.…` | measures | result |\n| --- |")[2]
    names = re.findall(r"^\| `([\w.]+)[^`]*` \|", rows, re.MULTILINE)
    assert "startup" in names
    assert [name for name in names if not is_runnable(f"benchmarks.{name}")] == []

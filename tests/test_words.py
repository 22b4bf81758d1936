"""The private dialect that this code once had stays out: in names, docstrings, messages and docs; and what is exempt
from a check says why."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.house import (
    EXEMPTION_WORDS,
    OLD_WORDS,
    OTHER_FOLDERS,
    ROOT,
    Module,
    flags_named,
    fragments,
    old_words,
    read_modules,
    repeated_classes,
    unexplained,
)

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def modules() -> list[Module]:
    return read_modules(ROOT / "src" / "trainfare")


def test_no_module_uses_the_old_words() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}:{number}: {line}"
        for module in (*modules(), *read_modules(ROOT / "benchmarks", mentioning=OLD_WORDS))
        if module.name != "benchmarks.house"  # it lists them
        for number, line in old_words(module)
    ]
    assert not found, "\n".join(found)


def test_no_page_uses_the_old_words() -> None:
    """A name of the code, `like_this`, may be an old one that the page explains."""
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if OLD_WORDS.search(re.sub(r"`[^`]*`", "", line))
    ]
    assert not found, "\n".join(found)


def test_docstrings_are_sentences() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}:{line}: {text}" for module in modules() for line, text in fragments(module)
    ]
    assert not found, "\n".join(found)


def test_flags_are_named_by_the_command_line_alone() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}: {line.strip()}"
        for module in modules()
        if not module.name.startswith("trainfare.cli")
        for line in flags_named(module)
    ]
    assert not found, "\n".join(found)


def test_a_class_name_means_one_class() -> None:
    assert not repeated_classes(modules())


def test_what_is_exempt_from_a_check_says_why() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}:{number}: {line}"
        for folder in ("src/trainfare", *OTHER_FOLDERS)
        for module in read_modules(ROOT / folder, mentioning=EXEMPTION_WORDS)
        for number, line in unexplained(module)
    ]
    assert not found, "\n".join(found)


def module_of(text: str) -> Module:
    return Module(name="example", path=Path("example.py"), text=text, tree=ast.parse(text))


CATCH = "try:\n    pass\nexcept {}\n    pass"


@pytest.mark.parametrize(
    "text",
    [
        "import os  # noqa",
        "import os  # noqa: F401",
        "import os  # noqa: F401 no second sign",
        "import os  # noqa: F401 # as above",
        "x = 1  # type: ignore[assignment]",
        "x = 1  # type: ignore[assignment] # noqa: E501",
        "# ruff: noqa: T201",
        CATCH.format("Exception:"),
        CATCH.format("(OSError, BaseException):  # noqa: BLE001"),
        CATCH.format(":"),
        "with contextlib.suppress(Exception):\n    pass",
        'torch = pytest.importorskip("torch")',
        "pytest.skip()",
        "@pytest.mark.skip\ndef test() -> None: ...",
        "needs_linux = pytest.mark.skipif(True)",
        "@pytest.mark.xfail(True)\ndef test() -> None: ...",
        'pytest.skip(" ")',
    ],
)
def test_an_exemption_without_a_reason_is_found(text: str) -> None:
    assert list(unexplained(module_of(text)))


@pytest.mark.parametrize(
    "text",
    [
        "import os  # noqa: F401 # its import registers the driver",
        "x = 1  # type: ignore[assignment, misc] # noqa: E501 # the library has no types",
        "# ruff: noqa: T201 # it reports to the test",
        CATCH.format("Exception:  # noqa: BLE001 # any error goes to the parent"),
        CATCH.format("OSError:"),
        "with contextlib.suppress(OSError):\n    pass",
        "with contextlib.suppress(Exception):  # the program may have closed it\n    pass",
        'pytest.skip("uv is not installed")',
        "needs_linux = pytest.mark.skipif(True, reason=REASON)",
        'text = "# noqa"',
    ],
)
def test_an_exemption_with_a_reason_is_none(text: str) -> None:
    assert not list(unexplained(module_of(text)))

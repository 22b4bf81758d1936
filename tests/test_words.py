"""The private dialect that this code once had stays out: in names, docstrings, messages and docs."""

from pathlib import Path

import pytest

from benchmarks.house import OLD_WORDS, ROOT, flags_named, fragments, old_words, read_modules, repeated_classes

MODULES = read_modules(ROOT / "src" / "trainfare")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_no_module_uses_the_old_words() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}:{number}: {line}" for module in MODULES for number, line in old_words(module)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_uses_the_old_words(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    found = [f"{page.name}:{number}: {line}" for number, line in enumerate(lines, 1) if OLD_WORDS.search(line)]
    assert not found, "\n".join(found)


def test_docstrings_are_sentences() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}:{line}: {text}" for module in MODULES for line, text in fragments(module)
    ]
    assert not found, "\n".join(found)


def test_flags_are_named_by_the_command_line_alone() -> None:
    found = [
        f"{module.path.relative_to(ROOT)}: {line.strip()}"
        for module in MODULES
        if not module.name.startswith("trainfare.cli")
        for line in flags_named(module)
    ]
    assert not found, "\n".join(found)


def test_a_class_name_means_one_class() -> None:
    assert not repeated_classes(MODULES)

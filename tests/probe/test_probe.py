"""The probe runs in the user's Python, which may be older than ours."""

import ast
from pathlib import Path

import pytest

import trainfare.probe

FILES = sorted(Path(trainfare.probe.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_syntax_is_that_of_python_3_9_and_annotations_are_not_evaluated(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert path.name == "__init__.py" or "from __future__ import annotations" in path.read_text()
    assert not any(isinstance(node, ast.Match) for node in ast.walk(tree))

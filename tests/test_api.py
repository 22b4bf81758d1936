"""`import trainfare` is quick, and offers the use cases and the nouns."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import trainfare

GROUPS = (
    "trainfare",
    "trainfare.queue",
    "trainfare.profiles",
    "trainfare.plans",
    "trainfare.catalog",
    "trainfare.calibrations",
)


def public(module: str) -> list[str]:
    return [name for name in dir(import_module(module)) if not name.startswith("_")]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in GROUPS for name in public(module)])
def test_every_public_name_can_be_imported(module: str, name: str) -> None:
    assert getattr(import_module(module), name) is not None


@pytest.mark.parametrize("module", GROUPS)
def test_every_module_with_a_stub_offers_something(module: str) -> None:
    assert public(module)


def test_what_is_public_is_documented() -> None:
    """Every public function and class says in its docstring what it is."""
    for module in GROUPS:
        for name in public(module):
            assert (getattr(import_module(module), name).__doc__ or "").strip(), f"{module}.{name}"


def test_stubs_hold_imports_and_export_all_of_them() -> None:
    """A type checker exports a name under another one only if `__all__` lists it."""
    for stub in Path(trainfare.__file__).parent.rglob("*.pyi"):
        body = ast.parse(stub.read_text()).body
        assert all(isinstance(node, ast.ImportFrom | ast.Expr | ast.AnnAssign | ast.Assign) for node in body), stub
        aliases = [alias for node in body if isinstance(node, ast.ImportFrom) for alias in node.names]
        exported = [ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign)]
        if any(alias.asname != alias.name for alias in aliases):
            assert exported == [sorted(alias.asname or alias.name for alias in aliases)], stub


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recomend'"):
        trainfare.recomend  # type: ignore[attr-defined] # noqa: B018 # the wrong name is what is tested


def test_importing_it_loads_nothing_heavy() -> None:
    script = "import sys, trainfare; print([m for m in ('sqlalchemy', 'rich', 'typer', 'msgspec') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"

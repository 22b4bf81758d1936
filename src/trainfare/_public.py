"""Public names that are imported when they are first used, so that `import trainfare` is quick.

The stub next to a module (`__init__.pyi`, `queue.pyi`) is the one table of its public names: type checkers read it, and
at run time `public_names` does.
"""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


def public_names(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose stub lists `from home import name as public_name`."""

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        tree = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def get_name(name: str) -> object:
        if name == "__all__":
            return sorted(homes())
        if name not in homes():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, original = homes()[name]
        if home == module:
            return import_module(f"{home}.{original}")
        return getattr(import_module(home), original)

    def list_names() -> list[str]:
        return sorted(homes())

    return get_name, list_names

"""Libraries that a test needs and the reader may not have."""

import importlib.util
from typing import Any

import pytest

_REASON = "{} is not installed: scripts/test installs it"


def need(module: str) -> Any:
    """The imported module; without it the test, or the whole file, is skipped."""
    return pytest.importorskip(module, reason=_REASON.format(module))


def need_installed(*modules: str) -> None:
    """Skip the test, or the whole file, if a module that its programs import is missing. It is not imported here:
    every worker reads every file, and a framework takes seconds."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(_REASON.format(module), allow_module_level=True)

"""Libraries that a test needs and the reader may not have."""

from typing import Any

import pytest


def need(module: str) -> Any:
    """The imported module; without it the test, or the whole file, is skipped."""
    return pytest.importorskip(module, reason=f"{module} is not installed: scripts/test installs it")

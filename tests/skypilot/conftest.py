"""These tests need a rig of namespaces, SkyPilot and 17 minutes: `scripts/test-skypilot` runs them, nothing else."""

import os
from pathlib import Path

import pytest

RIG = "TRAINFARE_SKYPILOT_RIG"

collect_ignore_glob = [] if RIG in os.environ else ["test_*.py"]


@pytest.fixture(autouse=True)
def home() -> Path:
    """The home folder of the rig, which is a layer of its own: ssh takes its configuration from nowhere else."""
    return Path.home()

"""The options of a simulation: delays by mode, and invalid values."""

import math
from dataclasses import replace
from typing import Any

import pytest

from trainfare.errors import NotFoundError, UsageError
from trainfare.model.queue import Delays
from trainfare.scheduler.simulation.options import REAL_DELAYS, SimulationOptions


def test_paper_mode_has_no_delays() -> None:
    assert SimulationOptions().delays() == Delays()


def test_real_mode_has_the_stated_delays_and_defaults_for_the_rest() -> None:
    assert SimulationOptions(mode="real").delays() == REAL_DELAYS
    assert SimulationOptions(mode="real", boot_seconds=600).delays() == replace(REAL_DELAYS, boot_seconds=600)
    own = Delays(restart_seconds=7.0)
    assert SimulationOptions(mode="real", boot_seconds=5).delays(own) == Delays(boot_seconds=5, restart_seconds=7)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"seed": -1}, "seed"),
        ({"error": math.nan}, "error"),
        ({"error": 50.0}, "error"),
        ({"error": -0.2}, "error"),
        ({"tick_seconds": 0.0}, "tick_seconds"),
        ({"tick_seconds": math.nan}, "tick_seconds"),
        ({"tick_seconds": math.inf}, "tick_seconds"),
        ({"boot_seconds": 60.0, "restart_seconds": 1.0}, "boot_seconds"),
        ({"mode": "real", "boot_seconds": -1.0}, "boot_seconds"),
        ({"mode": "real", "boot_seconds": 1e300}, "boot_seconds"),
        ({"mode": "real", "restart_seconds": math.nan}, "restart_seconds"),
        ({"mode": "real", "checkpoint_every_seconds": 0.0}, "checkpoint_every_seconds"),
    ],
    ids=str,
)
def test_invalid_options_name_their_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        SimulationOptions(**options)
    assert caught.value.field == field


def test_delays_in_paper_mode_have_real_mode_as_remedy() -> None:
    with pytest.raises(UsageError, match="applies to the mode real only") as caught:
        SimulationOptions(boot_seconds=60.0)
    assert [remedy.arguments for remedy in caught.value.remedies] == [{"mode": "real"}]


def test_jobs_that_never_save_themselves_are_allowed() -> None:
    options = SimulationOptions(mode="real", checkpoint_every_seconds=math.inf)
    assert options.delays().checkpoint_every_seconds == math.inf


def test_unknown_mode_error_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean real"):
        SimulationOptions(mode="reel")  # type: ignore[arg-type] # the wrong mode is what is tested

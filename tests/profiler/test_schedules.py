"""The planned learning rates, compared with the same programs run to their end."""

import json
import subprocess
from functools import cache
from typing import Any

import pytest

from tests.frameworks.runs import PROGRAMS, ProfiledRun, run_profiled
from tests.pythons import python_with

EPOCHS, BATCHES = 14, 6
REPLAYED = (
    "step",
    "multistep",
    "exponential",
    "cosine",
    "restarts",
    "sequential",
    "option",
    "own",
    "one_cycle",
    "step_by_iteration",
    "hugging_face",
)


EACH = """
import runpy, sys
for kind in sys.argv[1:]:
    sys.argv = ["torch_schedules.py", kind]
    runpy.run_path("torch_schedules.py", run_name="__main__")
"""
"""Runs the program once for each kind, in one process: starting PyTorch takes longer than all of them."""


@cache
def complete_runs() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [python_with("torch"), "-c", EACH, *REPLAYED], cwd=PROGRAMS, capture_output=True, text=True, check=True
    )
    accounts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    return dict(zip(REPLAYED, accounts, strict=True))


def complete_run(kind: str) -> dict[str, Any]:
    return complete_runs()[kind]


@cache
def profiled(kind: str) -> ProfiledRun:
    return run_profiled("torch_schedules.py", kind, iterations=20, trace=False)


@pytest.mark.parametrize("kind", REPLAYED)
def test_plan_equals_the_rates_of_a_complete_run(kind: str) -> None:
    plan, rates = profiled(kind).profile.learning_rate_plan, complete_run(kind)["rates"]
    assert len(plan) >= EPOCHS
    assert list(plan[:EPOCHS]) == pytest.approx(rates, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", REPLAYED)
def test_replaying_a_schedule_does_not_change_the_program(kind: str) -> None:
    alone, own = complete_run(kind), profiled(kind).own
    assert own["losses"] == alone["losses"][: len(own["losses"])]
    assert own["rates"] == alone["rates"][: len(own["rates"])]


def test_plan_ends_with_the_schedule() -> None:
    assert len(profiled("one_cycle").profile.learning_rate_plan) == EPOCHS


@pytest.mark.parametrize("kind", ["plateau", "impure"])
def test_schedule_that_needs_a_metric_or_is_not_pure_has_no_plan(kind: str) -> None:
    profile = profiled(kind).profile
    assert profile.learning_rate_plan == ()
    assert profile.learning_rate_schedule in ("ReduceLROnPlateau", "LambdaLR")


def test_probe_never_calls_a_function_that_is_not_pure() -> None:
    assert profiled("impure").own["calls"] == 1 + 20 // BATCHES

"""Costs of runs on a provider that charges, and caps that refuse another run before it starts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.app.running.worlds import World, make_world
from trainfare.app.running.costs import costs
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import attend, start_run
from trainfare.errors import InfeasibleError
from trainfare.model.run import RunLimits
from trainfare.runner.charges import CostGroup


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    return make_world(tmp_path)


def with_caps(world: World, **caps: float) -> World:
    return replace(world, settings=replace(world.settings, **caps))  # type: ignore[arg-type] # settings by name


def test_costs_of_a_run_are_those_of_its_receipt(world: World) -> None:
    run = world.start("print('done')")
    paid = attend(run.id, settings=world.settings, poll_seconds=0.02).receipt.total.paid_usd
    assert paid > 0
    for by in get_args(CostGroup):
        found = costs(by=by, settings=world.settings)
        assert found.usd == pytest.approx(paid)
        assert not found.reserved_usd
        assert [row.runs for row in found.rows] == [1] or by in ("day", "month")  # midnight may divide it


def test_a_run_that_has_not_ended_reserves_its_budget(world: World) -> None:
    world.start("print('done')", budget_usd=7.0)
    assert costs(settings=world.settings).reserved_usd == pytest.approx(7.0)


def test_a_run_gets_what_is_left_of_a_cap_as_its_budget(world: World) -> None:
    capped = with_caps(world, max_usd_per_day=10.0)
    capped.start("print('done')", budget_usd=4.0)
    assert capped.start("print('done')").limits.budget_usd == pytest.approx(6.0)


def test_a_run_for_which_nothing_is_left_is_refused(world: World) -> None:
    capped = with_caps(world, max_usd_per_user_month=4.0)
    capped.start("print('done')", budget_usd=4.0)
    with pytest.raises(InfeasibleError, match=r"The cap of a user in .* is \$4.00, and all of it is spent or reserved"):
        capped.start("print('done')")


def test_two_processes_do_not_both_use_what_is_left(world: World) -> None:
    """All of them were agreed to while the whole cap was free: together they get no more than it has."""
    run = world.start("print('done')", budget_usd=1.0)
    capped = with_caps(world, max_usd_per_month=11.0)

    def start(name: str) -> bool:
        try:
            start_run(replace(run, id=name, limits=RunLimits(budget_usd=8.0)), settings=capped.settings)
        except InfeasibleError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(start, ["ra", "rb", "rc", "rd"]))
    assert sorted(started) == [False, False, True, True]  # $8, the rest, and nothing
    assert costs(settings=capped.settings).reserved_usd == pytest.approx(11.0)

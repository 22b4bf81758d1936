"""Runs on spot through the real supervisor, on small traces with a clock that is moved."""

import random
from pathlib import Path

import pytest

from benchmarks.spot_replay import Zone
from benchmarks.spot_runs.__main__ import WAYS, Carried, Job, carry_out
from tests.benchmarks.zones import made_zone
from trainfare.model.run import Fact
from trainfare.store.open import open_history

JOB = Job(hours=3.0, slack=0.5)
STEP_USD = 3.0 / 60
"""The price of a step of the clock on demand."""


def zone(name: str, seen: str, spot: float = 1.0) -> Zone:
    """A zone with the availability in each slot of ten minutes; the last one goes on."""
    return made_zone(seen + seen[-1] * 100, name=name, spot=spot, campaign="aws-02-15-2023")


def carried(
    way: str, *zones: Zone, folder: Path, job: Job = JOB, **options: object
) -> tuple[Carried, tuple[Fact, ...]]:
    return carry_out(WAYS[way], job, zones[0], zones, 0.0, losses_per_hour=0.2, folder=folder, **options)  # type: ignore[arg-type] # its own


def launches(facts: tuple[Fact, ...]) -> list[tuple[str, str]]:
    found = [fact.candidate.offer for fact in facts if fact.kind == "launch intended" and fact.candidate]
    return [(offer.region, offer.market) for offer in found]


def test_after_a_loss_it_goes_on_in_the_cheapest_zone_that_has_a_machine(tmp_path: Path) -> None:
    zones = zone("x-1a", "1" * 9 + "0"), zone("x-1b", "1", spot=1.5), zone("x-1c", "1", spot=1.2)
    found, facts = carried("ours", *zones, folder=tmp_path)
    assert (found.outcome, found.late, found.reclaims, found.used_on_demand) == ("succeeded", False, 1, False)
    assert launches(facts) == [("x-1a", "spot"), ("x-1a", "spot"), ("x-1c", "spot")], "refused where it was lost"
    assert 0 < found.lost_hours <= 0.25, "at most the work between two checkpoints"
    # 90 minutes at $1.00, then a start and the rest of 180 minutes of which 75 were saved, at $1.20.
    assert found.usd == pytest.approx(1.5 + 1.2 * (5 + 105) / 60, abs=2 * STEP_USD)


def test_the_history_may_be_a_database(tmp_path: Path) -> None:
    zones, job = (zone("x-1a", "1110"), zone("x-1b", "1")), Job(hours=0.75, slack=1.0)
    with open_history(str(tmp_path / "history.db")) as history:
        found, facts = carried("ours", *zones, folder=tmp_path, job=job, history=history)
    assert (found.outcome, found.reclaims, launches(facts)[-1]) == ("succeeded", 1, ("x-1b", "spot"))


def test_with_a_notice_less_than_an_iteration_is_lost(tmp_path: Path) -> None:
    zones = zone("x-1a", "1" * 9 + "0"), zone("x-1b", "1")
    found, facts = carried("ours, with notice", *zones, folder=tmp_path)
    assert (found.outcome, found.reclaims) == ("succeeded", 1)
    assert found.lost_hours <= 1 / 60
    ended = next(fact for fact in facts if fact.kind == "program ended")
    assert (ended.text, ended.reclaimed) == ("The provider takes the machine back at 01:30 UTC.", True)


def test_without_a_spot_machine_it_waits_until_the_last_safe_moment_and_is_in_time(tmp_path: Path) -> None:
    found, facts = carried("ours", zone("x-1a", "1" * 6 + "0"), zone("x-1b", "0"), folder=tmp_path)
    assert (found.outcome, found.late, found.used_on_demand) == ("succeeded", False, True)
    on_demand = next(
        f for f in facts if f.kind == "launch intended" and f.candidate and f.candidate.offer.region == "x-1"
    )
    waited = (on_demand.seen_at - facts[0].seen_at).total_seconds() / 3600
    # The deadline is after 4 h 35 min; 45 min were saved, so a start and 2 h 15 min are left.
    assert waited == pytest.approx(4 + 35 / 60 - 5 / 60 - 2.25, abs=0.1)
    texts = [fact.text or "" for fact in facts if fact.kind == "warned"]
    assert any("it is asked for again every 10 min until" in text for text in texts)
    assert any("leaves no time for spot: it goes on on aws/p3.2xlarge in x-1 on demand" in text for text in texts)


def test_a_spot_machine_is_left_for_on_demand_in_time(tmp_path: Path) -> None:
    """It comes so late that on demand is needed although it is there."""
    found, facts = carried("ours", zone("x-1a", "0" * 8 + "1"), folder=tmp_path)
    assert (found.outcome, found.late) == ("succeeded", False)
    assert launches(facts)[-1] == ("x-1", "on_demand")
    assert [fact.kind for fact in facts].count("move asked") == 1


@pytest.mark.parametrize("seed", range(6))
def test_on_random_markets_no_deadline_is_missed_and_no_budget_exceeded(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    zones = [
        zone(f"x-1{name}", "".join(chance.choice("0111") for _ in range(40)), chance.uniform(0.8, 1.6)) for name in "ab"
    ]
    way = chance.choice(["ours", "ours, one zone", "ours, with notice"])
    (tmp_path / "free").mkdir()
    free, _ = carried(way, *zones, folder=tmp_path / "free")
    assert (free.outcome, free.late) == ("succeeded", False)
    (tmp_path / "limited").mkdir()
    budget = chance.uniform(0.3, 0.9) * free.usd
    limited, _ = carried(way, *zones, folder=tmp_path / "limited", budget_usd=budget)
    assert limited.usd <= budget + STEP_USD, "it is looked at once a minute"
    assert limited.outcome in ("stopped", "lost", "failed")


@pytest.mark.parametrize("way", ["spot, one zone", "spot, next zone by price", "on demand"])
def test_fixed_rules_are_carried_out_by_the_same_supervisor(way: str, tmp_path: Path) -> None:
    found, facts = carried(way, zone("x-1a", "1" * 6 + "0"), zone("x-1b", "1"), folder=tmp_path)
    late = {"spot, one zone": True, "spot, next zone by price": False, "on demand": False}[way]
    assert found.late == late
    assert ("on_demand" in {market for _, market in launches(facts)}) == (way == "on demand")

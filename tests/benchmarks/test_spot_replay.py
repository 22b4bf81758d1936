"""The replay: counted events, lost work, moves between zones, and the oracle."""

from datetime import date
from itertools import product

import pytest

from benchmarks.baselines.spot_policies import on_demand_only, spot_only
from benchmarks.spot import Trace, count_events
from benchmarks.spot_replay import any_zone, begins, oracle, price_near, regions, run
from tests.benchmarks.zones import GAP, made_zone
from tests.spot_makers import HOUR, make_training
from trainfare.model.spot import Action, SpotState


def test_events_and_hours_are_counted_by_age() -> None:
    found = count_events([1, 1, 1, 1, 0, 1], [0, 600, 1200, 1800, 0, 0], gap_seconds=GAP, where="a")
    assert found.losses == (0, 1, 0, 0)
    assert found.returns == (1, 0, 0, 0)
    assert found.up_hours == pytest.approx((4 / 6, 1 / 6, 0, 0))
    assert found.down_hours == pytest.approx((1 / 6, 0, 0, 0))


def test_move_to_another_zone_is_a_loss_and_a_return() -> None:
    found = count_events([1, 1, 2, 2], [0, 600, 1200, 1800], gap_seconds=GAP, where="a")
    assert (sum(found.losses), sum(found.returns), sum(found.down_hours)) == (1, 1, 0)


def test_days_of_a_trace_follow_from_its_campaign() -> None:
    trace = Trace(campaign="aws-10-26-2022", zone="a", gpu="K80", gpus=1, gap_seconds=600, seen=(1,) * 3895)
    assert (trace.provider, trace.first_day, trace.last_day) == ("aws", date(2022, 10, 26), date(2022, 11, 22))


def test_lost_machine_loses_unsaved_work() -> None:
    training = make_training(
        work_seconds=HOUR, start_seconds=300.0, checkpoint_every_seconds=1800.0, deadline_seconds=9 * HOUR
    )
    # 40 min with a start and 35 min of work, of which 30 are saved; an hour of waiting; a start and the other 30 min.
    usd, seconds, used = run(training, spot_only, made_zone("1111" + "0" * 6 + "1" * 9), 0)
    assert seconds == pytest.approx(40 * 60 + HOUR + 35 * 60)
    assert usd == pytest.approx((40 + 35) / 60)
    assert not used


def test_leaving_a_machine_saves_the_work() -> None:
    training = make_training(
        work_seconds=HOUR, start_seconds=300.0, checkpoint_every_seconds=HOUR, deadline_seconds=9 * HOUR
    )

    def leaves_after_a_slot(state: SpotState) -> Action:
        return "spot" if state.seconds < GAP else "on demand"

    usd, seconds, used = run(training, leaves_after_a_slot, made_zone("1" * 20), 0)
    assert seconds == pytest.approx(HOUR + 2 * 300)
    assert usd == pytest.approx(1 / 6 + 3 * (seconds - GAP) / HOUR)
    assert used


def test_job_after_the_end_of_the_trace_finishes_on_demand() -> None:
    usd, seconds, used = run(make_training(work_seconds=HOUR), spot_only, made_zone("000"), 0)
    assert seconds == pytest.approx(3 * GAP + HOUR + 300)
    assert used
    assert usd == pytest.approx(3 * (HOUR + 300) / HOUR)


def test_oracle_is_the_cheapest_of_all_sequences_of_actions() -> None:
    training = make_training(
        work_seconds=4 * GAP,
        start_seconds=GAP,
        checkpoint_every_seconds=1.0,
        deadline_seconds=8 * GAP,
        decide_every_seconds=GAP,
    )
    zone = made_zone("0110111011")
    ways: list[tuple[Action, ...]] = list(product(("spot", "on demand", "wait"), repeat=8))
    paid = []
    for way in ways:

        def follows(state: SpotState, way: tuple[Action, ...] = way) -> Action:
            action = way[min(7, round(state.seconds / GAP))]
            return "wait" if action == "spot" and not state.available else action

        usd, seconds, _ = run(training, follows, zone, 0)
        if seconds <= training.deadline_seconds:
            paid.append(usd)
    assert oracle(training, zone, 0) == pytest.approx(min(paid))
    on_demand_usd, _, _ = run(training, on_demand_only, zone, 0)
    assert min(paid) < on_demand_usd


def test_any_zone_moves_to_the_zone_that_has_had_a_machine_longest() -> None:
    first, second, third = (
        made_zone(seen, name=f"x-1{n}") for n, seen in zip("abc", ("1100", "0011", "0110"), strict=True)
    )
    moved = any_zone([first, second, third], "x-1")
    assert list(moved.seen) == [1, 1, 3, 2]
    assert list(moved.ages) == [0, GAP, GAP, GAP]
    assert [zone.name for zone in regions([first, second, third])] == ["x-1"]


def test_jobs_begin_after_the_history_and_end_within_the_trace() -> None:
    zone, training = made_zone("1" * 300), make_training(work_seconds=HOUR, deadline_seconds=2 * HOUR)
    found = list(begins(zone, training, 5))
    assert found == sorted(found)
    assert found[0] >= 100
    assert found[-1] + 12 < 300


def test_price_is_that_of_the_first_day_on_or_after() -> None:
    days = {date(2022, 10, 1): {"spot": 1.0}, date(2022, 11, 2): {"spot": 2.0}, date(2023, 1, 1): {"spot": 3.0}}
    assert price_near(days, date(2022, 10, 26)) == {"spot": 2.0}
    assert price_near(days, date(2024, 1, 1)) == {"spot": 3.0}

"""Policies on random markets: only spot alone may be late, and each follows its rule."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.spot_policies import (
    greedy,
    guarded,
    is_safe,
    on_demand_only,
    reserve,
    slack,
    spot_only,
    uniform_progress,
)
from benchmarks.spot_replay import oracle, run
from tests.spot_makers import HOUR, make_availability, make_state, make_training, make_zone
from trainfare.model.spot import Action

ACTIONS: tuple[Action, ...] = ("spot", "on demand", "wait")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    hours=st.floats(1, 8),
    room=st.floats(0.02, 1),
    start=st.floats(0, 1800),
    every=st.floats(60, 7200),
)
def test_only_spot_alone_may_be_late_on_any_market(
    seed: int, hours: float, room: float, start: float, every: float
) -> None:
    flapping = make_availability(lost_per_hour=(3.0, 2.0, 1.0, 0.5), return_per_hour=(3.0, 2.0, 1.0, 0.5))
    zone = make_zone(flapping, seed=seed, slots=800, gap_seconds=120.0)
    training = make_training(
        work_seconds=hours * HOUR,
        start_seconds=start,
        checkpoint_every_seconds=every,
        deadline_seconds=(1 + room) * hours * HOUR + start,
        decide_every_seconds=120.0,
    )

    def arbitrary(state: object) -> Action:
        return ACTIONS[hash((seed, repr(state))) % 3]

    cheapest = oracle(training, zone, 0)
    rules = (
        on_demand_only,
        greedy(training),
        reserve(training, share=0.3),
        uniform_progress(training),
        guarded(training, arbitrary),
    )
    for policy in rules:
        usd, seconds, _ = run(training, policy, zone, 0)
        assert seconds <= training.deadline_seconds + 1e-6
        assert usd >= cheapest - 1e-6


def test_greedy_changes_to_on_demand_at_the_last_safe_moment() -> None:
    training = make_training()  # 12 h of work, a deadline of 16 h, a start of 5 min
    last = 16 * HOUR - 300 - 12 * HOUR - training.decide_every_seconds
    decide = greedy(training)
    assert decide(make_state(seconds=last, available=False)) == "wait"
    assert decide(make_state(seconds=last + 1, available=False)) == "on demand"
    assert decide(make_state(seconds=last + 1, available=True)) == "on demand"
    assert decide(make_state(seconds=HOUR, running="on demand")) == "on demand"


def test_unsaved_work_reduces_the_slack() -> None:
    training = make_training()
    saved, unsaved = make_state(seconds=HOUR), make_state(seconds=HOUR, unsaved_seconds=600.0)
    assert slack(training, saved) - slack(training, unsaved) == 600
    assert is_safe(training, saved)


def test_reserve_changes_earlier() -> None:
    training = make_training()
    half_way = make_state(seconds=0.6 * training.slack_seconds, available=False)
    assert greedy(training)(half_way) == "wait"
    assert reserve(training, share=0.5)(half_way) == "on demand"


def test_uniform_progress_is_on_demand_while_behind_the_line() -> None:
    training = make_training()  # the line: 45 min of work in an hour
    decide = uniform_progress(training)
    behind = {"seconds": 2 * HOUR, "available": False, "left_seconds": 11 * HOUR}
    assert decide(make_state(**behind)) == "on demand"
    assert decide(make_state(**behind | {"available": True})) == "spot"
    ahead = behind | {"left_seconds": 10.45 * HOUR}
    assert decide(make_state(**ahead)) == "wait"
    # Once on demand, it stays there until it is two starts ahead.
    assert decide(make_state(**ahead, running="on demand")) == "on demand"
    assert decide(make_state(**behind | {"left_seconds": 10.3 * HOUR}, running="on demand")) == "wait"


def test_unavailable_spot_is_not_requested() -> None:
    decide = guarded(make_training(), lambda _: "spot")
    assert decide(make_state(available=False)) == "wait"
    assert decide(make_state(available=True)) == "spot"
    assert spot_only(make_state(available=False)) == "wait"


@pytest.mark.parametrize(("left", "expected"), [(0.95 * HOUR, "spot"), (1.1 * HOUR, "on demand")])
def test_running_spot_machine_is_kept_if_on_demand_would_be_too_late(left: float, expected: Action) -> None:
    training = make_training(start_seconds=600.0)
    state = make_state(seconds=15 * HOUR, left_seconds=left, running="spot")
    assert greedy(training)(state) == expected

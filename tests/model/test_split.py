"""No legs can be made wrong, and they come back from JSON as they were."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.model.split import Early, MigrationPart, Move, Progress, Reached, Saving, Segment, SplitPlan


def make_part(seconds: float = 2.0, **changes: Any) -> MigrationPart:
    fields: dict[str, Any] = {"seconds": Interval.within_factor(seconds, 3), "found": "assumed", "how": "1 GiB / …"}
    return MigrationPart(**(fields | changes))


def make_move(**changes: Any) -> Move:
    fields: dict[str, Any] = {
        **dict.fromkeys(("checkpoint", "upload", "download", "restore"), make_part()),
        "bytes": Interval.within_factor(1e9, 1.1),
        "machine_usd": Interval.exactly(0.01),
        "transfer_usd": Interval.exactly(0.0),
    }
    return Move(**(fields | changes))


def make_leg(first_epoch: int, last_epoch: int, machine: str, **changes: Any) -> Segment:
    epochs = last_epoch - first_epoch + 1
    seconds = Interval.within_factor(60.0 * epochs, 2)
    estimate = make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name=machine))),
        epochs=epochs,
        seconds=seconds,
        phases=(Phase(name="steady iterations", seconds=seconds),),
    )
    fields: dict[str, Any] = {"first_epoch": first_epoch, "last_epoch": last_epoch, "estimate": estimate}
    return Segment(**(fields | changes))


def make_legs(**changes: Any) -> SplitPlan:
    first, second = make_leg(1, 3, "fast"), make_leg(4, 10, "cheap")
    move = make_move()
    fields: dict[str, Any] = {
        "legs": (first, second),
        "move": move,
        "seconds": first.estimate.seconds + move.seconds + second.estimate.seconds,
        "usd": first.estimate.usd + move.usd + second.estimate.usd,
        "instead_of": make_estimate(),
        "saving": Saving(quantity="usd", amount=Interval(value=1.0, low=0.5, high=2.0), share=0.4),
    }
    return SplitPlan(**(fields | changes))


def test_legs_add_up_and_know_where_they_are_split() -> None:
    legs = make_legs()
    assert legs.split_after == 3
    assert legs.seconds.value == pytest.approx(600 + 8)
    assert [leg.epochs for leg in legs.legs] == [3, 7]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"legs": (make_leg(1, 3, "fast"),)}, "two legs"),
        ({"legs": (make_leg(1, 3, "fast"), make_leg(5, 10, "cheap"))}, "goes on after epoch 3"),
        ({"legs": (make_leg(2, 3, "fast"), make_leg(4, 10, "cheap"))}, "goes on after"),
        ({"legs": (make_leg(1, 3, "fast"), make_leg(4, 10, "fast"))}, "are one"),
        ({"seconds": Interval.exactly(1.0)}, "add up to"),
        ({"usd": Interval.exactly(9.0)}, "add up to"),
        ({"saving": None}, "against a single machine"),
        ({"instead_of": None}, "against a single machine"),
    ],
)
def test_legs_that_do_not_fit_together_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_legs(**changes)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (make_part, {"how": " "}),
        (make_part, {"found": "nothing"}),
        (Early, {"metric": "", "value": 1.0}),
        (Early, {"metric": "loss", "value": math.nan}),
        (Early, {"metric": "loss", "value": 1.0, "seconds": 0.0}),
        (Progress, {"metric": "loss", "before": math.inf, "after": 1.0}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(0.0), "share": 0.1}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(1.0), "share": 1.1}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(1.0), "share": math.nan}),
    ],
)
def test_parts_that_cannot_be_are_refused(make: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make(**changes)


@pytest.mark.parametrize("changes", [{"first_epoch": 0}, {"last_epoch": 2}, {"delta": 0.0}])
def test_a_leg_is_of_the_epochs_that_its_estimate_is_of(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        replace(make_leg(1, 3, "fast"), **changes)


def test_what_a_dollar_does_to_the_metric() -> None:
    leg = make_leg(1, 3, "fast", progress=Progress(metric="loss", before=2.3, after=0.5))
    assert leg.gained_per_usd == pytest.approx(1.8 / leg.estimate.usd.value)
    assert make_leg(1, 3, "fast").gained_per_usd is None


finite = st.floats(-1e9, 1e9)
parts = st.builds(
    MigrationPart,
    seconds=strategies.intervals(),
    found=st.sampled_from(["measured", "assumed", "stated"]),
    how=strategies.texts,
)
moves = st.builds(
    Move,
    checkpoint=parts,
    upload=parts,
    download=parts,
    restore=parts,
    bytes=st.none() | strategies.intervals(),
    machine_usd=strategies.intervals(),
    transfer_usd=strategies.intervals(),
)


@st.composite
def any_legs(draw: st.DrawFn) -> SplitPlan:
    k, n = draw(st.integers(1, 100)), draw(st.integers(1, 100))
    first, second = (replace(draw(strategies.estimates()), epochs=epochs) for epochs in (k, n))
    move = draw(moves)
    alone = draw(st.none() | strategies.estimates())
    reached = st.builds(
        Reached,
        early=st.builds(Early, metric=strategies.texts, value=finite, seconds=st.none() | strategies.positive),
        epochs=strategies.intervals(strategies.positive),
        seconds=strategies.intervals(),
    )
    progress = st.none() | st.builds(Progress, metric=strategies.texts, before=finite, after=finite)
    saving = st.builds(Saving, amount=strategies.intervals(strategies.positive), share=st.floats(0, 1))
    if first.candidate == second.candidate:
        second = replace(second, candidate=replace(second.candidate, nodes=second.candidate.nodes + 1))
    return SplitPlan(
        legs=(
            Segment(first_epoch=1, last_epoch=k, estimate=first, delta=draw(st.none() | strategies.positive)),
            Segment(first_epoch=k + 1, last_epoch=k + n, estimate=second, progress=draw(progress)),
        ),
        move=move,
        seconds=first.seconds + move.seconds + second.seconds,
        usd=first.usd + move.usd + second.usd,
        instead_of=alone,
        saving=None if alone is None else draw(saving),
        reached=draw(st.none() | reached),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(any_legs())
def test_legs_come_back_from_json_as_they_were(legs: SplitPlan) -> None:
    assert msgspec.json.decode(msgspec.json.encode(legs), type=SplitPlan) == legs

"""Split plans: invalid ones are refused, and all come back from JSON as they were."""

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
from trainfare.model.split import (
    EarlyTarget,
    EarlyTargetEstimate,
    Migration,
    MigrationPart,
    Progress,
    Saving,
    Segment,
    SplitPlan,
)


def make_part(seconds: float = 2.0, **changes: Any) -> MigrationPart:
    fields: dict[str, Any] = {"seconds": Interval.within_factor(seconds, 3), "basis": "assumed", "how": "1 GiB / …"}
    return MigrationPart(**(fields | changes))


def make_migration(**changes: Any) -> Migration:
    fields: dict[str, Any] = {
        **dict.fromkeys(("checkpoint", "upload", "download", "restore"), make_part()),
        "bytes": Interval.within_factor(1e9, 1.1),
        "machine_usd": Interval.exactly(0.01),
        "transfer_usd": Interval.exactly(0.0),
    }
    return Migration(**(fields | changes))


def make_segment(first_epoch: int, last_epoch: int, machine: str, **changes: Any) -> Segment:
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


def make_split(**changes: Any) -> SplitPlan:
    first, second = make_segment(1, 3, "fast"), make_segment(4, 10, "cheap")
    migration = make_migration()
    fields: dict[str, Any] = {
        "segments": (first, second),
        "migration": migration,
        "seconds": first.estimate.seconds + migration.seconds + second.estimate.seconds,
        "usd": first.estimate.usd + migration.usd + second.estimate.usd,
        "single_machine": make_estimate(),
        "saving": Saving(quantity="usd", amount=Interval(value=1.0, low=0.5, high=2.0), share=0.4),
    }
    return SplitPlan(**(fields | changes))


def test_a_split_plan_knows_its_total_and_its_split() -> None:
    plan = make_split()
    assert plan.split_after == 3
    assert plan.seconds.value == pytest.approx(600 + 8)
    assert [segment.epochs for segment in plan.segments] == [3, 7]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"segments": (make_segment(1, 3, "fast"),)}, "two segments"),
        ({"segments": (make_segment(1, 3, "fast"), make_segment(5, 10, "cheap"))}, "the second starts with epoch 5"),
        ({"segments": (make_segment(2, 3, "fast"), make_segment(4, 10, "cheap"))}, "follow each other from epoch 1"),
        ({"segments": (make_segment(1, 3, "fast"), make_segment(4, 10, "fast"))}, "different machines"),
        ({"seconds": Interval.exactly(1.0)}, "add up to"),
        ({"usd": Interval.exactly(9.0)}, "add up to"),
        ({"saving": None}, "must be given together"),
        ({"single_machine": None}, "must be given together"),
    ],
)
def test_a_split_plan_that_does_not_fit_together_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_split(**changes)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (make_part, {"how": " "}),
        (make_part, {"basis": "nothing"}),
        (EarlyTarget, {"metric": "", "value": 1.0}),
        (EarlyTarget, {"metric": "loss", "value": math.nan}),
        (EarlyTarget, {"metric": "loss", "value": 1.0, "seconds": 0.0}),
        (Progress, {"metric": "loss", "before": math.inf, "after": 1.0}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(0.0), "share": 0.1}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(1.0), "share": 1.1}),
        (Saving, {"quantity": "usd", "amount": Interval.exactly(1.0), "share": math.nan}),
    ],
)
def test_invalid_parts_are_refused(make: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make(**changes)


@pytest.mark.parametrize("changes", [{"first_epoch": 0}, {"last_epoch": 2}, {"delta": 0.0}])
def test_a_segment_has_the_epochs_of_its_estimate(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        replace(make_segment(1, 3, "fast"), **changes)


def test_the_change_of_the_metric_per_dollar() -> None:
    segment = make_segment(1, 3, "fast", progress=Progress(metric="loss", before=2.3, after=0.5))
    assert segment.change_per_usd == pytest.approx(1.8 / segment.estimate.usd.value)
    assert make_segment(1, 3, "fast").change_per_usd is None


finite = st.floats(-1e9, 1e9)
parts = st.builds(
    MigrationPart,
    seconds=strategies.intervals(),
    basis=st.sampled_from(["measured", "assumed", "stated"]),
    how=strategies.texts,
)
migrations = st.builds(
    Migration,
    checkpoint=parts,
    upload=parts,
    download=parts,
    restore=parts,
    bytes=st.none() | strategies.intervals(),
    machine_usd=strategies.intervals(),
    transfer_usd=strategies.intervals(),
)


@st.composite
def split_plans(draw: st.DrawFn) -> SplitPlan:
    k, n = draw(st.integers(1, 100)), draw(st.integers(1, 100))
    first, second = (replace(draw(strategies.estimates()), epochs=epochs) for epochs in (k, n))
    migration = draw(migrations)
    single = draw(st.none() | strategies.estimates())
    early_targets = st.builds(
        EarlyTargetEstimate,
        target=st.builds(EarlyTarget, metric=strategies.texts, value=finite, seconds=st.none() | strategies.positive),
        epochs=strategies.intervals(strategies.positive),
        seconds=strategies.intervals(),
    )
    progress = st.none() | st.builds(Progress, metric=strategies.texts, before=finite, after=finite)
    saving = st.builds(Saving, amount=strategies.intervals(strategies.positive), share=st.floats(0, 1))
    if first.candidate == second.candidate:
        second = replace(second, candidate=replace(second.candidate, nodes=second.candidate.nodes + 1))
    return SplitPlan(
        segments=(
            Segment(first_epoch=1, last_epoch=k, estimate=first, delta=draw(st.none() | strategies.positive)),
            Segment(first_epoch=k + 1, last_epoch=k + n, estimate=second, progress=draw(progress)),
        ),
        migration=migration,
        seconds=first.seconds + migration.seconds + second.seconds,
        usd=first.usd + migration.usd + second.usd,
        single_machine=single,
        saving=None if single is None else draw(saving),
        early_target=draw(st.none() | early_targets),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(split_plans())
def test_split_plans_come_back_from_json_as_they_were(plan: SplitPlan) -> None:
    assert msgspec.json.decode(msgspec.json.encode(plan), type=SplitPlan) == plan

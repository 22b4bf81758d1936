"""The reasons for a split plan and for a single machine, as data."""

from typing import Any

import pytest

from tests.makers import make_estimate
from tests.model.test_split import make_migration, make_part, make_segment, make_split
from tests.recommender.split.test_search import make_machine
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.reason import Reason
from trainfare.model.split import EarlyTarget, EarlyTargetEstimate, MigrationPart, Progress, Saving
from trainfare.recommender.split.reasons import no_split_reason, split_reasons
from trainfare.recommender.split.search import Split

DEADLINE = Goal(deadline_seconds=36_000.0)


def reasons_by_code(goal: Goal = DEADLINE, *, writes_checkpoints: bool = False, **changes: Any) -> dict[str, Reason]:
    found = split_reasons(make_split(**changes), goal, writes_checkpoints=writes_checkpoints)
    assert {reason.topic for reason in found} == {"why"}
    return {reason.code: reason for reason in found}


def test_the_plan_names_its_segments_limits_and_saving() -> None:
    values = reasons_by_code()["split_plan"].values
    first, second = make_split().segments
    assert values["segments"] == (
        {
            "first_epoch": 1,
            "last_epoch": 3,
            "machine": "aws fast",
            "seconds": first.estimate.seconds.value,
            "usd": first.estimate.usd.value,
        },
        {
            "first_epoch": 4,
            "last_epoch": 10,
            "machine": "aws cheap",
            "seconds": second.estimate.seconds.value,
            "usd": second.estimate.usd.value,
        },
    )
    assert (values["deadline_seconds"], values["budget_usd"], values["confidence"]) == (36_000.0, None, 0.9)
    assert values["single_machine"] == "aws g4dn.xlarge"
    assert values["saving"] == {
        "quantity": "usd",
        "amount": 1.0,
        "low": 0.5,
        "high": 2.0,
        "confidence": 0.9,
        "share": 0.4,
    }


@pytest.mark.parametrize("quantity", ["seconds", "score"])
def test_the_saving_is_in_the_quantity_of_the_goal(quantity: Any) -> None:
    saving = Saving(quantity=quantity, amount=Interval.exactly(0.3), share=0.2)
    found = reasons_by_code(saving=saving)["split_plan"].values["saving"]
    assert isinstance(found, dict)
    assert (found["quantity"], found["amount"]) == (quantity, 0.3)


def test_without_a_single_machine_there_is_no_saving() -> None:
    values = reasons_by_code(single_machine=None, saving=None)["split_plan"].values
    assert (values["single_machine"], values["saving"]) == (None, None)


def test_the_migration_has_every_part_with_its_basis() -> None:
    nothing = MigrationPart(seconds=Interval.exactly(0.0), basis="nothing", how="there already")
    first, second = make_split().segments
    migration = make_migration(upload=make_part(basis="stated"), download=nothing, checkpoint=make_part(4.0))
    seconds = first.estimate.seconds + migration.seconds + second.estimate.seconds
    values = reasons_by_code(migration=migration, seconds=seconds)["migration_cost"].values
    assert values["parts"] == (
        {"part": "checkpoint", "seconds": 4.0, "basis": "assumed"},
        {"part": "upload", "seconds": 2.0, "basis": "stated"},
        {"part": "download", "seconds": 0.0, "basis": "nothing"},
        {"part": "restore", "seconds": 2.0, "basis": "assumed"},
    )
    assert (values["seconds"], values["bytes"]) == (8.0, 1e9)


def test_an_early_target_has_its_epochs_and_its_time() -> None:
    """With 90% confidence at most 3600 s · (7000/3600)^0.7791 = 3600 s · 1.6788."""
    early = EarlyTargetEstimate(
        target=EarlyTarget(metric="loss", value=0.5, seconds=7200.0),
        epochs=Interval(value=3.0, low=2.0, high=5.0),
        seconds=Interval(value=3600.0, low=3000.0, high=7000.0),
    )
    assert "early_target_expected" not in reasons_by_code()
    values = reasons_by_code(early_target=early)["early_target_expected"].values
    assert values["seconds_high"] == pytest.approx(6043.8, abs=0.1)
    assert values == {
        "metric": "loss",
        "value": 0.5,
        "limit_seconds": 7200.0,
        "epochs": 3.0,
        "epochs_low": 2.0,
        "epochs_high": 5.0,
        "confidence": 0.9,
        "seconds": 3600.0,
        "seconds_high": values["seconds_high"],
        "bound_confidence": 0.9,
    }


def test_delta_and_progress_of_each_segment_are_given_if_known() -> None:
    assert not {"split_deltas", "split_progress"} & set(reasons_by_code())
    progress = Progress(metric="loss", before=2.3, after=0.5)
    first, second = make_segment(1, 3, "fast", delta=1.25, progress=progress), make_segment(4, 10, "cheap", delta=1.0)
    found = reasons_by_code(segments=(first, second))
    assert found["split_deltas"].values["machines"] == (
        {"machine": "aws fast", "delta": 1.25},
        {"machine": "aws cheap", "delta": 1.0},
    )
    assert found["split_progress"].values["segments"] == (
        {
            "first_epoch": 1,
            "last_epoch": 3,
            "metric": "loss",
            "before": 2.3,
            "after": 0.5,
            "change_per_usd": first.change_per_usd,
        },
    )


@pytest.mark.parametrize("writes_checkpoints", [True, False])
def test_the_program_must_resume_after_the_split(writes_checkpoints: bool) -> None:
    found = reasons_by_code(writes_checkpoints=writes_checkpoints)["program_must_resume"]
    assert found.values == {"after": 3, "writes_checkpoints": writes_checkpoints}


def test_the_reason_against_a_split_depends_on_what_was_found() -> None:
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    split, single = Split(first=0, second=1, after=5, score=60, seconds=200, usd=60), make_estimate()
    uncertain = no_split_reason(split, machines, single, DEADLINE)
    assert uncertain.code == "split_saving_uncertain"
    assert uncertain.values == {
        "after": 5,
        "first": "aws fast",
        "second": "aws cheap",
        "seconds": 200,
        "usd": 60,
        "single_machine": "aws g4dn.xlarge",
        "single_seconds": single.seconds.value,
        "single_usd": single.usd.value,
    }
    worse = no_split_reason(None, machines, single, DEADLINE)
    assert (worse.code, worse.values["deadline_seconds"]) == ("no_split_is_better", 36_000.0)
    outside = no_split_reason(None, machines, None, Goal())
    assert (outside.code, outside.values["deadline_seconds"]) == ("no_split_within_limits", None)

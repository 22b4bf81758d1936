"""The sentences and the record of a split plan."""

from dataclasses import replace
from typing import Any

import pytest

from tests.makers import make_estimate
from tests.model.test_split import make_migration, make_part, make_segment, make_split
from tests.recommender.split.test_search import make_machine
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.reason import Reason
from trainfare.model.split import EarlyTarget, EarlyTargetEstimate, MigrationPart, Progress, Saving
from trainfare.recommender.split.reasons import no_split_reason, single_machine_reason, split_reasons
from trainfare.recommender.split.search import Split
from trainfare.views.reasons import sentence
from trainfare.views.split import segment_epochs, split_record

DEADLINE = Goal(deadline_seconds=36_000.0)


def reason_of(code: str, goal: Goal = DEADLINE, *, writes_checkpoints: bool = False, **changes: Any) -> Reason:
    found = split_reasons(make_split(**changes), goal, writes_checkpoints=writes_checkpoints)
    return next(reason for reason in found if reason.code == code)


def test_the_plan_is_one_sentence_with_machines_limit_and_saving() -> None:
    assert sentence(reason_of("split_plan")) == (
        "split training: epochs 1 – 3 on aws fast (3 min, $0.53), then epochs 4 – 10 on aws cheap (7 min, $0.53); "
        "10 min 8 s, $1.06 in total, within 10 h with 90% confidence; it saves $1.00 (40%; 90% interval $0.50 – $2.00) "
        "relative to aws g4dn.xlarge alone"
    )


def test_a_plan_that_was_not_requested_names_the_argument_that_plans_it() -> None:
    reason = replace(reason_of("split_plan"), arguments={"split": True})
    assert sentence(reason).endswith("; to plan it, pass split=True")
    assert sentence(reason, lambda _: "--split").endswith("; to plan it, pass --split")


@pytest.mark.parametrize(
    ("saving", "expected"),
    [
        (Saving(quantity="seconds", amount=Interval.exactly(7200.0), share=0.2), "it saves 2 h (20%; 90% interval"),
        (Saving(quantity="score", amount=Interval.exactly(0.3), share=0.2), "it saves 20% of the weighted sum of time"),
    ],
)
def test_the_saving_has_the_unit_of_its_quantity(saving: Saving, expected: str) -> None:
    assert expected in sentence(reason_of("split_plan", saving=saving))


def test_a_plan_without_a_single_machine_says_so() -> None:
    reason = reason_of("split_plan", single_machine=None, saving=None)
    assert sentence(reason).endswith("; no single machine is within the limits")


def test_the_migration_leaves_out_parts_with_nothing_to_do() -> None:
    nothing = MigrationPart(seconds=Interval.exactly(0.0), basis="nothing", how="there already")
    first, second = make_split().segments
    migration = make_migration(upload=make_part(basis="stated"), download=nothing, checkpoint=make_part(4.0))
    seconds = first.estimate.seconds + migration.seconds + second.estimate.seconds
    assert sentence(reason_of("migration_cost", migration=migration, seconds=seconds)) == (
        "the migration takes 8 s and costs $0.010 (checkpoint of 0.931 GiB: write 4 s, upload 2 s, load 2 s; assumed "
        "and stated); starting the second machine takes 0 s, which is part of its segment"
    )


@pytest.mark.parametrize(("size", "expected"), [(None, "of unknown size"), (5e6, "of 4.77 MiB")])
def test_the_size_of_the_checkpoint(size: float | None, expected: str) -> None:
    migration = make_migration(bytes=None if size is None else Interval.exactly(size))
    assert expected in sentence(reason_of("migration_cost", migration=migration))


def test_an_early_target_has_its_epoch_and_its_time() -> None:
    early = EarlyTargetEstimate(
        target=EarlyTarget(metric="loss", value=0.5, seconds=7200.0),
        epochs=Interval(value=3.0, low=2.0, high=5.0),
        seconds=Interval(value=3600.0, low=3000.0, high=7000.0),
    )
    assert sentence(reason_of("early_target_expected", early_target=early)) == (
        "loss is expected to reach 0.5 after epoch 3 (90% interval 2 – 5), 1 h after the start (at most 1 h 41 min "
        "with 90% confidence); the limit is 2 h"
    )


def test_delta_and_progress_of_the_segments() -> None:
    progress = Progress(metric="loss", before=2.3, after=0.5)
    first = make_segment(1, 1, "fast", delta=1.25, progress=progress)
    second = make_segment(2, 10, "cheap", delta=1.0, progress=replace(progress, before=0.5, after=0.4))
    total = first.estimate.seconds + make_migration().seconds + second.estimate.seconds
    changes: dict[str, Any] = {"segments": (first, second), "seconds": total}
    assert sentence(reason_of("split_deltas", **changes)).endswith(": 1.2 on aws fast, 1 on aws cheap")
    assert sentence(reason_of("split_progress", **changes)) == (
        "by the fitted curve, epoch 1 changes loss from 2.3 to 0.5, 3.4 per dollar; epochs 2 – 10 change loss from 0.5 "
        "to 0.4, 0.19 per dollar"
    )


def test_what_the_program_must_be_able_to_do() -> None:
    assert "the profile saw no checkpoint" in sentence(reason_of("program_must_resume"))
    seen = reason_of("program_must_resume", writes_checkpoints=True)
    assert sentence(seen) == "the program must be able to resume from its own checkpoint of epoch 3"


def test_reasons_against_a_split() -> None:
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    split = Split(first=0, second=1, after=5, score=60, seconds=200, usd=60)
    uncertain = sentence(no_split_reason(split, machines, make_estimate(), DEADLINE))
    assert uncertain.startswith("5 epochs on aws fast and the rest on aws cheap would take 3 min 20 s and cost $60.00")
    assert uncertain.endswith("the saving is smaller than its uncertainty, so one machine is recommended")
    worse = sentence(no_split_reason(None, machines, make_estimate(), DEADLINE))
    assert worse.startswith("within 10 h, no split over two machines is better")
    outside = sentence(no_split_reason(None, machines, None, Goal(deadline_seconds=36_000.0, budget_usd=20.0)))
    assert outside == "no split over two machines is within 10 h and $20.00 either"
    assert "the limit of the early target" in sentence(no_split_reason(None, machines, None, Goal()))


@pytest.mark.parametrize("code", ["split_needs_limit", "one_epoch_cannot_be_split", "split_not_on_spot"])
def test_reasons_without_numbers_have_a_sentence(code: str) -> None:
    assert "machine" in sentence(single_machine_reason(code)) or "epoch" in sentence(single_machine_reason(code))


def test_a_single_epoch_is_not_written_as_a_range() -> None:
    assert segment_epochs(make_segment(1, 1, "fast")) == "epoch 1"
    assert segment_epochs(make_segment(2, 10, "cheap")) == "epochs 2 – 10"


def test_the_record_keeps_its_keys() -> None:
    early = EarlyTargetEstimate(
        target=EarlyTarget(metric="loss", value=0.5, seconds=7200.0),
        epochs=Interval(value=3.0, low=2.0, high=5.0),
        seconds=Interval(value=3600.0, low=3000.0, high=7000.0),
    )
    record = split_record(make_split(early_target=early))
    assert set(record) == {
        *("legs", "move", "instead_of", "saving", "reached"),
        *("seconds", "seconds_low", "seconds_high", "usd", "usd_low", "usd_high"),
    }
    assert [(leg["first_epoch"], leg["last_epoch"], leg["machine"]) for leg in record["legs"]] == [
        (1, 3, "fast"),
        (4, 10, "cheap"),
    ]
    assert set(record["move"]["parts"]) == {"checkpoint", "upload", "download", "restore"}
    assert record["instead_of"]["machine"] == "g4dn.xlarge"
    assert record["saving"] == {
        "quantity": "usd",
        "share": 0.4,
        "amount": 1.0,
        "amount_low": 0.5,
        "amount_high": 2.0,
    }
    assert record["reached"] == {
        "metric": "loss",
        "value": 0.5,
        "seconds": 7200.0,
        "epochs": 3.0,
        "epochs_low": 2.0,
        "epochs_high": 5.0,
    }

"""Plans of document version 1, as an earlier release stored them, can still be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from trainfare.model.document import VERSION, from_document, to_document
from trainfare.model.plan import Plan

OLD_PLAN = Path(__file__).parent / "plan_version_1.json"


def old_document(**changes: Any) -> dict[str, Any]:
    """A plan with five topics and two segments, written by the release before version 2."""
    document: dict[str, Any] = json.loads(OLD_PLAN.read_text())
    return document | changes


def test_sentences_and_topics_become_reasons() -> None:
    plan = from_document(Plan, old_document())
    assert [(reason.topic, reason.code, reason.values["text"]) for reason in plan.reasons] == [
        ("why", "text", "cheapest of 2 candidates"),
        ("certainty", "text", "measured there"),
        ("changes", "text", "with 3 epochs aws g5 would win"),
        ("charges", "text", "starting takes long"),
        ("assumptions", "text", "10 epochs are assumed"),
    ]


def test_reasons_without_topics_are_about_why() -> None:
    plan = from_document(Plan, old_document(topics=[]))
    assert {reason.topic for reason in plan.reasons} == {"why"}


def test_legs_become_a_split_plan() -> None:
    split = from_document(Plan, old_document()).split
    assert split is not None
    assert [(segment.first_epoch, segment.last_epoch) for segment in split.segments] == [(1, 3), (4, 10)]
    assert split.migration.upload.basis == "assumed"
    assert split.single_machine is not None
    assert split.early_target is not None
    assert (split.early_target.target.metric, split.early_target.target.seconds) == ("loss", 7200)


def test_a_plan_without_legs_has_no_split_plan() -> None:
    assert from_document(Plan, old_document(legs=None)).split is None


def test_an_upgraded_plan_is_stored_at_the_current_version() -> None:
    plan = from_document(Plan, old_document())
    stored = to_document(plan)
    assert stored["version"] == VERSION
    assert from_document(Plan, stored) == plan


@pytest.mark.parametrize("topics", [["why"], ["why"] * 6])
def test_a_damaged_old_plan_is_refused(topics: list[str]) -> None:
    with pytest.raises(ValueError, match="5 reasons and"):
        from_document(Plan, old_document(topics=topics))

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.makers import NOON, make_submission


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": " "}, "id must not be empty"),
        ({"program": ""}, "program must not be empty"),
        ({"profile_ids": ()}, "profile_ids must not be empty"),
        ({"profile_ids": ("p1", "")}, "profile_id must not be empty"),
        ({"profile_ids": ("p1", "p1")}, "twice"),
        ({"user": "\ud800"}, "user has bytes that are not text"),
        ({"submitted_at": datetime(2026, 11, 16, 12)}, "submitted_at must have a time zone"),  # noqa: DTZ001 # the missing time zone is what is tested
        ({"deadline_at": datetime(2026, 11, 17, 12)}, "deadline_at must have a time zone"),  # noqa: DTZ001 # the missing time zone is what is tested
        ({"epochs": 0}, "epochs must be positive"),
        ({"iterations_per_epoch": 0}, "iterations_per_epoch must be positive"),
        ({"most_gpus": 0}, "most_gpus must be positive"),
        ({"late_usd_per_hour": -1.0}, "late_usd_per_hour must not be negative"),
        ({"late_usd_per_hour": float("nan")}, "late_usd_per_hour must not be negative"),
        ({"deadline_at": NOON}, "must lie after submitted_at"),
        ({"deadline_at": NOON - timedelta(seconds=1)}, "must lie after submitted_at"),
        ({"deadline_at": None, "late_usd_per_hour": 1.0}, "needs a deadline_at"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else ",".join(value),
)
def test_an_invalid_submission_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_submission(**change)


def test_a_deadline_may_have_no_price_of_lateness() -> None:
    assert make_submission(late_usd_per_hour=0.0).deadline_at is not None

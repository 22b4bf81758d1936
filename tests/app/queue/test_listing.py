"""Submissions: made, listed and withdrawn."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.app.queue_makers import HOUR, store, store_submission, t4_profile
from tests.makers import make_program
from trainfare.app.queue.listing import cancel_jobs, list_queue
from trainfare.app.queue.submit import LATE_USD_PER_HOUR, submit_job
from trainfare.errors import NotFoundError, UsageError


def test_submission_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    store(t4_profile())
    before = datetime.now(UTC)
    found = submit_job(["p7k2"], epochs=90, deadline=timedelta(hours=6)).submission
    assert list_queue().submissions == (found,)
    assert (found.profile_ids, found.program, found.epochs, found.user) == (("p7k2",), "train.py", 90, "grace")
    assert before <= found.submitted_at <= datetime.now(UTC)
    assert found.deadline_at == found.submitted_at + 6 * HOUR
    assert found.late_usd_per_hour == LATE_USD_PER_HOUR


def test_newest_profile_is_submitted_by_default() -> None:
    store(
        t4_profile(),
        t4_profile(id="p8", measured_at=datetime.now(UTC), program=make_program(command=("python", "new.py"))),
    )
    assert submit_job().submission.profile_ids == ("p8",)


def test_deadline_without_a_time_zone_is_local() -> None:
    store(t4_profile())
    tomorrow = datetime.now().replace(microsecond=0) + timedelta(days=1)  # noqa: DTZ005 # the missing time zone is what is tested
    assert submit_job(deadline=tomorrow).submission.deadline_at == tomorrow.astimezone(UTC)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deadline": datetime(2026, 1, 2, 9, tzinfo=UTC)}, "2026-01-02 09:00 UTC has passed"),
        ({"deadline": timedelta(0)}, "has passed"),
        ({"deadline": timedelta.max}, "outside the calendar"),
        ({"deadline": datetime(1, 1, 1)}, "outside the calendar|has passed"),  # noqa: DTZ001 # a user may pass a time without a zone
        ({"deadline": datetime(2226, 11, 18, tzinfo=UTC)}, "2226-11-18 is more than ten years from now"),
        ({"late_usd_per_hour": 5.0}, "needs a deadline"),
        ({"deadline": HOUR, "late_usd_per_hour": -1.0}, "can cost from \\$0 to"),
        ({"deadline": HOUR, "late_usd_per_hour": math.nan}, "can cost from \\$0 to"),
        ({"deadline": HOUR, "late_usd_per_hour": 1e300}, "can cost from \\$0 to"),
        ({"epochs": 10**30}, "1e\\+30 epochs are not supported"),
        ({"user": "a\nb"}, "characters that cannot be printed"),
        ({"epochs": 0}, "greater than 0"),
        ({"gpus": 0}, "at least one GPU"),
    ],
    ids=[
        "past",
        "now",
        "never",
        "year 1",
        "2226",
        "alone",
        "negative",
        "nan",
        "expensive",
        "endless",
        "unseen",
        "none",
        "no GPU",
    ],
)
def test_invalid_submission_is_refused_and_not_stored(arguments: dict[str, Any], message: str) -> None:
    store(t4_profile())
    with pytest.raises(UsageError, match=message):
        submit_job(["p7k2"], **arguments)
    assert list_queue().submissions == ()


def test_unknown_profile_error_names_the_nearest() -> None:
    store(t4_profile())
    with pytest.raises(NotFoundError, match="Did you mean p7k2"):
        submit_job(["p7k"])


def test_program_without_iterations_per_epoch_is_refused() -> None:
    store(t4_profile(iterations_per_epoch=None, samples=None))
    with pytest.raises(UsageError) as caught:
        submit_job(["p7k2"], epochs=3)
    assert caught.value.field == "iterations_per_epoch"
    assert submit_job(["p7k2"], epochs=3, iterations_per_epoch=10).submission.iterations_per_epoch == 10


def test_user_that_is_not_text_is_refused() -> None:
    store(t4_profile())
    with pytest.raises(UsageError, match="not text"):
        submit_job(["p7k2"], user="\udcff")


def test_free_lateness_gives_a_remark() -> None:
    store(t4_profile())
    found = submit_job(["p7k2"], epochs=3, deadline=HOUR, late_usd_per_hour=0.0)
    assert found.submission.late_usd_per_hour == 0
    assert "free_lateness" in [remark.code for remark in found.remarks]


def test_assumptions_are_remarks() -> None:
    store(t4_profile())
    remarks = submit_job(["p7k2"], deadline=HOUR).remarks
    assert [remark.code for remark in remarks] == ["epochs_assumed", "single_gpu", "default_lateness_cost"]
    assert remarks[0].values == {"epochs": 10}
    assert remarks[2].values == {"usd_per_hour": LATE_USD_PER_HOUR}


def test_withdraw_removes_all_or_none() -> None:
    store(t4_profile())
    store_submission("s1")
    store_submission("s2")
    with pytest.raises(NotFoundError):
        cancel_jobs(["s1", "nothing"])
    assert [each.id for each in list_queue().submissions] == ["s1", "s2"]
    assert cancel_jobs(["s2", "s2"]) == ("s2",)
    assert [each.id for each in list_queue().submissions] == ["s1"]

"""What is put into the queue, listed and taken out again."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.app.queue_makers import HOUR, keep, on_a_t4, submitted
from tests.makers import make_program
from trainfare.app.queue.listing import list_queue, withdraw_jobs
from trainfare.app.queue.submit import LATE_USD_PER_HOUR, submit_job
from trainfare.errors import NotFoundError, UsageError


def test_what_is_submitted_waits_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    keep(on_a_t4())
    before = datetime.now(UTC)
    found = submit_job(["p7k2"], epochs=90, deadline=timedelta(hours=6)).submission
    assert list_queue().submissions == (found,)
    assert (found.profile_ids, found.program, found.epochs, found.user) == (("p7k2",), "train.py", 90, "grace")
    assert before <= found.submitted_at <= datetime.now(UTC)
    assert found.deadline_at == found.submitted_at + 6 * HOUR
    assert found.late_usd_per_hour == LATE_USD_PER_HOUR


def test_the_newest_profile_is_submitted_when_none_is_named() -> None:
    keep(on_a_t4(), on_a_t4(id="p8", measured_at=datetime.now(UTC), program=make_program(command=("python", "new.py"))))
    assert submit_job().submission.profile_ids == ("p8",)


def test_a_moment_without_a_time_zone_is_of_this_machine() -> None:
    keep(on_a_t4())
    tomorrow = datetime.now().replace(microsecond=0) + timedelta(days=1)  # noqa: DTZ005 that is the test
    assert submit_job(deadline=tomorrow).submission.deadline_at == tomorrow.astimezone(UTC)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"deadline": datetime(2026, 1, 2, 9, tzinfo=UTC)}, "deadline 2026-01-02 09:00 UTC has passed"),
        ({"deadline": timedelta(0)}, "has passed"),
        ({"deadline": timedelta.max}, "on no calendar"),
        ({"deadline": datetime(1, 1, 1)}, "on no calendar|has passed"),  # noqa: DTZ001 somebody may say so
        ({"deadline": datetime(2226, 11, 18, tzinfo=UTC)}, "2226-11-18 is more than ten years off"),
        ({"late_usd_per_hour": 5.0}, "give --deadline too"),
        ({"deadline": HOUR, "late_usd_per_hour": -1.0}, "costs from 0 to"),
        ({"deadline": HOUR, "late_usd_per_hour": math.nan}, "costs from 0 to"),
        ({"deadline": HOUR, "late_usd_per_hour": 1e300}, "costs from 0 to"),
        ({"epochs": 10**30}, "nobody trains for 1e\\+30 epochs"),
        ({"user": "a\nb"}, "letters that cannot be seen"),
        ({"epochs": 0}, "at least 1"),
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
        "dear",
        "endless",
        "unseen",
        "none",
        "no GPU",
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_kept(asked: dict[str, Any], said: str) -> None:
    keep(on_a_t4())
    with pytest.raises(UsageError, match=said):
        submit_job(["p7k2"], **asked)
    assert list_queue().submissions == ()


def test_a_profile_that_is_not_there_is_named_with_the_nearest() -> None:
    keep(on_a_t4())
    with pytest.raises(NotFoundError, match="Did you mean p7k2"):
        submit_job(["p7k"])


def test_a_program_whose_epochs_nobody_can_count_is_refused_at_once() -> None:
    keep(on_a_t4(iterations_per_epoch=None, samples=None))
    with pytest.raises(UsageError, match="Give --iterations-per-epoch"):
        submit_job(["p7k2"], epochs=3)
    assert submit_job(["p7k2"], epochs=3, iterations_per_epoch=10).submission.iterations_per_epoch == 10


def test_a_user_that_is_not_text_is_refused() -> None:
    keep(on_a_t4())
    with pytest.raises(UsageError, match="not text"):
        submit_job(["p7k2"], user="\udcff")


def test_lateness_may_cost_nothing_and_that_is_said() -> None:
    keep(on_a_t4())
    found = submit_job(["p7k2"], epochs=3, deadline=HOUR, late_usd_per_hour=0.0)
    assert found.submission.late_usd_per_hour == 0
    assert "lateness costs nothing, so nothing is spent to keep the deadline" in found.remarks


def test_what_was_assumed_is_said() -> None:
    keep(on_a_t4())
    remarks = " ".join(submit_job(["p7k2"], deadline=HOUR).remarks)
    assert "10 epochs are assumed" in remarks
    assert "never seen on several GPUs" in remarks
    assert "an hour late is taken to cost 32.4 $" in remarks


def test_withdrawing_takes_all_or_none() -> None:
    keep(on_a_t4())
    submitted("s1")
    submitted("s2")
    with pytest.raises(NotFoundError):
        withdraw_jobs(["s1", "nothing"])
    assert [each.id for each in list_queue().submissions] == ["s1", "s2"]
    assert withdraw_jobs(["s2", "s2"]) == ("s2",)
    assert [each.id for each in list_queue().submissions] == ["s1"]

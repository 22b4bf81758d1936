"""Submits a training to the team's queue."""

import getpass
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Unpack

from trainfare.app.ids import new_id
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import Workload, build_workload, select_profiles
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.errors import UsageError
from trainfare.model.checks import require_unicode
from trainfare.model.reason import Reason
from trainfare.model.submission import Submission, SubmissionResult
from trainfare.recommender.candidates import uses_several_gpus
from trainfare.scheduler.limits import MAX_LATE_USD_PER_SECOND
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history
from trainfare.units import SECONDS_PER_HOUR, format_count, format_usd

LATE_USD_PER_HOUR = 32.4
"""The default cost of an hour of lateness: the mean of the weights that Jahani et al. (2019) draw,
2·U(0.0015, 0.0075) dollars a second, which range from $10.80 to $54 an hour."""
MAX_LATE_USD_PER_HOUR = MAX_LATE_USD_PER_SECOND * SECONDS_PER_HOUR
MAX_EPOCHS = 10**9
MAX_DEADLINE = timedelta(days=3653)
"""A later deadline is a mistake, such as a year with a digit too many."""


def submit_job(
    profile_ids: Sequence[str] = (),
    *,
    gpus: int | None = None,
    deadline: timedelta | datetime | None = None,
    late_usd_per_hour: float | None = None,
    user: str | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> SubmissionResult:
    """Submits the training of the named profiles, or of the newest one, to the queue.

    Its length is what the fields of a StatedLength say, or else the program. `gpus` is the most GPUs of one machine
    that it can use. `deadline` is a moment (in this machine's time zone if it has none) or a time from now;
    `late_usd_per_hour` is the cost of each hour after it. `user` is by default the user of this process.
    """
    settings = settings or read_settings()
    now = datetime.now(UTC)
    stated = StatedLength(**length)
    if stated.epochs is not None and stated.epochs > MAX_EPOCHS:
        raise UsageError(
            f"{stated.epochs:.3g} epochs are not supported: give at most {format_count(MAX_EPOCHS)}.", field="epochs"
        )
    deadline_at = _deadline(deadline, now)
    weight = _late_usd_per_hour(late_usd_per_hour, deadline_at)
    if gpus is not None and gpus < 1:
        raise UsageError(f"a training needs at least one GPU, got {gpus}.", field="gpus")
    with open_existing_history(settings.store) as history:
        profiles = stated.apply(select_profiles(history, profile_ids))
        workload = build_workload(
            profiles,
            decide=partial(decide_epochs, stated, leading=profiles[0]),
            iterations_per_epoch=stated.iterations_per_epoch,
            overheads=None,
            settings=settings,
        )
        submission = Submission(
            id=new_id("s"),
            profile_ids=tuple(dict.fromkeys(profile_ids)) or (profiles[0].id,),
            program=profiles[0].program.name,
            submitted_at=now,
            **length,
            most_gpus=gpus,
            deadline_at=deadline_at,
            late_usd_per_hour=weight,
            user=_user_name(user),
        )
        history.submissions.add(submission)
    remarks = _remarks(submission, workload, default_lateness=late_usd_per_hour is None)
    return SubmissionResult(submission=submission, remarks=tuple(remarks))


def _remarks(submission: Submission, workload: Workload, *, default_lateness: bool) -> Iterator[Reason]:
    if workload.leading.length.reason is not None:
        yield workload.leading.length.reason
    if submission.most_gpus is None and not uses_several_gpus(workload.predictor.profiles):
        yield Reason(topic="assumptions", code="single_gpu", arguments={"gpus": "N"})
    if submission.deadline_at is None:
        return
    if default_lateness:
        yield Reason(
            topic="assumptions",
            code="default_lateness_cost",
            values={"usd_per_hour": submission.late_usd_per_hour},
            arguments={"late_usd_per_hour": "USD"},
        )
    if not submission.late_usd_per_hour:
        yield Reason(topic="assumptions", code="free_lateness")


def _deadline(deadline: timedelta | datetime | None, now: datetime) -> datetime | None:
    if deadline is None:
        return None
    try:
        moment = now + deadline if isinstance(deadline, timedelta) else deadline.astimezone(UTC)
    except (OverflowError, ValueError):
        raise UsageError(
            f"{deadline} is outside the calendar. Give an earlier deadline, or none.", field="deadline"
        ) from None
    if moment - now > MAX_DEADLINE:
        raise UsageError(
            f"{moment:%Y-%m-%d} is more than ten years from now. Give an earlier deadline, or none.", field="deadline"
        )
    if moment <= now:
        raise UsageError(
            f"{moment:%Y-%m-%d %H:%M} UTC has passed: it is {now:%Y-%m-%d %H:%M} UTC now. Give a deadline in the "
            "future, or none.",
            field="deadline",
        )
    return moment


def _late_usd_per_hour(stated: float | None, deadline_at: datetime | None) -> float:
    if deadline_at is None:
        if stated:
            raise UsageError(
                "a cost of lateness needs a deadline: give a deadline too, or no cost.", field="late_usd_per_hour"
            )
        return 0.0
    if stated is None:
        return LATE_USD_PER_HOUR
    if not 0 <= stated <= MAX_LATE_USD_PER_HOUR:
        raise UsageError(
            f"an hour of lateness can cost from $0 to {format_usd(MAX_LATE_USD_PER_HOUR)}, got ${stated:g}.",
            field="late_usd_per_hour",
        )
    return stated


def _user_name(stated: str | None) -> str:
    """The stated user, or the one of this process; empty if the system knows no name."""
    try:
        name = getpass.getuser() if stated is None else stated.strip()
    except (KeyError, OSError):
        return ""
    try:
        require_unicode(user=name)
    except ValueError as error:
        raise UsageError(f"{error}. Give another name.", field="user") from None
    if not all(letter.isprintable() for letter in name):
        raise UsageError(f"the name {name!r} contains characters that cannot be printed. Give another.", field="user")
    return name

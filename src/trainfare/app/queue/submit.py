"""Puts a training into the queue of a team."""

import getpass
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from trainfare.app.ids import new_id
from trainfare.app.queue.limits import DEAREST_USD_PER_SECOND
from trainfare.app.recommending.length import decide_epochs
from trainfare.app.recommending.workload import Workload, build_workload, require_epochs, select_profiles
from trainfare.errors import UsageError
from trainfare.model.checks import require_unicode
from trainfare.model.submission import Submission
from trainfare.recommender.candidates import uses_several_gpus
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history
from trainfare.units import SECONDS_PER_HOUR

LATE_USD_PER_HOUR = 32.4
"""What an hour of lateness costs unless somebody says: the mean of the weights that Jahani et al. (2019) draw,
2·U(0.0015, 0.0075) dollars a second, which go from 10.80 to 54 dollars an hour."""
DEAREST_USD_PER_HOUR = DEAREST_USD_PER_SECOND * SECONDS_PER_HOUR
MOST_EPOCHS = 10**9
FARTHEST = timedelta(days=3653)
"""What is farther off is a mistake: a year with a digit too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """What was put into the queue, and what should be known of it."""

    submission: Submission
    remarks: tuple[str, ...]


def submit_job(
    profile_ids: Sequence[str] = (),
    *,
    epochs: int | None = None,
    iterations_per_epoch: int | None = None,
    gpus: int | None = None,
    deadline: timedelta | datetime | None = None,
    late_usd_per_hour: float | None = None,
    user: str | None = None,
    settings: Settings | None = None,
) -> SubmissionResult:
    """Puts the training of the named profiles, or of the newest, into the queue.

    `gpus` says among how many GPUs of one machine it can share its work. `deadline` is a moment (without a time zone,
    of this machine's) or how long from now; `late_usd_per_hour` what each hour after it costs. `user` is who is
    running this unless said.
    """
    settings = settings or read_settings()
    now = datetime.now(UTC)
    require_epochs(epochs)
    if epochs is not None and epochs > MOST_EPOCHS:
        raise UsageError(f"nobody trains for {epochs:.3g} epochs. Give at most {MOST_EPOCHS:g}.")
    deadline_at = _moment(deadline, now)
    weight = _weight(late_usd_per_hour, deadline_at)
    if gpus is not None and gpus < 1:
        raise UsageError(f"a training needs at least one GPU, got {gpus}.")
    with open_history(settings.store) as history:
        profiles = select_profiles(history, profile_ids)
        workload = build_workload(
            profiles,
            decide=partial(decide_epochs, epochs),
            iterations_per_epoch=iterations_per_epoch,
            overheads=None,
            settings=settings,
        )
        submission = Submission(
            id=new_id("s"),
            profile_ids=tuple(dict.fromkeys(profile_ids)) or (profiles[0].id,),
            program=profiles[0].program.name,
            submitted_at=now,
            epochs=epochs,
            iterations_per_epoch=iterations_per_epoch,
            most_gpus=gpus,
            deadline_at=deadline_at,
            late_usd_per_hour=weight,
            user=_user(user),
        )
        history.submissions.add(submission)
    said = late_usd_per_hour is not None
    return SubmissionResult(submission=submission, remarks=tuple(_remarks(submission, workload, weight_said=said)))


def _remarks(submission: Submission, workload: Workload, *, weight_said: bool) -> Iterator[str]:
    if workload.leading.length.guessed is not None:
        yield workload.leading.length.guessed
    if submission.most_gpus is None and not uses_several_gpus(workload.predictor.profiles):
        yield "it was never seen on several GPUs, so it is given one: --gpus N says that it can share N"
    if submission.deadline_at is not None and not weight_said:
        yield f"an hour late is taken to cost {submission.late_usd_per_hour:g} $: --late-usd-per-hour says otherwise"
    if submission.deadline_at is not None and not submission.late_usd_per_hour:
        yield "lateness costs nothing, so nothing is spent to keep the deadline"


def _moment(deadline: timedelta | datetime | None, now: datetime) -> datetime | None:
    if deadline is None:
        return None
    try:
        moment = now + deadline if isinstance(deadline, timedelta) else deadline.astimezone(UTC)
    except (OverflowError, ValueError):
        raise UsageError(f"the deadline {deadline} is on no calendar. Give a nearer one, or none.") from None
    if moment - now > FARTHEST:
        raise UsageError(f"the deadline {moment:%Y-%m-%d} is more than ten years off. Give a nearer one, or none.")
    if moment <= now:
        raise UsageError(
            f"the deadline {moment:%Y-%m-%d %H:%M} UTC has passed: it is {now:%Y-%m-%d %H:%M} UTC now. "
            "Give one to come, or none."
        )
    return moment


def _weight(stated: float | None, deadline_at: datetime | None) -> float:
    if deadline_at is None:
        if stated:
            raise UsageError("what lateness costs was said, but not from when on: give --deadline too.")
        return 0.0
    if stated is None:
        return LATE_USD_PER_HOUR
    if not 0 <= stated <= DEAREST_USD_PER_HOUR:
        raise UsageError(f"an hour of lateness costs from 0 to {DEAREST_USD_PER_HOUR:g} $, not {stated:g} $.")
    return stated


def _user(stated: str | None) -> str:
    """Who runs this unless said; nobody where the system knows no name."""
    try:
        name = getpass.getuser() if stated is None else stated.strip()
    except (KeyError, OSError):
        return ""
    try:
        require_unicode(user=name)
    except ValueError as error:
        raise UsageError(f"{error}. Name the user with --user.") from None
    if not all(letter.isprintable() for letter in name):
        raise UsageError(f"the name {name!r} has letters that cannot be seen. Name the user with --user.")
    return name

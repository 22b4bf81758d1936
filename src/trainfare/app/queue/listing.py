"""The queue of a team, kept in the store: see what waits, take something out again."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from trainfare.errors import StoreError
from trainfare.model.submission import Submission
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueListing:
    """The oldest first; and a sentence for each that is damaged and therefore left out."""

    submissions: tuple[Submission, ...]
    damaged: tuple[str, ...]


def list_queue(*, settings: Settings | None = None) -> QueueListing:
    with open_history((settings or read_settings()).store) as history:
        return QueueListing(submissions=history.submissions.all(), damaged=history.damaged)


def withdraw_jobs(submission_ids: Sequence[str], *, settings: Settings | None = None) -> tuple[str, ...]:
    """Takes them out of the queue, all or none where one is not there. What was asked for stays in history."""
    unique = tuple(dict.fromkeys(submission_ids))
    with open_history((settings or read_settings()).store) as history:
        for submission_id in unique:
            # One that is damaged is there, and may be withdrawn.
            with suppress(StoreError):
                history.submissions.get(submission_id)
        for submission_id in unique:
            history.submissions.remove(submission_id)
    return unique

"""Lists the submissions of the stored queue, and cancels some of them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from trainfare.errors import StoreError
from trainfare.model.submission import Submission
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueListing:
    """The submissions, the oldest first, and a sentence for each damaged one, which is left out."""

    submissions: tuple[Submission, ...]
    damaged: tuple[str, ...]


def list_queue(*, settings: Settings | None = None) -> QueueListing:
    """The submissions that are in the stored queue."""
    with open_existing_history((settings or read_settings()).store) as history:
        return QueueListing(submissions=history.submissions.all(), damaged=history.damaged)


def cancel_jobs(submission_ids: Sequence[str], *, settings: Settings | None = None) -> tuple[str, ...]:
    """Removes the submissions from the queue, or none of them if one does not exist. They stay in the history."""
    unique = tuple(dict.fromkeys(submission_ids))
    with open_existing_history((settings or read_settings()).store) as history:
        for submission_id in unique:
            # A damaged submission exists, and can be withdrawn.
            with suppress(StoreError):
                history.submissions.get(submission_id)
        for submission_id in unique:
            history.submissions.remove(submission_id)
    return unique

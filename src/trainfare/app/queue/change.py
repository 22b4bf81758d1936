"""Gives a submission of the queue another deadline: a new submission takes its place, because what is stored never
changes."""

import hashlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from trainfare.app.ids import id_from
from trainfare.app.queue.submit import LATE_USD_PER_HOUR, MAX_DEADLINE
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.submission import Submission
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyStoredError
from trainfare.store.open import open_existing_history


def change_deadline(submission_id: str, deadline: datetime | None, *, settings: Settings | None = None) -> Submission:
    """The submission that replaces one, at the same place of the queue; with None it has no deadline any more.

    `NotFoundError` if there is none of this id. The new one is stored before the old one is withdrawn: a process that
    is killed in between leaves both, and the same call again withdraws the old one.
    """
    now = datetime.now(UTC)
    if deadline is not None and not now < deadline <= now + MAX_DEADLINE:
        raise UsageError("A deadline must lie in the future, and within ten years.", field="deadline")
    with open_existing_history((settings or read_settings()).store) as history:
        old = history.submissions.get(submission_id)
        if old.deadline_at == deadline:
            return old
        changed = f"{old.id}\0{deadline.isoformat() if deadline else ''}"
        new = replace(
            old,
            id=id_from("s", hashlib.sha256(changed.encode()).digest()),
            deadline_at=deadline,
            late_usd_per_hour=0.0 if deadline is None else old.late_usd_per_hour or LATE_USD_PER_HOUR,
        )
        with suppress(AlreadyStoredError):
            history.submissions.add(new)
        with suppress(NotFoundError):
            history.submissions.remove(old.id)
    return new

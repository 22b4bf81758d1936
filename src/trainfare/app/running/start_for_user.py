"""Use case: start a run of a user of the server, once, however often it is asked for under the same key.

A client that gets no answer does not know whether its run was started, and asks again with the same key. Two marks in
the store make that safe, also between several server processes and after one of them was killed:

    the lease `start/<run>`    is held for ever by the user and the digest of the request: another request under the
                               same key does not get it
    the id of the run          follows from user and key: the store refuses a second one
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.ids import id_from
from trainfare.app.running.run import start_run
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.run import Run
from trainfare.settings import Settings
from trainfare.store.history import AlreadyStoredError
from trainfare.store.open import open_existing_history, open_history

_FOR_EVER_SECONDS = 100 * 365.25 * 86_400.0
MAX_KEY = 200


class KeyReusedError(UsageError):
    """The key was used for another request."""


def start_for_user(agreed: Callable[[], Run], *, user: str, key: str, request: bytes, settings: Settings) -> str:
    """The id of the run of this user and key: the run that `agreed` makes, stored now, or the one that was stored when
    the same request came before; then `agreed` is not called.

    `KeyReusedError` if the key came before with another `request`.
    """
    if not key.strip() or len(key) > MAX_KEY or not key.isprintable():
        raise UsageError(f"A key has 1 to {MAX_KEY} characters that can be printed.", field="Idempotency-Key")
    run_id = run_id_of(user, key)
    with open_history(settings.store) as history:
        lease = history.leases.take(
            _lease_name(run_id),
            holder=f"{user}/{hashlib.sha256(request).hexdigest()}",
            seconds=_FOR_EVER_SECONDS,
            now=datetime.now(UTC),
        )
        if lease is None:
            raise KeyReusedError(
                "This key was used for another request. Use a new key for a new run, and the same one only to repeat "
                "a request unchanged.",
                field="Idempotency-Key",
            )
        with suppress(NotFoundError):
            return history.runs.get(run_id).id
    # Each run brings its results to a folder of its own, and not over those of another.
    results = Path(settings.runs).absolute() / run_id / "results"
    run = replace(agreed(), id=run_id, user=user, results_directory=str(results))
    with suppress(AlreadyStoredError):  # the same request came twice at once
        start_run(run, settings=settings)
    return run_id


def starter_of(run_id: str, *, settings: Settings) -> str | None:
    """The user of the server who started a run; None if it was started elsewhere."""
    with open_existing_history(settings.store) as history:
        lease = history.leases.current(_lease_name(run_id))
    return None if lease is None else lease.holder.rpartition("/")[0]


def run_id_of(user: str, key: str) -> str:
    """The id of the run that a user starts under a key."""
    return id_from("r", hashlib.sha256(f"{user}\0{key}".encode()).digest())


def _lease_name(run_id: str) -> str:
    return f"start/{run_id}"

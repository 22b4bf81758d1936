"""Use case: inform people and programs that a run has ended or a budget is nearly spent, by a webhook and by e-mail.

Every server process looks for notices, and a lease for each notice and place decides which of them sends it:

    notice/<place>/<notice>    held by `try/<n>`: until the attempt must be over, then until the next attempt,
                               and for ever once it was taken or given up

A process that is killed between sending and noting it leads to a second message with the same id.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from trainfare.app.running.costs import caps_of, user_budget
from trainfare.app.running.status import load_status
from trainfare.clouds.mail import send_mail
from trainfare.clouds.webhook import post_signed
from trainfare.errors import StoreError, TrainfareError, UsageError
from trainfare.model.notice import Notice
from trainfare.settings import Settings
from trainfare.store.history import History, StaleLeaseError
from trainfare.store.open import open_history
from trainfare.views.notices import ended_notice, run_budget_notice, user_budget_notice

NEAR = 0.8
"""The part of a budget from which on it is nearly spent."""
RECENT = timedelta(days=1)
"""A run that ended longer ago is not announced any more."""
TRIES = 10
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 3600.0
_ATTEMPT_SECONDS = 60.0
_FOR_EVER_SECONDS = 100 * 365.25 * 86_400.0
_LOOKED_AT = 100
"""The newest ended runs that are looked at."""
SECRET = "TRAINFARE_WEBHOOK_SECRET"  # noqa: S105 # the name of the variable
PASSWORD = "TRAINFARE_MAIL_PASSWORD"  # noqa: S105 # the name of the variable

_log = logging.getLogger("trainfare.notices")
Place = Callable[[Notice], None]


class NoticeSender:
    """Looks for notices and sends them; it remembers which ones are done, so as not to ask the store again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._places = places_of(settings)
        self._done: set[str] = set()
        self._announced: set[str] = set()

    @property
    def has_places(self) -> bool:
        return bool(self._places)

    def look(self) -> int:
        """Send what is due; the number of messages that were taken."""
        with open_history(self._settings.store) as history:
            return sum(
                self._send(history, name, place, notice)
                for notice in self._notices(history)
                for name, place in self._places.items()
            )

    def _notices(self, history: History) -> Iterator[Notice]:
        now = datetime.now(UTC)
        for run_id in history.facts.ended_runs(limit=_LOOKED_AT):
            if run_id in self._announced:
                continue
            try:
                status = load_status(history, history.runs.get(run_id), now=now)
            except StoreError:
                continue
            if status.facts and status.facts[-1].seen_at < now - RECENT:
                self._announced.add(run_id)
                continue
            notice = ended_notice(status)
            if all(_name(place, notice) in self._done for place in self._places):
                self._announced.add(run_id)
            yield notice
        yield from self._budgets(history, now)

    def _budgets(self, history: History, now: datetime) -> Iterator[Notice]:
        users = set()
        for run_id in history.facts.unended_runs():
            try:
                status = load_status(history, history.runs.get(run_id), now=now)
            except StoreError:
                continue
            users |= {status.run.user} - {None}
            budget = status.run.limits.budget_usd
            if budget is not None and status.receipt.total.paid_usd >= NEAR * budget:
                yield run_budget_notice(status, budget)
        caps = caps_of(self._settings)
        if caps.user_day_usd is caps.user_month_usd is caps.user_total_usd is None:
            return
        for user in sorted(name for name in users if name is not None):
            yield from near_budgets(user, self._settings)

    def _send(self, history: History, place: str, send: Place, notice: Notice) -> bool:
        name = _name(place, notice)
        if name in self._done:
            return False
        now, before = datetime.now(UTC), history.leases.current(name)
        if before is not None and not before.has_run_out(now):
            if before.expires_at > now + timedelta(seconds=2 * LONGEST_PAUSE_SECONDS):
                self._done.add(name)
            return False
        number = 1 if before is None else int(before.holder.split("/")[1]) + 1
        lease = history.leases.take(name, holder=f"try/{number}/{os.getpid()}", seconds=_ATTEMPT_SECONDS, now=now)
        if lease is None:
            return False
        pause, taken = _FOR_EVER_SECONDS, True
        try:
            send(notice)
        except TrainfareError as error:
            taken = False
            _log.warning("notice %s by %s, attempt %d: %s", notice.id, place, number, error.message)
            if number < TRIES and not isinstance(error, UsageError):
                pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (number - 1))
        try:
            history.leases.renew(lease, pause, datetime.now(UTC))
        except StaleLeaseError:
            return taken
        if pause == _FOR_EVER_SECONDS:
            self._done.add(name)
        return taken


def near_budgets(user: str, settings: Settings) -> Iterator[Notice]:
    """A notice for each budget of a user that is nearly spent."""
    budget, today = user_budget(user, settings=settings), datetime.now().astimezone().date()
    periods = {
        "day": (budget.day, f"{today}"),
        "month": (budget.month, f"{today:%Y-%m}"),
        "total": (budget.total, "all"),
    }
    for period, (line, when) in periods.items():
        if line.cap_usd is not None and (line.share or 0.0) >= NEAR:
            yield user_budget_notice(user, period, when, line.spent_usd + line.reserved_usd, line.cap_usd)


def places_of(settings: Settings) -> dict[str, Place]:
    """The places that want notices, by name. `UsageError` if what they need is missing."""
    found: dict[str, Place] = {}
    if settings.webhook is not None:
        secret = os.environ.get(SECRET)
        if not secret:
            raise UsageError(f"A webhook is signed: set {SECRET} to a secret that its receiver knows.", field="webhook")
        found["webhook"] = _webhook(settings.webhook, secret, allow_private=settings.webhook_private)
    if settings.mail_server is not None:
        found["mail"] = _mail(settings)
    return found


def _webhook(url: str, secret: str, *, allow_private: bool) -> Place:
    def send(notice: Notice) -> None:
        message = {"id": notice.id, "event": notice.event, "text": notice.subject, "data": notice.data}
        body = json.dumps(message, allow_nan=False).encode()
        post_signed(url, body, secret=secret, delivery=notice.id, event=notice.event, allow_private=allow_private)

    return send


def _mail(settings: Settings) -> Place:
    server, sender = settings.mail_server or "", settings.mail_from
    if sender is None:
        raise UsageError("E-mail needs a sender: set mail_from.", field="mail_from")
    usual = [each.strip() for each in (settings.mail_to or "").split(",") if each.strip()]

    def send(notice: Notice) -> None:
        """To the usual addresses, and to the user whose name is an address."""
        own = [notice.user] if notice.user and "@" in notice.user and notice.user.isprintable() else []
        to = list(dict.fromkeys([*usual, *own]))
        if to:
            number = hashlib.sha256(notice.id.encode()).hexdigest()[:32]
            password = os.environ.get(PASSWORD)
            send_mail(
                server, sender=sender, to=to, subject=notice.subject, text=notice.text, number=number, password=password
            )

    return send


def _name(place: str, notice: Notice) -> str:
    return f"notice/{place}/{notice.id}"

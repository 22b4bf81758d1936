"""Recommendations from estimates that are remembered, so that another goal, deadline or budget is answered at once.

Estimating every candidate takes most of the time of a question, and does not depend on the goal, the deadline or the
budget. The last few are kept, by the question and by the state of everything else that they depend on: a new profile,
an ended run or a new price table leads to new estimates.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from trainfare.app.recommending.question import Question
from trainfare.app.recommending.recommend import Recommendation, choose_plan, estimate_candidates
from trainfare.app.recommending.search import SearchResult
from trainfare.app.recommending.state import estimation_state
from trainfare.settings import Settings

REMEMBERED = 16
"""Questions that are remembered; each takes a few megabytes."""


class AnswerMemo:
    """A bounded memory of estimates, for many threads."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def answer(self, question: Question, profile_ids: Sequence[str] = (), *, settings: Settings) -> Recommendation:
        """The recommendation for a question; its plan is not stored."""
        found = self._estimated(question, tuple(profile_ids), settings)
        return choose_plan(replace(found, now=datetime.now(UTC)), question)

    def __len__(self) -> int:
        return len(self._entries)

    def _estimated(self, question: Question, profile_ids: tuple[str, ...], settings: Settings) -> SearchResult:
        key = (
            profile_ids,
            question.scope,
            question.length,
            question.goal.target,
            question.overheads,
            estimation_state(settings),
        )
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._remembered:
                self._entries.popitem(last=False)
        # Threads that ask the same meanwhile wait for the one that estimates; other questions do not.
        with entry.lock:
            if entry.found is None:
                entry.found = estimate_candidates(question, profile_ids, settings=settings)
            return entry.found


class _Entry:
    """The estimates of one question, once they are made; after an error they are made anew."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: SearchResult | None = None


_answers = AnswerMemo()


def answer(question: Question, profile_ids: Sequence[str] = (), *, settings: Settings) -> Recommendation:
    """The recommendation for a question, by the memory of this process; its plan is not stored."""
    return _answers.answer(question, profile_ids, settings=settings)

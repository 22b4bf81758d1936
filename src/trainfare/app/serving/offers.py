"""Use case: the offers for a profile, answered again and again while a reader moves limits on a page.

Estimating the candidates takes most of the time and does not depend on the goal, so the last few are kept.
"""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from trainfare.app.recommending.question import Question
from trainfare.app.recommending.recommend import Recommendation, choose_plan, estimate_candidates, save_plan
from trainfare.app.recommending.search import SearchResult, find_eligible
from trainfare.app.recommending.workload import Workload
from trainfare.errors import InfeasibleError, NotFoundError
from trainfare.estimator.estimate import Totals
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.recommender.choose import best_per_machine
from trainfare.recommender.options import Options
from trainfare.settings import Settings

KEPT = 16
"""Questions of which the estimates are kept."""
KEPT_SECONDS = 300.0
"""Prices and history may have changed after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersAnswer:
    """The answer to a question: a recommendation, or why there is none."""

    question: Question
    profiles: tuple[Profile, ...]
    workload: Workload
    options: Options[Totals]
    """Time and cost of the eligible candidates, within the limits or not, one per machine and market."""
    recommendation: Recommendation | None = None
    problem: InfeasibleError | None = None


class _Kept:
    """The newest estimates, by what they depend on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[object, tuple[float, SearchResult]] = OrderedDict()

    def get(self, key: object) -> SearchResult | None:
        with self._lock:
            at, found = self._found.get(key, (0.0, None))
            if found is None or time.monotonic() - at > KEPT_SECONDS:
                return None
            self._found.move_to_end(key)
            return found

    def put(self, key: object, found: SearchResult) -> None:
        with self._lock:
            self._found[key] = time.monotonic(), found
            while len(self._found) > KEPT:
                self._found.popitem(last=False)


_KEPT = _Kept()


def answer_offers(profile_id: str, question: Question, *, settings: Settings) -> OffersAnswer:
    """The recommendation, which is not stored, or the limits that no machine keeps."""
    found = _estimates(profile_id, question, settings)
    try:
        recommendation = choose_plan(found, question)
    except InfeasibleError as error:
        eligible, _ = find_eligible(found)
        return OffersAnswer(
            question=question,
            profiles=found.profiles,
            workload=found.workload,
            options=best_per_machine(eligible),
            problem=error,
        )
    return OffersAnswer(
        question=question,
        profiles=found.profiles,
        workload=found.workload,
        options=recommendation.eligible,
        recommendation=recommendation,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """A machine that the reader has picked from the offers."""

    machine: str
    """`aws/g5.xlarge`."""
    market: str | None = None
    """The market; None is on demand, or a machine of the user's own."""
    nodes: int = 1

    def is_of(self, candidate: Candidate) -> bool:
        offer = candidate.offer
        market = None if offer.market in ("on_demand", "own") else offer.market
        return (offer.vm_type.key, market, candidate.nodes) == (self.machine, self.market, self.nodes)


def keep_plan(profile_id: str, question: Question, picked: Picked | None = None, *, settings: Settings) -> str:
    """Store the plan of a question, so that a run can follow it. Returns its id. A machine that the reader has picked
    is planned for even if it does not keep the limits: the reader has seen its time and cost."""
    estimates = _estimates(profile_id, question, settings)
    if picked is not None:
        totals = estimates.totals.where_candidate(picked.is_of)
        if not totals:
            raise NotFoundError("machine", picked.machine, ())
        estimates = replace(estimates, totals=totals)
    try:
        found = choose_plan(estimates, question)
    except InfeasibleError:
        if picked is None:
            raise
        goal = replace(question.goal, deadline_seconds=None, budget_usd=None)
        found = choose_plan(estimates, replace(question, goal=goal))
    save_plan(found, settings)
    return found.plan.id


def _estimates(profile_id: str, question: Question, settings: Settings) -> SearchResult:
    target = question.goal.target
    key = (settings.store, profile_id, repr(question.scope), repr(question.length), repr(target))
    found = _KEPT.get(key)
    if found is None:
        found = estimate_candidates(question, (profile_id,), settings=settings)
        _KEPT.put(key, found)
    return found

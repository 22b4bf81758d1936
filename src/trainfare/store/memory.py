"""A history that ends with the process: for tests and notebooks."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from trainfare.errors import NotFoundError
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Observation, Run
from trainfare.model.submission import Submission
from trainfare.store.history import (
    PLANS_LISTED_BY,
    PROFILES_LISTED_BY,
    SUBMISSIONS_LISTED_BY,
    AlreadyKept,
    History,
)

T = TypeVar("T")


class MemoryHistory(History):
    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}
        self._removed: set[str] = set()
        self._plans: dict[str, Plan] = {}
        self._runs: dict[str, Run] = {}
        self._observations: dict[tuple[str, int], Observation] = {}
        self._submissions: dict[str, Submission] = {}
        self._withdrawn: set[str] = set()

    @property
    def damaged(self) -> tuple[str, ...]:
        return ()

    def add_profile(self, profile: Profile) -> None:
        if profile.id in self._removed and profile == self._profiles[profile.id]:
            self._removed.remove(profile.id)
            return
        _append(self._profiles, profile.id, profile, kind="profile")

    def profile(self, profile_id: str) -> Profile:
        return _named(self._present(), profile_id, kind="profile", listed_by=PROFILES_LISTED_BY)

    def profiles(self) -> tuple[Profile, ...]:
        return tuple(sorted(self._present().values(), key=lambda p: (p.measured_at, p.id), reverse=True))

    def remove_profile(self, profile_id: str) -> None:
        self._removed.add(self.profile(profile_id).id)

    def add_plan(self, plan: Plan) -> None:
        _require(self._profiles, (e.profile_id for e in _estimates_of(plan)), "profile", f"plan {plan.id}")
        _append(self._plans, plan.id, plan, kind="plan")

    def plan(self, plan_id: str) -> Plan:
        return _named(self._plans, plan_id, kind="plan", listed_by=PLANS_LISTED_BY)

    def plans(self) -> tuple[Plan, ...]:
        return tuple(sorted(self._plans.values(), key=lambda p: (p.made_at, p.id), reverse=True))

    def estimates(self, profile_id: str) -> tuple[Estimate, ...]:
        return tuple(e for plan in self.plans() for e in _estimates_of(plan) if e.profile_id == profile_id)

    def add_run(self, run: Run) -> None:
        _require(self._plans, (run.plan_id,), "plan", f"run {run.id}")
        _append(self._runs, run.id, run, kind="run")

    def run(self, run_id: str) -> Run:
        return _named(self._runs, run_id, kind="run")

    def runs(self) -> tuple[Run, ...]:
        return tuple(sorted(self._runs.values(), key=lambda r: (r.started_at, r.id), reverse=True))

    def add_observation(self, observation: Observation) -> None:
        key = (observation.run_id, observation.number)
        if key in self._observations:
            raise AlreadyKept("observation", f"{observation.run_id}/{observation.number}")
        _require(self._runs, (observation.run_id,), "run", f"observation {observation.number}")
        self._observations[key] = observation

    def observations(self, run_id: str) -> tuple[Observation, ...]:
        return tuple(self._observations[key] for key in sorted(self._observations) if key[0] == run_id)

    def add_submission(self, submission: Submission) -> None:
        _require(self._profiles, submission.profile_ids, "profile", f"submission {submission.id}")
        _append(self._submissions, submission.id, submission, kind="submission")

    def submission(self, submission_id: str) -> Submission:
        return _named(self._waiting(), submission_id, kind="submission", listed_by=SUBMISSIONS_LISTED_BY)

    def submissions(self) -> tuple[Submission, ...]:
        return tuple(sorted(self._waiting().values(), key=lambda s: (s.submitted_at, s.id)))

    def withdraw_submission(self, submission_id: str) -> None:
        self._withdrawn.add(self.submission(submission_id).id)

    def close(self) -> None:
        pass

    def _present(self) -> dict[str, Profile]:
        return {name: profile for name, profile in self._profiles.items() if name not in self._removed}

    def _waiting(self) -> dict[str, Submission]:
        return {name: each for name, each in self._submissions.items() if name not in self._withdrawn}


def _estimates_of(plan: Plan) -> tuple[Estimate, ...]:
    return (plan.chosen, *plan.runners_up)


def _append(kept: dict[str, T], name: str, noun: T, *, kind: str) -> None:
    if name in kept:
        raise AlreadyKept(kind, name)
    kept[name] = noun


def _named(kept: Mapping[str, T], name: str, *, kind: str, listed_by: str | None = None) -> T:
    if name not in kept:
        raise NotFoundError(kind, name, kept, listed_by=listed_by)
    return kept[name]


def _require(kept: Mapping[str, object], names: Iterable[str], kind: str, by: str) -> None:
    for name in names:
        if name not in kept:
            raise ValueError(f"{by} leans on {kind} {name}, which is not in history")

"""Nouns as rows of a database, with a checksum each: the one place that knows both a row and a noun."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic

import msgspec
from sqlalchemy import Column, Table

from trainfare.model import document
from trainfare.model.access import Token
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Fact, Observation, Run
from trainfare.model.submission import Submission
from trainfare.model.task import Task, TaskEvent
from trainfare.store import schema
from trainfare.store.kinds import PLAN, PROFILE, RUN, SUBMISSION, TASK, TOKEN, N, NounKind, part_name

Values = dict[str, object]
"""The columns of one row."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows to insert into one table."""

    table: Table
    rows: tuple[Values, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog:
    """A table of removals and restorations; the last change of a noun says whether it is there."""

    table: Table
    owner_id: Column[Any]
    """The column with the id of the noun."""
    removal: str
    """The word in the column `change` that records a removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTable:
    """A table with rows that are parts of a noun, such as the estimates of a plan."""

    kind: str
    table: Table
    owner_id: Column[Any]
    """The column with the id of the noun."""
    order: Column[Any]
    """The column by which the parts of a noun are ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat(Generic[N]):
    """The tables that hold one kind of noun, and how the noun is read from them."""

    kind: NounKind[N]
    table: Table
    moment: Column[Any]
    """The column by which a list is ordered."""
    new_rows: Callable[[N], tuple[NewRows, ...]]
    """The rows of a noun, in the order in which they can be inserted."""
    parts: PartTable | None = None
    noun: Callable[[str, list[str]], N]
    """The noun of its document and the documents of its parts; a `ValueError` says why they cannot be read."""


def checksum(kind: str, name: str, text: str) -> str:
    """The SHA-256 of a document and its name, so that a document under another's name is noticed."""
    return hashlib.sha256(f"{kind}\n{name}\n{text}".encode(errors="surrogatepass")).hexdigest()


def fact_row(fact: Fact) -> Values:
    contents = _contents("fact", part_name(fact.run_id, fact.number), document.to_json(fact))
    return {"run_id": fact.run_id, "number": fact.number, "kind": fact.kind, **contents}


def observation_row(observation: Observation) -> Values:
    key = {name: getattr(observation, name) for name in ("run_id", "attempt", "node", "number")}
    contents = _contents("observation", part_name(*key.values()), document.to_json(observation))
    return {**key, "kind": observation.kind, **contents}


def task_event_row(event: TaskEvent) -> Values:
    contents = _contents("taskevent", part_name(event.task_id, event.number), document.to_json(event))
    return {"task_id": event.task_id, "number": event.number, "kind": event.kind, **contents}


def _profile_rows(profile: Profile) -> tuple[NewRows, ...]:
    contents = _contents("profile", profile.id, document.to_json(profile))
    row = {"id": profile.id, "measured_at": sortable(profile.measured_at), **contents}
    return (NewRows(schema.profiles, (row,)),)


def _plan_rows(plan: Plan) -> tuple[NewRows, ...]:
    estimates = (plan.chosen, *plan.runners_up)
    return (
        NewRows(schema.plans, (_plan_row(plan),)),
        NewRows(schema.estimates, tuple(_estimate_row(plan.id, rank, each) for rank, each in enumerate(estimates))),
    )


def _plan_row(plan: Plan) -> Values:
    """The plan without its estimates, which have rows of their own; their number stays, so that none can be lost
    unnoticed."""
    rest = {name: value for name, value in document.to_document(plan).items() if name not in ("chosen", "runners_up")}
    rest["estimates"] = 1 + len(plan.runners_up)
    contents = _contents("plan", plan.id, msgspec.json.encode(rest).decode())
    return {"id": plan.id, "made_at": sortable(plan.made_at), **contents}


def _estimate_row(plan_id: str, rank: int, estimate: Estimate) -> Values:
    contents = _contents("estimate", part_name(plan_id, rank), document.to_json(estimate))
    return {"plan_id": plan_id, "rank": rank, "profile_id": estimate.profile_id, **contents}


def _run_rows(run: Run) -> tuple[NewRows, ...]:
    contents = _contents("run", run.id, document.to_json(run))
    row = {"id": run.id, "plan_id": run.plan_id, "made_at": sortable(run.made_at), **contents}
    return (NewRows(schema.runs, (row,)),)


def _submission_rows(submission: Submission) -> tuple[NewRows, ...]:
    contents = _contents("submission", submission.id, document.to_json(submission))
    row = {"id": submission.id, "submitted_at": sortable(submission.submitted_at), **contents}
    profiles = tuple(
        {"submission_id": submission.id, "rank": rank, "profile_id": profile_id}
        for rank, profile_id in enumerate(submission.profile_ids)
    )
    return NewRows(schema.submissions, (row,)), NewRows(schema.submission_profiles, profiles)


def _token_rows(token: Token) -> tuple[NewRows, ...]:
    contents = _contents("token", token.id, document.to_json(token))
    made_at = sortable(token.made_at)
    row = {"id": token.id, "made_at": made_at, "secret_sha256": token.secret_sha256, **contents}
    return (NewRows(schema.tokens, (row,)),)


def _task_rows(task: Task) -> tuple[NewRows, ...]:
    contents = _contents("task", task.id, document.to_json(task))
    return (NewRows(schema.tasks, ({"id": task.id, "made_at": sortable(task.made_at), **contents},)),)


def _document_reader(noun_type: type[N]) -> Callable[[str, list[str]], N]:
    """A reader of nouns that have no parts."""
    return lambda text, _parts: document.from_json(noun_type, text)


def _join_plan(text: str, estimates: list[str]) -> Plan:
    """The plan of a document that `_plan_row` wrote, with the documents of its estimates in the order of their ranks.

    `ValueError` if an estimate is missing or a document cannot be read.
    """
    rest = msgspec.json.decode(text)
    if len(estimates) != rest["estimates"]:
        missing = rest["estimates"] - len(estimates)
        raise ValueError(f"{missing} of its {rest['estimates']} estimates are missing")
    chosen, *runners_up = (msgspec.json.decode(estimate) for estimate in estimates)
    return document.from_document(Plan, rest | {"chosen": chosen, "runners_up": runners_up})


def _contents(kind: str, name: str, text: str) -> Values:
    return {"document": text, "sha256": checksum(kind, name, text)}


def sortable(moment: datetime) -> str:
    """The moment in UTC, always in the same length, so that the order of the texts is the order of the moments."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


PROFILES = RowFormat(
    kind=PROFILE,
    table=schema.profiles,
    moment=schema.profiles.c.measured_at,
    new_rows=_profile_rows,
    noun=_document_reader(Profile),
)
PROFILE_CHANGES = ChangeLog(
    table=schema.profile_changes, owner_id=schema.profile_changes.c.profile_id, removal="removed"
)
PLANS = RowFormat(
    kind=PLAN,
    table=schema.plans,
    moment=schema.plans.c.made_at,
    new_rows=_plan_rows,
    parts=PartTable(
        kind="estimate",
        table=schema.estimates,
        owner_id=schema.estimates.c.plan_id,
        order=schema.estimates.c.rank,
    ),
    noun=_join_plan,
)
RUNS = RowFormat(
    kind=RUN,
    table=schema.runs,
    moment=schema.runs.c.made_at,
    new_rows=_run_rows,
    noun=_document_reader(Run),
)
SUBMISSIONS = RowFormat(
    kind=SUBMISSION,
    table=schema.submissions,
    moment=schema.submissions.c.submitted_at,
    new_rows=_submission_rows,
    noun=_document_reader(Submission),
)
SUBMISSION_CHANGES = ChangeLog(
    table=schema.submission_changes, owner_id=schema.submission_changes.c.submission_id, removal="withdrawn"
)
TOKENS = RowFormat(
    kind=TOKEN,
    table=schema.tokens,
    moment=schema.tokens.c.made_at,
    new_rows=_token_rows,
    noun=_document_reader(Token),
)
TOKEN_CHANGES = ChangeLog(table=schema.token_changes, owner_id=schema.token_changes.c.token_id, removal="revoked")
TASKS = RowFormat(
    kind=TASK,
    table=schema.tasks,
    moment=schema.tasks.c.made_at,
    new_rows=_task_rows,
    noun=_document_reader(Task),
)

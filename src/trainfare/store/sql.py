"""History in a SQL database: the one place that knows both a row and a noun."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, Row, Select, Table, func, insert, select, text
from sqlalchemy.exc import IntegrityError

from trainfare.errors import NotFoundError, StoreError
from trainfare.model import document
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Observation, Run
from trainfare.model.submission import Submission
from trainfare.store import schema
from trainfare.store.faults import Place, damaged_file, is_taken, told
from trainfare.store.history import (
    PLANS_LISTED_BY,
    PROFILES_LISTED_BY,
    SUBMISSIONS_LISTED_BY,
    AlreadyKept,
    History,
)

N = TypeVar("N", Profile, Estimate, Run, Observation, Submission)
T = TypeVar("T")
AnyRow = Row[Any]


class _DamagedRow(StoreError):
    """One row cannot be read; the others can."""


class SqlHistory(History):
    """`engine` begins transactions that read, `writer` those that write; both share their connections."""

    def __init__(self, engine: Engine, writer: Engine, place: Place) -> None:
        self._engine, self._writer, self._place = engine, writer, place
        self._damaged: dict[str, None] = {}
        self._fault: str | None = None
        self._checked = False

    @property
    def damaged(self) -> tuple[str, ...]:
        return tuple(self._damaged)

    def add_profile(self, profile: Profile) -> None:
        with self._writing() as connection:
            kept = _row_named(connection, schema.profiles, profile.id)
            if kept is None:
                row = _profile_row(profile)
                _append(connection, schema.profiles, [row], kind="profile", name=profile.id)
            elif _is_removed(connection, profile.id) and self._profile(kept) == profile:
                _note(connection, profile.id, "restored")
            else:
                raise AlreadyKept("profile", profile.id)

    def profile(self, profile_id: str) -> Profile:
        with self._reading() as connection:
            row = _row_named(connection, schema.profiles, profile_id)
            if row is None or _is_removed(connection, profile_id):
                raise self._no_profile(connection, profile_id)
            return self._profile(row)

    def profiles(self) -> tuple[Profile, ...]:
        table = schema.profiles
        with self._listing() as connection:
            rows = connection.execute(
                select(table)
                .where(table.c.id.not_in(_removed_ids()))
                .order_by(table.c.measured_at.desc(), table.c.id.desc())
            ).all()
        return self._readable(self._profile, rows)

    def remove_profile(self, profile_id: str) -> None:
        """Also one that is damaged, so that lists stop complaining of it."""
        with self._writing() as connection:
            row = _row_named(connection, schema.profiles, profile_id)
            if row is None or _is_removed(connection, profile_id):
                raise self._no_profile(connection, profile_id)
            _note(connection, profile_id, "removed")

    def add_plan(self, plan: Plan) -> None:
        estimates = (plan.chosen, *plan.runners_up)
        leans_on = ", ".join(sorted({f"profile {estimate.profile_id}" for estimate in estimates}))
        rows = [_estimate_row(plan.id, rank, estimate) for rank, estimate in enumerate(estimates)]
        with self._writing() as connection:
            _append(connection, schema.plans, [_plan_row(plan)], kind="plan", name=plan.id)
            _append(connection, schema.estimates, rows, kind="plan", name=plan.id, leans_on=leans_on)

    def plan(self, plan_id: str) -> Plan:
        table = schema.estimates
        with self._reading() as connection:
            row = _row_named(connection, schema.plans, plan_id)
            if row is None:
                known = select(schema.plans.c.id)
                raise self._missing(connection, "plan", plan_id, known, PLANS_LISTED_BY)
            parts = connection.execute(select(table).where(table.c.plan_id == plan_id).order_by(table.c.rank)).all()
        return self._plan(row, parts)

    def plans(self) -> tuple[Plan, ...]:
        table = schema.plans
        with self._listing() as connection:
            newest_first = select(table).order_by(table.c.made_at.desc(), table.c.id.desc())
            rows = connection.execute(newest_first).all()
            parts: dict[str, list[AnyRow]] = {row.id: [] for row in rows}
            for part in connection.execute(select(schema.estimates).order_by(schema.estimates.c.rank)):
                parts.setdefault(part.plan_id, []).append(part)
        return self._readable(lambda row: self._plan(row, parts[row.id]), rows)

    def estimates(self, profile_id: str) -> tuple[Estimate, ...]:
        table, plans = schema.estimates, schema.plans
        with self._listing() as connection:
            rows = connection.execute(
                select(table)
                .join(plans)
                .where(table.c.profile_id == profile_id)
                .order_by(plans.c.made_at.desc(), plans.c.id.desc(), table.c.rank)
            ).all()
        return self._readable(self._estimate, rows)

    def add_run(self, run: Run) -> None:
        leans_on = f"plan {run.plan_id}"
        with self._writing() as connection:
            _append(connection, schema.runs, [_run_row(run)], kind="run", name=run.id, leans_on=leans_on)

    def run(self, run_id: str) -> Run:
        with self._reading() as connection:
            row = _row_named(connection, schema.runs, run_id)
            if row is None:
                known = select(schema.runs.c.id)
                raise self._missing(connection, "run", run_id, known)
        return self._run(row)

    def runs(self) -> tuple[Run, ...]:
        table = schema.runs
        with self._listing() as connection:
            newest_first = select(table).order_by(table.c.started_at.desc(), table.c.id.desc())
            rows = connection.execute(newest_first).all()
        return self._readable(self._run, rows)

    def add_observation(self, observation: Observation) -> None:
        name = f"{observation.run_id}/{observation.number}"
        leans_on = f"run {observation.run_id}"
        row = _observation_row(observation)
        with self._writing() as connection:
            _append(connection, schema.observations, [row], kind="observation", name=name, leans_on=leans_on)

    def observations(self, run_id: str) -> tuple[Observation, ...]:
        table = schema.observations
        with self._listing() as connection:
            rows = connection.execute(select(table).where(table.c.run_id == run_id).order_by(table.c.number)).all()
        return self._readable(self._observation, rows)

    def add_submission(self, submission: Submission) -> None:
        name = submission.id
        leans_on = ", ".join(f"profile {profile_id}" for profile_id in submission.profile_ids)
        with self._writing() as connection:
            _append(connection, schema.submissions, [_submission_row(submission)], kind="submission", name=name)
            rows = _submission_profile_rows(submission)
            _append(connection, schema.submission_profiles, rows, kind="submission", name=name, leans_on=leans_on)

    def submission(self, submission_id: str) -> Submission:
        with self._reading() as connection:
            return self._submission(self._waiting(connection, submission_id))

    def submissions(self) -> tuple[Submission, ...]:
        table = schema.submissions
        with self._listing() as connection:
            rows = connection.execute(
                select(table).where(table.c.id.not_in(_withdrawn_ids())).order_by(table.c.submitted_at, table.c.id)
            ).all()
        return self._readable(self._submission, rows)

    def withdraw_submission(self, submission_id: str) -> None:
        """Also one that is damaged, so that lists stop complaining of it."""
        with self._writing() as connection:
            row = self._waiting(connection, submission_id)
            withdrawn = insert(schema.submission_changes).values(submission_id=row.id, change="withdrawn")
            connection.execute(withdrawn)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with told(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _listing(self) -> Iterator[Connection]:
        with self._reading() as connection:
            if (fault := self._fault_of_file(connection)) is not None:
                self._damaged[fault] = None
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with told(self._place), self._writer.begin() as connection:
            yield connection

    def _no_profile(self, connection: Connection, profile_id: str) -> Exception:
        table = schema.profiles
        known = select(table.c.id).where(table.c.id.not_in(_removed_ids()))
        return self._missing(connection, "profile", profile_id, known, PROFILES_LISTED_BY)

    def _waiting(self, connection: Connection, submission_id: str) -> AnyRow:
        """The row of a submission that is in the queue."""
        table = schema.submissions
        waiting = table.c.id.not_in(_withdrawn_ids())
        row = connection.execute(select(table).where(table.c.id == submission_id, waiting)).one_or_none()
        if row is None:
            known = select(table.c.id).where(waiting)
            raise self._missing(connection, "submission", submission_id, known, SUBMISSIONS_LISTED_BY)
        return row

    def _missing(
        self, connection: Connection, kind: str, name: str, known: Select[str], listed_by: str | None = None
    ) -> Exception:
        """Not found; unless the file is damaged, and it may be there after all."""
        if (fault := self._fault_of_file(connection)) is not None:
            return StoreError(fault)
        return NotFoundError(kind, name, connection.execute(known).scalars(), listed_by=listed_by)

    def _fault_of_file(self, connection: Connection) -> str | None:
        """Rows have checksums; that none is missing only SQLite's own check tells. It reads 1 MB in a
        millisecond, and is made once, when something is listed or not found."""
        if connection.dialect.name == "sqlite" and not self._checked:
            said = connection.execute(text("PRAGMA integrity_check(1)")).scalar()
            self._fault = None if said == "ok" else damaged_file(" ".join(str(said).split()), self._place)
            self._checked = True
        return self._fault

    def _readable(self, read: Callable[[AnyRow], T], rows: Iterable[AnyRow]) -> tuple[T, ...]:
        nouns = []
        for row in rows:
            try:
                nouns.append(read(row))
            except _DamagedRow as error:
                self._damaged[str(error)] = None
        return tuple(nouns)

    def _profile(self, row: AnyRow) -> Profile:
        return self._noun(Profile, row, name=row.id)

    def _estimate(self, row: AnyRow) -> Estimate:
        return self._noun(Estimate, row, name=f"{row.plan_id}/{row.rank}")

    def _run(self, row: AnyRow) -> Run:
        return self._noun(Run, row, name=row.id)

    def _observation(self, row: AnyRow) -> Observation:
        return self._noun(Observation, row, name=f"{row.run_id}/{row.number}")

    def _submission(self, row: AnyRow) -> Submission:
        return self._noun(Submission, row, name=row.id)

    def _noun(self, noun_type: type[N], row: AnyRow, *, name: str) -> N:
        kind = document.kind_of(noun_type)
        kept = self._verified(row, kind, name)
        try:
            return document.from_json(noun_type, kept)
        except ValueError as error:
            raise self._damage(kind, name, str(error)) from error

    def _plan(self, row: AnyRow, estimate_rows: Sequence[AnyRow]) -> Plan:
        """Puts the estimates, in the order of their ranks, back where `_plan_row` took them out."""
        whole = msgspec.json.decode(self._verified(row, "plan", row.id))
        parts = [
            msgspec.json.decode(self._verified(part, "estimate", f"{part.plan_id}/{part.rank}"))
            for part in estimate_rows
        ]
        if len(parts) != whole["estimates"]:
            missing = f"{whole['estimates'] - len(parts)} of its {whole['estimates']} estimates are missing"
            raise self._damage("plan", row.id, missing)
        try:
            return document.from_document(Plan, whole | {"chosen": parts[0], "runners_up": parts[1:]})
        except ValueError as error:
            raise self._damage("plan", row.id, str(error)) from error

    def _verified(self, row: AnyRow, kind: str, name: str) -> str:
        if row.sha256 != _checksum(kind, name, row.document):
            raise self._damage(kind, name, "its checksum does not match")
        return str(row.document)

    def _damage(self, kind: str, name: str, what: str) -> _DamagedRow:
        hiding = _HIDING.get(kind)
        hide = f" `{hiding} {name}` takes it off the list." if hiding else ""
        return _DamagedRow(
            f"{kind} {name} in {self._place.name} is damaged: {what}. It was left as it is; everything else "
            f"can be read. Put back a copy of the store, or do without it.{hide}"
        )


_HIDING = {"profile": "trainfare profiles rm", "submission": "trainfare schedule withdraw"}
"""Commands that take a damaged thing off its list."""


def _profile_row(profile: Profile) -> dict[str, object]:
    contents = _contents("profile", profile.id, document.to_json(profile))
    return {"id": profile.id, "measured_at": _sortable(profile.measured_at), **contents}


def _plan_row(plan: Plan) -> dict[str, object]:
    """The plan without its estimates, which have rows of their own; their number stays, to miss none."""
    whole = document.to_document(plan)
    rest = {name: value for name, value in whole.items() if name not in ("chosen", "runners_up")}
    rest["estimates"] = 1 + len(plan.runners_up)
    contents = _contents("plan", plan.id, msgspec.json.encode(rest).decode())
    return {"id": plan.id, "made_at": _sortable(plan.made_at), **contents}


def _estimate_row(plan_id: str, rank: int, estimate: Estimate) -> dict[str, object]:
    contents = _contents("estimate", f"{plan_id}/{rank}", document.to_json(estimate))
    return {"plan_id": plan_id, "rank": rank, "profile_id": estimate.profile_id, **contents}


def _run_row(run: Run) -> dict[str, object]:
    contents = _contents("run", run.id, document.to_json(run))
    return {"id": run.id, "plan_id": run.plan_id, "started_at": _sortable(run.started_at), **contents}


def _observation_row(observation: Observation) -> dict[str, object]:
    name = f"{observation.run_id}/{observation.number}"
    contents = _contents("observation", name, document.to_json(observation))
    return {"run_id": observation.run_id, "number": observation.number, **contents}


def _submission_row(submission: Submission) -> dict[str, object]:
    contents = _contents("submission", submission.id, document.to_json(submission))
    return {"id": submission.id, "submitted_at": _sortable(submission.submitted_at), **contents}


def _submission_profile_rows(submission: Submission) -> list[dict[str, object]]:
    return [
        {"submission_id": submission.id, "rank": rank, "profile_id": profile_id}
        for rank, profile_id in enumerate(submission.profile_ids)
    ]


def _contents(kind: str, name: str, json: str) -> dict[str, object]:
    return {"document": json, "sha256": _checksum(kind, name, json)}


def _checksum(kind: str, name: str, json: object) -> str:
    """Of the name too, so that a document under another's name is noticed."""
    return hashlib.sha256(f"{kind}\n{name}\n{json}".encode(errors="surrogatepass")).hexdigest()


def _sortable(moment: datetime) -> str:
    """UTC and always as long, so that the order of the texts is the order of the moments."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _append(
    connection: Connection,
    table: Table,
    rows: list[dict[str, object]],
    *,
    kind: str,
    name: str,
    leans_on: str = "nothing",
) -> None:
    try:
        connection.execute(insert(table), rows)
    except IntegrityError as error:
        if is_taken(error):
            raise AlreadyKept(kind, name) from error
        raise ValueError(f"{kind} {name} leans on {leans_on}, which is not in history") from error


def _row_named(connection: Connection, table: Table, name: str) -> AnyRow | None:
    return connection.execute(select(table).where(table.c.id == name)).one_or_none()


def _note(connection: Connection, profile_id: str, change: str) -> None:
    connection.execute(insert(schema.profile_changes).values(profile_id=profile_id, change=change))


def _is_removed(connection: Connection, profile_id: str) -> bool:
    table = schema.profile_changes
    last = select(table.c.change).where(table.c.profile_id == profile_id).order_by(table.c.number.desc())
    return connection.execute(last.limit(1)).scalar() == "removed"


def _removed_ids() -> Any:
    """A subquery: the profiles whose last change is that they were removed."""
    table = schema.profile_changes
    last = select(func.max(table.c.number)).group_by(table.c.profile_id)
    return select(table.c.profile_id).where(table.c.number.in_(last), table.c.change == "removed")


def _withdrawn_ids() -> Any:
    """A subquery; nothing brings a submission back, so any change is the last."""
    return select(schema.submission_changes.c.submission_id)

"""`/history`: what the store has, as documents, for `trainfare --server`: its commands read them as those at home do.

A document has every field of a noun, and changes with the versions of Trainfare. Programs ask for records instead.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Path, Query

from trainfare.model.document import Noun, to_document
from trainfare.model.run import ObservationKind
from trainfare.store.history import History, Table
from trainfare.store.open import open_history
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit
from trainfare.web.api.records import DocumentList, DocumentPage, IdList
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["history"], prefix="/history")
TableName = Literal["profiles", "plans", "runs", "submissions"]
NounId = Annotated[str, Path(max_length=200)]
_TABLES: dict[TableName, Callable[[History], Table[Any]]] = {
    "profiles": lambda history: history.profiles,
    "plans": lambda history: history.plans,
    "runs": lambda history: history.runs,
    "submissions": lambda history: history.submissions,
}


@router.get("/ended", response_model=IdList)
def list_ended(
    _visitor: Viewer, settings: ServerSettings, limit: Annotated[int | None, Query(ge=1, le=10**6)] = None
) -> dict[str, Any]:
    """List the ids of runs that have ended, the newest first."""
    with open_history(settings.store) as history:
        return {"items": list(history.facts.ended_runs(limit=limit))}


@router.get("/runs/{run_id}/facts", response_model=DocumentList)
def list_facts(_visitor: Viewer, settings: ServerSettings, run_id: NounId) -> dict[str, Any]:
    """List the facts of a run in their order."""
    with open_history(settings.store) as history:
        return _documents(history.facts.of(history.runs.get(run_id).id))


@router.get("/runs/{run_id}/observations", response_model=DocumentList)
def list_observations(
    _visitor: Viewer,
    settings: ServerSettings,
    run_id: NounId,
    kind: Annotated[list[str] | None, Query(max_length=20)] = None,
    attempt: Annotated[int | None, Query(ge=0, le=10**6)] = None,
    node: Annotated[int | None, Query(ge=0, le=10**6)] = None,
    after: Annotated[int, Query(ge=0, le=10**15)] = 0,
) -> dict[str, Any]:
    """List the observations of a run."""
    kinds = None if kind is None else [each for each in get_args(ObservationKind) if each in kind]
    with open_history(settings.store) as history:
        run_id = history.runs.get(run_id).id
        return _documents(history.observations.of(run_id, kinds=kinds, attempt=attempt, node=node, after=after))


@router.get("/{table}", response_model=DocumentPage)
def list_documents(
    _visitor: Viewer, settings: ServerSettings, table: TableName, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List profiles, plans or runs, the newest first, or submissions, the oldest first. Runs come with their facts."""
    with open_history(settings.store) as history:
        found = _TABLES[table](history).page(limit=limit + 1, after=cursor)
        shown = found[:limit]
        facts = history.facts.of_each([run.id for run in shown]) if table == "runs" else {}
        following = shown[-1].id if shown and (len(found) > limit or history.damaged) else None
        return {
            **_documents(shown),
            "next": following,
            "damaged": list(history.damaged),
            "facts": {run_id: _documents(each)["items"] for run_id, each in facts.items()},
        }


@router.get("/{table}/{noun_id}", response_model=dict[str, Any])
def show_document(_visitor: Viewer, settings: ServerSettings, table: TableName, noun_id: NounId) -> dict[str, Any]:
    """Show one document."""
    with open_history(settings.store) as history:
        return to_document(_TABLES[table](history).get(noun_id))


def _documents(nouns: tuple[Noun, ...]) -> dict[str, Any]:
    return {"items": [to_document(noun) for noun in nouns]}

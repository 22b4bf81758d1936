"""Lists come in pages: at most `limit` items, from the one that follows the item `cursor` on."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from trainfare.errors import UsageError

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

T = TypeVar("T")
R = TypeVar("R")

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The most items of a page.")]
Cursor = Annotated[str | None, Query(max_length=200, description="`next` of the page before; none for the first page.")]


class Record(BaseModel):
    """A JSON object whose most important members are named; it may have more."""

    model_config = ConfigDict(extra="allow")


class Page(BaseModel, Generic[R]):
    """A page of a list."""

    items: list[R]
    next: str | None = Field(default=None, description="The cursor of the next page; null on the last one.")
    damaged: list[str] = Field(default_factory=list, description="A sentence for each item that cannot be read.")


def page_of(
    items: Sequence[T],
    record: Callable[[T], dict[str, Any]],
    name: Callable[[T], str],
    *,
    limit: int,
    cursor: str | None,
    damaged: Sequence[str] = (),
) -> dict[str, Any]:
    """A page of items that are all at hand. The cursor is the name of the last item of the page before."""
    start = 0
    if cursor is not None:
        start = next((number for number, item in enumerate(items, 1) if name(item) == cursor), -1)
        if start < 0:
            raise UsageError("The list has no item of this name any more. Begin with the first page.", field="cursor")
    shown = items[start : start + limit]
    more = start + limit < len(items)
    return {
        "items": [record(item) for item in shown],
        "next": name(shown[-1]) if more else None,
        "damaged": list(damaged),
    }

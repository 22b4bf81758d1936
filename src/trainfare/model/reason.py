"""The reasons of a plan and the remarks of an estimate, as data; `views/` makes the sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainfare.model.checks import require_text

Topic = Literal["why", "certainty", "changes", "charges", "assumptions"]
"""Why this one; how certain it is; what would change it; what is charged; what is assumed."""

Scalar = str | int | float | bool | None
Item = Scalar | Mapping[str, Scalar]
Value = Scalar | tuple[Item, ...] | Mapping[str, Scalar]
"""A number, a name, a list of these, or a small record: what a JSON document holds and gives back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One statement: a `code` that names its kind, the numbers and names in it, and the arguments that would act on it.

    Seconds, dollars and shares are plain numbers, so that a program can read them; `views/reasons.py` formats them.
    """

    topic: Topic
    code: str
    """In snake case: `best_candidate`, `spot_would_be_better`."""
    values: Mapping[str, Value] = field(default_factory=dict)
    arguments: Mapping[str, Scalar] = field(default_factory=dict)
    """Arguments of the same call that would change this, by their Python names: `{"spot": True}`."""

    def __post_init__(self) -> None:
        require_text(code=self.code)


def text_reason(topic: Topic, text: str) -> Reason:
    """A sentence that is stored as text: all reasons of plans of document version 1, and what other rooms explain."""
    return Reason(topic=topic, code="text", values={"text": text})

"""Why a plan says what it says, as data: `views/` makes the sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainfare.model.checks import require_text

Topic = Literal["why", "certainty", "changes", "charges", "assumptions"]
"""Why this one; how sure; what would change it; what is charged; what is assumed."""

Value = str | int | float | bool | None | tuple["Value", ...] | Mapping[str, "Value"]
"""What a JSON document can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: a `code` that names the kind of statement, the numbers and names in it, and the arguments that
    would act on it.

    Seconds, dollars and shares are plain numbers, so that a program can read them; `views/` formats them.
    """

    topic: Topic
    code: str
    """In snake case: `cheapest_of`, `spot_would_cost`."""
    values: Mapping[str, Value] = field(default_factory=dict)
    arguments: Mapping[str, Value] = field(default_factory=dict)
    """Arguments of the same call that would change this, by their Python names: `{"spot": True}`."""

    def __post_init__(self) -> None:
        require_text(code=self.code)


def text_reason(topic: Topic, text: str) -> Reason:
    """A sentence that was stored as text, before reasons were data."""
    return Reason(topic=topic, code="text", values={"text": text})

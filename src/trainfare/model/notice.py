"""A message about something that happened, sent once to each place that wants it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainfare.model.checks import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message in words for people, and as data for programs."""

    id: str
    """The same whenever the same thing is noticed, so that it is sent once."""
    event: Literal["run.ended", "budget.near"]
    subject: str
    text: str
    user: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text(id=self.id, subject=self.subject, text=self.text)

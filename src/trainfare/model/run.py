"""A training that is carried out: what was agreed, the facts of its life, and what the machine observes meanwhile.

A Run never changes. Its state follows from its Facts (`runner/life.py`), which the supervisor at home appends.
Observations come from the agent on the machine, numbered, in its order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text, require_unicode
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.program import Program
from trainfare.model.rented import RentedMachine

RunState = Literal["planned", "asked for", "booting", "setting up", "training", "collecting", "ending", "ended"]
"""`planned` is also the state between two attempts: nothing is rented."""

Outcome = Literal["succeeded", "failed", "stopped", "lost"]
"""The way a run ended: the program ended well; it or its setup failed, or no machine could be had; the user or a limit
stopped it; its machine vanished and it could not go on."""

StopReason = Literal["user", "budget", "deadline", "longest duration"]

FactKind = Literal[
    "launch intended",
    "launch refused",
    "machines seen",
    "machines ready",
    "setup failed",
    "program started",
    "program ended",
    "machines lost",
    "results collected",
    "results lost",
    "termination intended",
    "termination failed",
    "terminated",
    "run ended",
    "stop asked",
    "warned",
]

REMARKS: tuple[FactKind, ...] = ("stop asked", "warned")
"""Facts that may come in every state but the last, and leave it as it is. Any process may append them; all others come
from the one that holds the lease of the run."""

ObservationKind = Literal["heartbeat", "setup", "program", "iterations", "losses", "meter", "checkpoint", "message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The most that a run may cost and take; None means no limit."""

    budget_usd: float | None = None
    deadline: datetime | None = None
    longest_seconds: float | None = None
    """The longest time that machines are kept, from the first request on."""

    def __post_init__(self) -> None:
        require_positive(budget_usd=self.budget_usd, longest_seconds=self.longest_seconds)
        if self.deadline is not None:
            require_aware(deadline=self.deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A program that is to be trained on a machine, with the price and the prediction that were agreed to."""

    id: str
    made_at: datetime
    owner: str
    """The user, the machine at home and the store, as tags on rented machines name them."""
    program: Program
    candidate: Candidate
    """The machines that the first attempt asks for. Its offer has the price that the receipt uses."""
    results_directory: str
    """The folder at home that results are brought to."""
    estimate: Estimate | None = None
    """The prediction for the candidate; None if the program was never profiled."""
    plan_id: str | None = None
    limits: RunLimits = RunLimits()
    setup: str | None = None
    """A shell command that prepares the environment on the machine."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables that are passed on; their values are never stored."""

    def __post_init__(self) -> None:
        require_text(id=self.id, owner=self.owner, results_directory=self.results_directory)
        require_aware(made_at=self.made_at)
        if self.plan_id is not None:
            require_text(plan_id=self.plan_id)
        if self.estimate is not None and self.estimate.candidate != self.candidate:
            raise ValueError("the estimate must be of the candidate of the run")


_NEEDED: Mapping[FactKind, tuple[str, ...]] = {
    "launch intended": ("attempt", "candidate"),
    "launch refused": ("text",),
    "machines seen": ("machines",),
    "setup failed": ("text",),
    "program ended": ("exit_code",),
    "machines lost": ("text",),
    "results lost": ("text",),
    "termination failed": ("text",),
    "run ended": ("outcome", "text"),
    "stop asked": ("stop_reason",),
    "warned": ("text",),
}
"""The fields that a fact of a kind must have; others may have none but `text`."""

_ALWAYS = ("run_id", "number", "seen_at", "kind", "text", "attempt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The `number`-th fact of the life of a Run, counted from 0."""

    run_id: str
    number: int
    seen_at: datetime
    kind: FactKind
    attempt: int = 0
    """Counted from 1: each launch is an attempt. 0 for facts that belong to none."""
    text: str | None = None
    """The reason, in words that are shown to the user."""
    candidate: Candidate | None = None
    machines: tuple[RentedMachine, ...] = ()
    exit_code: int | None = None
    collected_files: int | None = None
    collected_bytes: int | None = None
    stop_reason: StopReason | None = None
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        require_text(run_id=self.run_id)
        require_unicode(text=self.text or "")
        require_aware(seen_at=self.seen_at)
        require_not_negative(
            number=self.number,
            attempt=self.attempt,
            collected_files=self.collected_files,
            collected_bytes=self.collected_bytes,
        )
        for name in _NEEDED.get(self.kind, ()):
            if getattr(self, name) in (None, (), 0) and not (name == "exit_code" and self.exit_code == 0):
                raise ValueError(f"a fact of the kind {self.kind} must have {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The `number`-th entry in the journal of the agent on one node, counted from 1 in each attempt."""

    run_id: str
    attempt: int
    node: int
    number: int
    at: datetime
    """By the clock of the machine."""
    kind: ObservationKind
    values: Mapping[str, float | str | list[float | None] | None] = field(default_factory=dict)
    """A None in a list stands for a number that is not finite, such as the loss of a training that diverges."""

    def __post_init__(self) -> None:
        require_text(run_id=self.run_id)
        require_aware(at=self.at)
        require_positive(attempt=self.attempt, number=self.number)
        require_not_negative(node=self.node)
        for name, value in self.values.items():
            _require_value(name, value)


def _require_value(name: str, value: object) -> None:
    """A value must be a text, a finite number or a list of numbers: nothing else is read back as it was written."""
    if isinstance(value, str):
        require_unicode(**{name: value})
        return
    for number in value if isinstance(value, list) else (value,):
        if isinstance(number, bool) or not (number is None or isinstance(number, int | float)):
            raise ValueError(f"{name} must be a number, a text or a list of numbers, got {value!a}")
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")

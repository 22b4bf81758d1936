"""A training that is carried out: what was agreed, the facts of its life, and what the machine observes meanwhile.

A Run never changes. Its state follows from its Facts (`runner/life.py`), which the supervisor at home appends.
Observations come from the agent on the machine, numbered, in its order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text, require_unicode
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.program import Program
from trainfare.model.rented import RefusalCause, RentedMachine
from trainfare.model.supplies import DataSource, Install

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
    "program sent",
    "program started",
    "program ended",
    "machines lost",
    "machines silent",
    "machines answer",
    "machines abandoned",
    "results collected",
    "results lost",
    "checkpoint fetched",
    "termination intended",
    "termination failed",
    "terminated",
    "run ended",
    "stop asked",
    "move asked",
    "warned",
]

REMARKS: tuple[FactKind, ...] = ("stop asked", "move asked", "warned")
"""Facts that may come in every state but the last, and leave it as it is. Any process may append them; all others come
from the one that holds the lease of the run."""

ObservationKind = Literal[
    "heartbeat", "setup", "program", "iterations", "losses", "meter", "checkpoint", "interruption", "message"
]
"""`interruption`: the provider has announced that it takes the machine back."""


Launcher = Literal["torchrun", "accelerate", "env", "jax", "tf-workers", "tf-server", "ray", "spark"]
"""The way in which a program on several nodes finds its place among them; `runner/gang.py` says how."""
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)

FINDS_ITSELF = "auto"
"""The `resume_flag` of a program that needs no argument to go on: it, or its Trainer, finds its checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """The files of a checkpoint that a further node has saved."""

    node: int
    files: tuple[str, ...]
    """Paths within the program's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A state that the program saved, as it was brought home: its files are complete and verified."""

    name: str
    """Its folder at home, among the checkpoints of the run."""
    path: str
    """The file or folder that the program is to go on from, by its path within the program's folder."""
    files: tuple[str, ...]
    """Paths within the program's folder."""
    bytes: int
    saved_at: datetime
    """By the clock of the machine."""
    iteration: int | None = None
    """Iterations that were done when it was saved, over all attempts; None if they cannot be counted."""
    save_seconds: float = 0.0
    """The time that the program took to save it."""
    fetch_seconds: float = 0.0
    resumes: bool = False
    """The Trainer of the program, of Hugging Face or Lightning, goes on from it without being asked to."""
    node: int = 0
    """The node that has saved `files`: the first one that saves."""
    others: tuple[NodeFiles, ...] = ()
    """The files of further nodes; they are part of the checkpoint."""

    def __post_init__(self) -> None:
        require_text(name=self.name, path=self.path)
        require_aware(saved_at=self.saved_at)
        require_not_negative(
            bytes=self.bytes,
            iteration=self.iteration,
            save_seconds=self.save_seconds,
            fetch_seconds=self.fetch_seconds,
        )
        for word in (self.name, self.path, *self.files, *(file for each in self.others for file in each.files)):
            if word.startswith("/") or ".." in word.split("/"):
                raise ValueError(f"a checkpoint must be within its folder, got {word}")

    @property
    def cost_seconds(self) -> float:
        """The time that it takes to save it and to bring it home."""
        return self.save_seconds + self.fetch_seconds

    def files_of(self, node: int) -> tuple[str, ...]:
        """The files that a node gets back: its own, and those of the first node, which others may read too."""
        own = next((each.files for each in self.others if each.node == node), ())
        return (*own, *(file for file in self.files if file not in own))


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
    install: Install | None = None
    """By default `auto`, unless there is a setup command or the machine is the one at home."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of setup and program. They are stored: secrets belong elsewhere."""
    data: tuple[DataSource, ...] = ()
    launcher: Launcher | None = None
    """The way in which its nodes find each other; None if it has one node."""
    resume_flag: str | None = None
    """Words that are added to the command so that the program goes on from a checkpoint, `{}` being its path; `auto`
    if it finds its checkpoint by itself; None if only the Trainers of Hugging Face and Lightning can go on."""
    attempts: int = 3
    """The program is started so many times at most."""
    auto_move: bool = False
    """A better machine that pays for its move is taken without a question."""
    patience_seconds: float | None = None
    """The machine ends the program if it was not reached for so long, and the run goes on elsewhere; None if it is
    waited for until its lease ends."""
    due: datetime | None = None
    """The deadline of its plan on spot: it goes on on demand early enough to meet it, and is not stopped by it."""
    sandboxed: bool = False
    """The program was uploaded: on the machine at home it sees nothing but its own folder."""
    user: str | None = None
    """The user of a server who started it; None if it was started at home."""
    then: Estimate | None = None
    """The second segment of a split plan: when the iterations of `estimate` are done, the run moves to its machines."""

    def __post_init__(self) -> None:
        require_text(id=self.id, owner=self.owner, results_directory=self.results_directory)
        require_positive(attempts=self.attempts, patience_seconds=self.patience_seconds)
        require_aware(made_at=self.made_at)
        if self.due is not None:
            require_aware(due=self.due)
        if self.plan_id is not None:
            require_text(plan_id=self.plan_id)
        if self.estimate is not None and self.estimate.candidate != self.candidate:
            raise ValueError("the estimate must be of the candidate of the run")
        if self.then is not None and not (self.estimate and self.estimate.iterations and self.then.iterations):
            raise ValueError("both segments of a split plan must have a number of iterations")


_NEEDED: Mapping[FactKind, tuple[str, ...]] = {
    "launch intended": ("attempt", "candidate"),
    "launch refused": ("text",),
    "machines seen": ("machines",),
    "setup failed": ("text",),
    "program ended": ("exit_code",),
    "machines lost": ("text",),
    "machines silent": ("text",),
    "machines abandoned": ("text",),
    "results lost": ("text",),
    "checkpoint fetched": ("checkpoint",),
    "termination failed": ("text",),
    "run ended": ("outcome", "text"),
    "stop asked": ("stop_reason",),
    "move asked": ("candidate",),
    "warned": ("text",),
}
"""The fields that a fact of a kind must have; others may have none but `text`."""

REFUSAL_KINDS: tuple[FactKind, ...] = ("launch refused", "machines lost")
"""The facts that may say that machines were not given."""


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
    """The reason to stop; in a warning, the limit that it is about."""
    outcome: Outcome | None = None
    sent_bytes: int | None = None
    transfer_seconds: float | None = None
    """The time that it took to send the program with what it needs, or to fetch the results."""
    checkpoint: Checkpoint | None = None
    """The checkpoint that was fetched; of a launch, the one that it goes on from; of the end of a program, the one that
    it could not go on from."""
    interrupted: bool = False
    """The program did not end by itself: its agent was killed, its machine was restarted or is taken back, or it is to
    move."""
    reclaimed: bool = False
    """The provider has taken the machines back, or has announced it."""
    refusal: RefusalCause | None = None
    """Why machines were not given; the candidate is what was asked for."""
    lost_seconds: float | None = None
    """The work that is done again after a loss, in a warning about it."""

    def __post_init__(self) -> None:
        require_text(run_id=self.run_id)
        require_unicode(text=self.text or "")
        require_aware(seen_at=self.seen_at)
        require_not_negative(
            number=self.number,
            attempt=self.attempt,
            collected_files=self.collected_files,
            collected_bytes=self.collected_bytes,
            sent_bytes=self.sent_bytes,
            transfer_seconds=self.transfer_seconds,
            lost_seconds=self.lost_seconds,
        )
        for name in _NEEDED.get(self.kind, ()):
            if getattr(self, name) in (None, (), 0) and not (name == "exit_code" and self.exit_code == 0):
                raise ValueError(f"a fact of the kind {self.kind} must have {name}")

    @property
    def is_refusal(self) -> bool:
        """True if it says that machines were not given: at once, or while they were looked for."""
        return self.kind == "launch refused" or self.refusal is not None


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

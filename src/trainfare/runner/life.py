"""The life of a run as a table: which facts may follow in which state, and the state that they lead to.

    planned ─▶ asked for ─▶ booting ─▶ setting up ─▶ training ─▶ collecting ─▶ ending ─▶ planned ─▶ ended
                   │            │            │            │            │            ▲
                   └─ refused   └────────────┴── lost ────┴────────────┴────────────┘

Each launch is an attempt. An attempt ends when its termination is confirmed: the run is then planned again, and the
next fact is another launch or the end of the run. So a run never ends while a machine of it may exist, and there are
never two attempts at once. The exception is a machine that has fallen silent and is given up for good (`machines
abandoned`), because its lease is over or the user goes on elsewhere: nothing of that attempt is read any more, and the
reaper ends it when it answers again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trainfare.model.offer import Candidate
from trainfare.model.rented import RentedMachine
from trainfare.model.run import REMARKS, Checkpoint, Fact, FactKind, Outcome, RunState, StopReason

MAY_BE_SILENT: tuple[RunState, ...] = ("setting up", "training", "collecting", "ending")
"""The states in which a machine is expected to answer."""

_SILENCE: tuple[FactKind, ...] = ("machines silent", "machines answer")

NEXT: Mapping[tuple[RunState, FactKind], RunState] = {
    ("planned", "launch intended"): "asked for",
    ("planned", "run ended"): "ended",
    ("asked for", "launch refused"): "planned",
    ("asked for", "machines seen"): "booting",
    ("asked for", "machines lost"): "ending",
    ("asked for", "termination intended"): "ending",
    ("booting", "machines ready"): "setting up",
    ("booting", "machines lost"): "ending",
    ("booting", "termination intended"): "ending",
    ("booting", "program sent"): "booting",
    ("booting", "setup failed"): "ending",
    ("setting up", "program sent"): "setting up",
    ("setting up", "program started"): "training",
    ("setting up", "setup failed"): "collecting",
    ("setting up", "machines lost"): "ending",
    ("setting up", "termination intended"): "ending",
    ("training", "checkpoint fetched"): "training",
    ("training", "program ended"): "collecting",
    ("training", "machines lost"): "ending",
    ("training", "termination intended"): "ending",
    ("collecting", "checkpoint fetched"): "collecting",
    ("collecting", "results collected"): "ending",
    ("collecting", "results lost"): "ending",
    ("collecting", "machines lost"): "ending",
    ("collecting", "termination intended"): "ending",
    ("ending", "termination intended"): "ending",
    ("ending", "termination failed"): "ending",
    ("ending", "terminated"): "planned",
    ("ending", "machines abandoned"): "planned",
    **{(state, kind): state for state in MAY_BE_SILENT for kind in _SILENCE},
}
"""Every transition. A fact that is not in the table for a state cannot be appended in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The sum of the facts of a run up to now."""

    state: RunState = "planned"
    facts: int = 0
    """The number of the next fact."""
    attempt: int = 0
    """The current attempt, or the last one."""
    candidate: Candidate | None = None
    """The request of the current attempt."""
    machines: tuple[RentedMachine, ...] = ()
    silent_since: datetime | None = None
    """The moment at which machines of the current attempt were first found not to answer; None if they do."""
    abandoned: tuple[tuple[int, Candidate], ...] = ()
    """Attempts whose machines fell silent and were given up, and what they had asked for."""
    asked_at: datetime | None = None
    """The moment of the request of the current attempt, from which its cost is counted."""
    sent: bool = False
    """The program is on all machines of the current attempt."""
    started_at: datetime | None = None
    """The start of the program in the current attempt."""
    exit_code: int | None = None
    """The exit code of the program in the current attempt."""
    interrupted: bool = False
    """The program of the current attempt is to go on in another one: it ended with its agent or its machine or for a
    move, or its machine was lost before its results were fetched."""
    ended_at: datetime | None = None
    """The end of the program in the current attempt, or the moment at which its machines were lost."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint that was brought home, in whichever attempt."""
    older_checkpoint: Checkpoint | None = None
    """The one before it, which is kept too."""
    unloadable: frozenset[str] = frozenset()
    """The names of checkpoints that the program could not go on from."""
    checkpoint_attempt: int = 0
    checkpoint_at: datetime | None = None
    """The moment at which it was at home."""
    resumed_from: Checkpoint | None = None
    """The checkpoint that the current attempt goes on from; None if it starts from the beginning."""
    move_to: Candidate | None = None
    """The machines that the run is to move to; None once it is launched on them."""
    proposed: Candidate | None = None
    """Better machines that were proposed to the user."""
    failure: str | None = None
    """Why the current attempt cannot succeed: refused, lost, or its setup failed."""
    stop_reason: StopReason | None = None
    """Why the run is to be stopped, if it is."""
    starts: int = 0
    """The number of attempts in which the program has started."""
    moves: int = 0
    """The number of attempts that were launched because the run was moved."""
    reclaims: int = 0
    """The number of attempts in which the program had started and the provider took its machines back."""
    refusals: tuple[Fact, ...] = ()
    """The last refusal of each request."""
    refused_since: datetime | None = None
    """The first refusal since the program was last started; None if there was none."""
    termination_intended: bool = False
    """The machines of the current attempt are to be terminated."""
    termination_failures: int = 0
    """Failed calls in the current attempt."""
    termination_failed_at: datetime | None = None
    outcome: Outcome | None = None
    message: str | None = None
    """The end of the run in words."""
    warnings: tuple[str, ...] = ()
    loss_reported: int = 0
    """The last attempt whose loss was reported to the user."""
    warned_of: frozenset[StopReason] = frozenset()
    """The limits of which it was warned that they will be reached."""

    @property
    def ever_started(self) -> bool:
        """The program has started in some attempt."""
        return self.starts > 0

    @property
    def ended_without_results(self) -> bool:
        """The program ran before, but the last attempt was interrupted or did not start it: the last checkpoint at home
        is what there is."""
        return self.ever_started and (self.interrupted or self.started_at is None)

    @property
    def is_running(self) -> bool:
        """The program has started in the current attempt, and is not to move."""
        return self.started_at is not None and not self.is_moving

    @property
    def done_before(self) -> int:
        """The iterations that were done before the checkpoint that the current attempt goes on from."""
        return (self.resumed_from.iteration or 0) if self.resumed_from else 0

    @property
    def is_moving(self) -> bool:
        """The program is to end here and to go on elsewhere."""
        return self.move_to is not None and self.stop_reason is None

    @property
    def usable_checkpoint(self) -> Checkpoint | None:
        """The checkpoint at home to go on from: the last, or the one before if the program could not load it."""
        kept = (self.checkpoint, self.older_checkpoint)
        return next((each for each in kept if each is not None and each.name not in self.unloadable), None)

    @property
    def is_abandoned(self) -> bool:
        """The machines of the current attempt were given up."""
        return any(attempt == self.attempt for attempt, _ in self.abandoned)

    @property
    def may_cost(self) -> bool:
        """True if a machine of this run may exist."""
        return self.state not in ("planned", "ended")


class IllegalFactError(ValueError):
    """A fact that cannot follow in the state that a run is in."""


def after(life: Life, fact: Fact) -> Life:
    """The life with one more fact. `IllegalFactError` if it cannot follow."""
    if fact.number != life.facts:
        raise IllegalFactError(f"fact {fact.number} cannot follow: the next number is {life.facts}")
    if fact.kind in REMARKS and life.state != "ended":
        state: RunState = life.state
    elif (life.state, fact.kind) in NEXT:
        state = NEXT[life.state, fact.kind]
    else:
        raise IllegalFactError(f"{fact.kind} cannot follow in the state {life.state}")
    if fact.kind == "launch intended" and fact.attempt != life.attempt + 1:
        raise IllegalFactError(f"attempt {fact.attempt} cannot follow attempt {life.attempt}")
    details = _DETAILS.get(fact.kind)
    return replace(life, state=state, facts=life.facts + 1, **(details(life, fact) if details else {}))


def _new_attempt(life: Life, fact: Fact) -> dict[str, Any]:
    return {
        "attempt": fact.attempt,
        "candidate": fact.candidate,
        "asked_at": fact.seen_at,
        "machines": (),
        "silent_since": None,
        "sent": False,
        "started_at": None,
        "exit_code": None,
        "interrupted": False,
        "ended_at": None,
        "resumed_from": fact.checkpoint,
        "move_to": None,
        "moves": life.moves + (life.move_to is not None),
        "failure": None,
        "termination_intended": False,
        "termination_failures": 0,
    }


def _failure(_life: Life, fact: Fact) -> dict[str, Any]:
    return {"failure": fact.text}


def _refusal(life: Life, fact: Fact) -> dict[str, Any]:
    known = fact if fact.candidate is not None else replace(fact, candidate=life.candidate)
    others = (each for each in life.refusals if each.candidate != known.candidate)
    return {
        "failure": fact.text,
        "refusals": (*others, known),
        "refused_since": life.refused_since or fact.seen_at,
    }


def _reclaims(life: Life, fact: Fact) -> int:
    """The machines of an attempt are taken back once, however often that is said."""
    return life.reclaims + (fact.reclaimed and life.started_at is not None and not life.interrupted)


def _warning(life: Life, fact: Fact) -> dict[str, Any]:
    limits = {fact.stop_reason} if fact.stop_reason else set()
    return {
        "warnings": (*life.warnings, fact.text or ""),
        "warned_of": life.warned_of | limits,
        "loss_reported": life.loss_reported if fact.lost_seconds is None else fact.attempt,
        "proposed": fact.candidate or life.proposed,
    }


_DETAILS: Mapping[FactKind, Callable[[Life, Fact], dict[str, Any]]] = {
    "launch intended": _new_attempt,
    "launch refused": _refusal,
    "machines seen": lambda _life, fact: {"machines": fact.machines},
    "machines ready": lambda life, fact: {"machines": fact.machines or life.machines},
    "program sent": lambda _life, _fact: {"sent": True},
    "setup failed": lambda life, fact: {
        "failure": fact.text,
        "unloadable": life.unloadable | ({fact.checkpoint.name} if fact.checkpoint else set()),
    },
    "program started": lambda life, fact: {
        "started_at": fact.seen_at,
        "starts": life.starts + 1,
        "refused_since": None,
    },
    "program ended": lambda life, fact: {
        "exit_code": fact.exit_code,
        "interrupted": fact.interrupted,
        "reclaims": _reclaims(life, fact),
        "ended_at": fact.seen_at,
        "failure": fact.text,
        "unloadable": life.unloadable | ({fact.checkpoint.name} if fact.checkpoint else set()),
    },
    "machines lost": lambda life, fact: {
        **(_refusal(life, fact) if fact.refusal else {}),
        "failure": fact.text,
        "ended_at": life.ended_at or fact.seen_at,
        "interrupted": life.interrupted or (life.started_at is not None and not life.exit_code),
        "reclaims": _reclaims(life, fact),
    },
    "checkpoint fetched": lambda life, fact: {
        "checkpoint": fact.checkpoint,
        "older_checkpoint": life.usable_checkpoint,
        "checkpoint_attempt": life.attempt,
        "checkpoint_at": fact.seen_at,
    },
    "machines silent": lambda _life, fact: {"silent_since": fact.seen_at},
    "machines answer": lambda _life, _fact: {"silent_since": None},
    "machines abandoned": lambda life, _fact: {
        "machines": (),
        "silent_since": None,
        "abandoned": (*life.abandoned, *([(life.attempt, life.candidate)] if life.candidate else [])),
    },
    "results lost": _failure,
    "termination intended": lambda _life, _fact: {"termination_intended": True},
    "termination failed": lambda life, fact: {
        "termination_failures": life.termination_failures + 1,
        "termination_failed_at": fact.seen_at,
    },
    "terminated": lambda _life, _fact: {"machines": (), "silent_since": None},
    "run ended": lambda _life, fact: {"outcome": fact.outcome, "message": fact.text},
    "stop asked": lambda life, fact: {"stop_reason": life.stop_reason or fact.stop_reason},
    "move asked": lambda _life, fact: {"move_to": fact.candidate},
    "warned": _warning,
}
"""Changes by a fact of a kind, in addition to the state. The first reason to stop counts."""


def life_of(facts: Iterable[Fact], before: Life | None = None) -> Life:
    """The life of a run by its facts, in the order of their numbers, or by those after a life that is known."""
    life = before or Life()
    for fact in facts:
        life = after(life, fact)
    return life

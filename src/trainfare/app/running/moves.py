"""Use case: move a run to another machine while it trains."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from trainfare.app.running.doors import open_door
from trainfare.app.running.run import attend, pick_candidate, require_nodes
from trainfare.app.running.supervise import reached
from trainfare.errors import UsageError
from trainfare.model.offer import Candidate
from trainfare.model.run import Fact, Run
from trainfare.runner.decide import can_resume
from trainfare.runner.life import Life, life_of
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move to agree to: the program saves and ends on its machines, and goes on from its checkpoint on others."""

    run: Run
    life: Life
    to: Candidate

    @property
    def machines(self) -> Candidate:
        """The machines that the run has now, or asks for."""
        return self.life.candidate or self.run.candidate


def propose_move(run_id: str, on: str, *, settings: Settings | None = None) -> Move:
    """The move that would be made. `UsageError` if the run has ended, cannot go on elsewhere, or is there already."""
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        run, life = history.runs.get(run_id), life_of(history.facts.of(run_id))
    if life.state == "ended":
        raise UsageError(f"Run {run_id} has ended: {life.outcome}.", field="run_id")
    if not can_resume(run, life):
        raise UsageError(
            f"Run {run_id} cannot move: it was started without a way to go on from a checkpoint, so that its program "
            "would start again from the beginning. Stop it, and start it with a resume flag.",
            field="run_id",
        )
    to = pick_candidate(open_door(settings, on), on, nodes=run.candidate.nodes)
    require_nodes(to)
    move = Move(run=run, life=life, to=to)
    if to.offer.vm_type.key == move.machines.offer.vm_type.key and life.move_to is None:
        raise UsageError(f"Run {run_id} is on {on} already.", field="on")
    return move


def ask_to_move(move: Move, *, settings: Settings | None = None) -> None:
    """Store that the run is to move. Whoever attends it does so."""
    fact = Fact(
        run_id=move.run.id,
        number=0,
        seen_at=datetime.now(UTC),
        kind="move asked",
        attempt=move.life.attempt,
        candidate=move.to,
    )
    with open_existing_history((settings or read_settings()).store) as history:
        history.facts.append(fact, lease=None)
    reached(fact.kind)


def move_run(
    run_id: str,
    on: str,
    *,
    settings: Settings | None = None,
    on_status: Callable[[RunStatus], None] = lambda _status: None,
    detach: bool = False,
) -> RunStatus:
    """Move a run to another machine, and attend it to its end; with `detach`, until its program runs there."""
    ask_to_move(propose_move(run_id, on, settings=settings), settings=settings)
    return attend(run_id, settings=settings, on_status=on_status, until_started=detach)

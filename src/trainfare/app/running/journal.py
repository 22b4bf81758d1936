"""Reads what the agents wrote into the history and into the log at home."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, get_args

from trainfare.clouds import driver
from trainfare.clouds.door import Shell
from trainfare.model.run import Observation, ObservationKind
from trainfare.runner.decide import JobView
from trainfare.store.history import History

JournalEnds = dict[tuple[int, int], tuple[int, int]]
"""By attempt and node: the number of the last entry that was read, and where it ends in the journal."""


def pull_journals(
    history: History, run_id: str, attempt: int, shells: Mapping[int, Shell], ends: JournalEnds | None = None
) -> None:
    """Store the entries that are new, each once. `ends` is kept from call to call: with it, the machine need not search
    its journal, for which it would start Python each time."""
    ends = {} if ends is None else ends
    for node, shell in shells.items():
        known = history.observations.last_number(run_id, attempt=attempt, node=node)
        last, position = ends.get((attempt, node), (0, 0))
        entries = driver.entries(shell, after=known, position=position if last == known else 0)
        if entries:
            ends[attempt, node] = (entries[-1].number, entries[-1].ends)
        history.observations.add_all(
            Observation(
                run_id=run_id,
                attempt=attempt,
                node=node,
                number=entry.number,
                at=datetime.fromtimestamp(entry.time, UTC),
                kind=cast("ObservationKind", entry.kind),
                values=entry.values,
            )
            for entry in entries
            if entry.kind in get_args(ObservationKind)  # a newer agent may know more
        )


def output_path(folder: Path, attempt: int, node: int) -> Path:
    return folder / f"output-{attempt}-{node}"


def pull_output(folder: Path, attempt: int, shells: Mapping[int, Shell]) -> None:
    """Append what the program printed since the last time."""
    folder.mkdir(parents=True, exist_ok=True)
    for node, shell in shells.items():
        path = output_path(folder, attempt, node)
        with path.open("ab") as log:
            while chunk := driver.output(shell, offset=log.tell()):
                log.write(chunk)
                log.flush()


def job_view(seen: Sequence[Observation], *, nodes: int, leading: bool = False) -> JobView | None:
    """A summary of the entries of all journals about setup, program and interruptions; None if no node has one. With
    `leading`, the program ends with its first node, which the others serve."""
    if not seen:
        return None
    setups = [s for s in seen if s.kind == "setup" and s.values.get("exit_code") not in (None, 0)]
    taken = [s for s in seen if s.kind == "interruption"]
    failed = next((s for s in setups if not taken), None)  # a setup that ends with its machine has not failed
    started = {s.node for s in seen if s.kind == "program"}  # one that cannot be started has only an end
    ended = {
        s.node: (int(code), str(s.values.get("cause", "own")), s.node)
        for s in seen
        if s.kind == "program"
        and s.values.get("state") == "ended"
        and isinstance(code := s.values.get("exit_code"), int | float)
    }
    code, cause, node = min(ended.values(), key=_importance, default=(None, "own", 0))
    has_led = leading and 0 in ended and ended[0][1] == "own"
    if has_led:
        code, cause, node = ended[0]
    everywhere = len(ended) == nodes
    return JobView(
        setup_failed=_setup_failure(failed, nodes) if failed else None,
        started=len(started) == nodes,
        everywhere=len({s.node for s in seen}) == nodes,
        exit_code=code if everywhere else None,
        failing=(bool(code) or has_led or cause == "interruption") and not everywhere,
        cause=cause,
        taken_at=min(map(_taken_at, taken), default=None),
        failed_node=node if code and nodes > 1 else None,
    )


def _taken_at(notice: Observation) -> datetime:
    """The announced moment, by the clock of the machine."""
    moment = notice.values.get("taken")
    return datetime.fromtimestamp(moment, UTC) if isinstance(moment, int | float) else notice.at


def _setup_failure(failed: Observation, nodes: int) -> str:
    """A sentence about a setup that failed; the agent may know why."""
    where = f" on node {failed.node}" if nodes > 1 else ""
    known = failed.values.get("failure")
    return f"The setup ended{where} with exit code {_code(failed)}." + (f" {known}" if known else "")


def _importance(end: tuple[int, str, int]) -> tuple[int, int]:
    """The order of the ends of a program on several nodes: the loss of one explains those of the others, and a failure
    explains that others were stopped."""
    code, cause, _ = end
    order = 0 if cause in ("signal", "interruption") else 1 if code and cause == "own" else 2 if cause != "own" else 3
    return order, -abs(code)


def _code(seen: Observation) -> int:
    code = seen.values.get("exit_code")
    return int(code) if isinstance(code, int | float) else 0

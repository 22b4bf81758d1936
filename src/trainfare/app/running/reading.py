"""Reads the stored journals of a run as they grow: each look reads only entries that are new since the last one."""

from trainfare.runner.seen import KINDS, Seen
from trainfare.store.history import History


class SeenReader:
    """The summary of the journals of the current attempt of one run."""

    def __init__(self, history: History, run_id: str) -> None:
        self._history, self._run_id = history, run_id
        self._attempt, self._seen = 0, Seen()

    def read(self, attempt: int, *, nodes: int) -> Seen:
        """The summary of all entries of an attempt up to now."""
        if attempt != self._attempt:
            self._attempt, self._seen = attempt, Seen()
        for node in range(nodes if attempt else 0):
            known = self._seen.nodes.get(node)
            self._seen.add(
                self._history.observations.of(
                    self._run_id, kinds=KINDS, attempt=attempt, node=node, after=known.last_number if known else 0
                )
            )
        return self._seen

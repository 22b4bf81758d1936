"""A supervisor reads each stored entry of a journal once, however long the run lasts."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.makers import NOON, make_observation, make_run
from trainfare.app.running.reading import SeenReader
from trainfare.runner.progress import progress_of
from trainfare.store.open import open_history

RUN = make_run(plan_id=None, estimate=None)


def entry(number: int, **changes: Any) -> Any:
    values = {"first": 10 * number - 9, "count": 10, "seconds": [0.1] * 10}
    return make_observation(number=number, at=NOON + timedelta(seconds=number), values=values, **changes)


def test_only_entries_that_are_new_are_read(tmp_path: Path) -> None:
    with open_history(str(tmp_path / "h.db")) as history:
        history.runs.add(RUN)
        history.observations.add_all(map(entry, range(1, 101)))
        read: list[int] = []
        every = history.observations.of

        def count(*arguments: Any, **options: Any) -> Any:
            found = every(*arguments, **options)
            read.append(len(found))
            return found

        history.observations.of = count  # type: ignore[method-assign] # it counts, and asks the store
        reader = SeenReader(history, RUN.id)
        assert progress_of(RUN, reader.read(1, nodes=1), seconds=0.0).iterations == 1000
        history.observations.add_all(map(entry, (101, 102)))
        assert progress_of(RUN, reader.read(1, nodes=1), seconds=0.0).iterations == 1020
        reader.read(1, nodes=1)
        assert read == [100, 2, 0]
        history.observations.add_all([entry(1, attempt=2)])
        assert progress_of(RUN, reader.read(2, nodes=1), seconds=0.0).iterations == 10, "another attempt begins anew"

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.makers import make_profile
from tests.store.contract import HistoryContract
from trainfare.store.history import History
from trainfare.store.open import open_history


class TestSqlite(HistoryContract):
    @pytest.fixture
    def history(self, tmp_path: Path) -> Iterator[History]:
        with open_history(str(tmp_path / "history.db")) as history:
            yield history

    def test_threads_that_write_at_once_wait_for_each_other(self, history: History) -> None:
        names = {f"p{number}" for number in range(80)}
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda name: history.add_profile(make_profile(id=name)), names))
        assert {profile.id for profile in history.profiles()} == names

    def test_another_process_sees_what_was_added(self, history: History, tmp_path: Path) -> None:
        with open_history(str(tmp_path / "history.db")) as other:
            history.add_profile(make_profile())
            assert other.profiles() == (make_profile(),)

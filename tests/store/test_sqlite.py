from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.contract import HistoryContract
from trainfare.store.history import History
from trainfare.store.open import open_history


class TestSqlite(HistoryContract):
    @pytest.fixture
    def history(self, tmp_path: Path) -> Iterator[History]:
        with open_history(str(tmp_path / "history.db")) as history:
            yield history

from collections.abc import Iterator

import pytest

from tests.store.contract import HistoryContract
from trainfare.store.history import History
from trainfare.store.open import open_history


class TestPostgres(HistoryContract):
    @pytest.fixture
    def history(self, postgres: str) -> Iterator[History]:
        with open_history(postgres) as history:
            yield history

import pytest

from tests.store.contract import HistoryContract
from trainfare.store.history import History
from trainfare.store.open import open_history


class TestMemory(HistoryContract):
    @pytest.fixture
    def history(self) -> History:
        return open_history("memory:")

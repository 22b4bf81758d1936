import gc

import pytest

from trainfare.app.fare import without_collecting


@without_collecting()
def estimated() -> None:
    with without_collecting():
        assert not gc.isenabled()
    assert not gc.isenabled()
    raise ValueError("nothing was estimated")


def test_python_collects_again_after_the_estimates_whatever_became_of_them() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="nothing"):
        estimated()
    assert gc.isenabled()

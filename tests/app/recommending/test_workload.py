import gc

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.recommend import recommend
from trainfare.app.recommending.workload import gc_paused
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history


@gc_paused()
def estimated() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
    raise ValueError("nothing was estimated")


def test_python_collects_again_after_the_estimates_whatever_became_of_them() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="nothing"):
        estimated()
    assert gc.isenabled()


def test_the_doubt_of_epochs_counts_only_between_batch_sizes() -> None:
    """All machines need as many epochs at one batch size, however many that are."""
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400))
    found = recommend(epochs=300, scope=Scope(batch_sizes=(64, 128, 256)))
    at_128, at_256 = (
        next(e.candidate for e in found.estimates if e.candidate.batch_size == size and e.fits) for size in (128, 256)
    )
    first, second = found.workload.with_fixed_epochs([at_128, at_256])
    assert first.epochs_interval is None or first.epochs_interval.high - first.epochs_interval.low <= 1
    assert second.epochs_interval is not None
    assert second.epochs_interval.high > 1.1 * second.epochs

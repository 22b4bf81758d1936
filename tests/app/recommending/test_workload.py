import gc

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.recommend import recommend
from trainfare.app.recommending.workload import gc_paused
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history


@gc_paused()
def failing_estimates() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
    raise ValueError("nothing was estimated")


def test_garbage_collection_continues_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="nothing"):
        failing_estimates()
    assert gc.isenabled()


def test_the_uncertainty_of_epochs_counts_only_between_batch_sizes() -> None:
    """All machines need the same number of epochs at one batch size, whatever it is."""
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400))
    found = recommend(epochs=300, scope=Scope(batch_sizes=(64, 128, 256)))
    at_128, at_256 = (
        next(e.candidate for e in found.totals if e.candidate.batch_size == size and e.fits) for size in (128, 256)
    )
    first, second = found.workload.with_fixed_epochs([at_128, at_256])
    assert first.epochs_interval is None or first.epochs_interval.high - first.epochs_interval.low <= 1
    assert second.epochs_interval is not None
    assert second.epochs_interval.high > 1.1 * second.epochs


def test_totals_estimates_and_bills_agree() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400))
    found = recommend(epochs=30, scope=Scope(spot=True, providers=("aws",)))
    candidates = [each.candidate for each in found.totals]
    totals, unbilled, billed = (
        {each.candidate: (each.seconds, each.usd) for each in make(candidates)}
        for make in (found.workload.totals, found.workload.unbilled, found.workload.estimate)
    )
    assert totals == unbilled == billed
    assert set(totals) == set(candidates)

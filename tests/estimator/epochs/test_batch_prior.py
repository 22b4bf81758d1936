import math

import pytest

from trainfare.estimator.epochs.batch_prior import fit_epochs_prior
from trainfare.estimator.epochs.by_batch import SHIPPED, EpochsPrior, KnownEpochs

SIZES = (64, 128, 256, 512, 1024, 2048)


def growing(critical: float, *, epochs: float = 30.0) -> tuple[KnownEpochs, ...]:
    return tuple(
        KnownEpochs(batch_size=size, epochs=epochs * (1 + size / critical), counted=0, runs=10) for size in SIZES
    )


def flat() -> tuple[KnownEpochs, ...]:
    return tuple(KnownEpochs(batch_size=size, epochs=30.0, runs=10) for size in SIZES)


def test_the_fewest_steps_of_other_programs_are_learned() -> None:
    """30 epochs of 100 000 samples in batches of 1000 are 3000 steps."""
    found = fit_epochs_prior([(growing(1000.0), 100_000)] * 5)
    assert found.steps_mean == pytest.approx(math.log(3000), abs=0.2)
    assert found.steps_deviation < SHIPPED.steps_deviation


def test_the_more_programs_are_flat_the_more_it_is_believed_of_the_next() -> None:
    grows, stays = (growing(1000.0), 100_000), (flat(), 100_000)
    shares = [fit_epochs_prior([grows] * (5 - n) + [stays] * n).flat for n in range(4)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


def test_without_programs_what_ships_is_believed() -> None:
    assert fit_epochs_prior([]) == SHIPPED
    assert fit_epochs_prior([(growing(1000.0), None), (growing(1000.0)[:3], 1000)]) == SHIPPED


def test_a_share_of_flat_programs_is_below_one() -> None:
    with pytest.raises(ValueError, match="share below 1"):
        EpochsPrior(flat=1.0)

import math

import pytest

from trainfare.estimator.epochs.batch_prior import VAGUE_PRIOR, fit_epochs_prior
from trainfare.estimator.epochs.by_batch import DEFAULT_EPOCHS_PRIOR, EpochsPrior, KnownEpochs, posterior_means

SIZES = (64, 128, 256, 512, 1024, 2048)


def growing(critical: float, *, epochs: float = 30.0) -> tuple[KnownEpochs, ...]:
    return tuple(
        KnownEpochs(batch_size=size, epochs=epochs * (1 + size / critical), resolution=0, runs=10) for size in SIZES
    )


def flat() -> tuple[KnownEpochs, ...]:
    return tuple(KnownEpochs(batch_size=size, epochs=30.0, runs=10) for size in SIZES)


def test_minimum_steps_are_learned_from_other_programs() -> None:
    """30 epochs of 100,000 samples in batches of 1,000 are 3,000 steps."""
    found = fit_epochs_prior([(growing(1000.0), 100_000)] * 5)
    assert found.steps_mean == pytest.approx(math.log(3000), abs=0.2)
    assert found.steps_deviation < DEFAULT_EPOCHS_PRIOR.steps_deviation


def test_few_steps_do_not_count_less_when_the_prior_is_learned() -> None:
    """Five epochs at every size, of 2,000 or 20,000 samples: below 1,000 steps, and ten times as many steps."""
    known = tuple(KnownEpochs(batch_size=size, epochs=5.0) for size in SIZES)
    (_, few_critical, few), (_, critical, more) = (
        posterior_means(known, samples, VAGUE_PRIOR) for samples in (2_000, 20_000)
    )
    assert few_critical < critical
    assert more - few < math.log(10)


def test_share_of_flat_programs_raises_the_prior_of_flat() -> None:
    growing_program, flat_program = (growing(1000.0), 100_000), (flat(), 100_000)
    shares = [fit_epochs_prior([growing_program] * (5 - n) + [flat_program] * n).flat for n in range(4)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


def test_without_programs_the_default_prior_is_returned() -> None:
    assert fit_epochs_prior([]) == DEFAULT_EPOCHS_PRIOR
    assert fit_epochs_prior([(growing(1000.0), None), (growing(1000.0)[:3], 1000)]) == DEFAULT_EPOCHS_PRIOR


def test_share_of_flat_programs_must_be_below_one() -> None:
    with pytest.raises(ValueError, match="share below 1"):
        EpochsPrior(flat=1.0)

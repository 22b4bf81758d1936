"""The machines that are worth pairing in a split plan."""

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.recommender.split.shortlist import SHORTLIST, shortlist

EPOCHS = 100


def on(name: str, *, start: float, per_epoch: float, usd_per_hour: float, batch_size: int = 64) -> Estimate:
    steady = Interval.exactly(per_epoch * EPOCHS)
    seconds = steady + Interval.exactly(start)
    return make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name=name)), batch_size=batch_size),
        epochs=EPOCHS,
        phases=(
            Phase(name="boot", seconds=Interval.exactly(start)),
            Phase(name="steady iterations", seconds=steady),
        ),
        seconds=seconds,
        usd=seconds * (usd_per_hour / 3600),
    )


def names(estimates: tuple[Estimate, ...]) -> set[str]:
    return {estimate.candidate.offer.vm_type.name for estimate in estimates}


FAST = on("fast", start=300, per_epoch=10, usd_per_hour=4.0)
CHEAP = on("cheap", start=300, per_epoch=30, usd_per_hour=0.5)


def test_a_machine_that_is_slower_and_more_expensive_is_left_out() -> None:
    worse = on("worse", start=300, per_epoch=40, usd_per_hour=5.0)
    assert names(shortlist([FAST, CHEAP, worse])) == {"fast", "cheap"}


def test_a_machine_that_is_best_only_for_few_epochs_is_listed() -> None:
    """It starts at once and is slow: for five epochs it is the fastest, for a quarter of them no more."""
    quick_start = on("quick start", start=1, per_epoch=25, usd_per_hour=4.0)
    assert quick_start.seconds.value > FAST.seconds.value
    assert "quick start" in names(shortlist([FAST, CHEAP, quick_start], early_epochs=5))
    assert "quick start" not in names(shortlist([FAST, CHEAP, quick_start]))


def test_machines_are_compared_at_their_own_batch_size() -> None:
    other = on("worse", start=300, per_epoch=40, usd_per_hour=5.0, batch_size=128)
    assert names(shortlist([FAST, CHEAP, other])) == {"fast", "cheap", "worse"}


def test_the_list_is_limited() -> None:
    many = [on(f"m{i}", start=0, per_epoch=10 + i, usd_per_hour=10.0 / (10 + i) ** 2) for i in range(60)]
    assert len(shortlist(many)) == SHORTLIST

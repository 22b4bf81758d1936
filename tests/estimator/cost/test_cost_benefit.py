import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.cost.cost_benefit import StableRun, cost_benefit
from trainfare.model.interval import Interval


def run(machine: str, seconds: float, usd_per_hour: float, batch_size: int = 64) -> StableRun:
    return StableRun(
        machine=machine,
        batch_size=batch_size,
        iterations=60_000,
        seconds=Interval.exactly(seconds),
        usd_per_hour=usd_per_hour,
    )


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0.1, 50), st.floats(0.1, 50))
def test_machine_pays_off_if_its_speed_up_exceeds_the_ratio_of_prices(
    base: float, here: float, base_price: float, price: float
) -> None:
    _, found = cost_benefit([run("base", base, base_price), run("other", here, price)], baseline="base")
    if abs(found.speedup.value / (price / base_price) - 1) > 1e-9:
        assert found.pays == (found.speedup.value > price / base_price)


def test_baseline_has_the_same_time_and_cost_as_itself() -> None:
    (found,) = cost_benefit([run("base", 3600, 0.9)], baseline="base")
    assert (found.speedup.value, found.cost_ratio, found.usd.value) == (1, 1, 0.9)


def test_batch_size_that_the_baseline_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="base was not run at batch size 128"):
        cost_benefit([run("base", 1, 1), run("other", 1, 1, batch_size=128)], baseline="base")

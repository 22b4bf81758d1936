"""Malta's choices from Malta's times (dissertation of 2021, paper of 2019).

What the page calls the fastest, the cheapest and the best cost-benefit is what the recommender takes. For a weighted
goal the page has no number: it is an intention of section 5.6.
"""

import pytest

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.papers.malta.cost_benefit import runs
from trainfare.papers.malta.epochs import run_seconds
from trainfare.papers.malta.page import BATCH_SIZES, MACHINES, table, usd_per_hour
from trainfare.papers.malta.simulations import BLOCKS, COLUMNS, TableBlock
from trainfare.recommender.choose import best_per_machine, in_order
from trainfare.recommender.pareto import front, knee

CHEAPEST, FASTEST = Goal(kind="cheapest"), Goal(kind="fastest")
HALVES = Goal(kind="weighted", weight_time=0.5)
SEISMIC, CIFAR = "malta-4.1", "malta-4.2"


def run(machine: str, seconds: float, batch_size: int = 256, price: float | None = None) -> Estimate:
    price = usd_per_hour()[machine] if price is None else price
    offer = make_offer(vm_type=make_vm_type(name=machine), usd_per_hour=price)
    return make_estimate(
        candidate=make_candidate(offer=offer, batch_size=batch_size),
        seconds=Interval.exactly(seconds),
        usd=Interval.exactly(price * seconds / 3600),
        basis="measured",
    )


def measured(page: str, sizes: tuple[int, ...] = BATCH_SIZES) -> list[Estimate]:
    return [run(machine, run_seconds(page, machine, size).value, size) for machine in MACHINES for size in sizes]


def best(estimates: list[Estimate], goal: Goal) -> tuple[str, int | None]:
    found = in_order(estimates, goal)[0].candidate
    return found.offer.vm_type.name, found.batch_size


@pytest.mark.parametrize("page", [SEISMIC, CIFAR])
@pytest.mark.parametrize("size", BATCH_SIZES)
def test_at_every_batch_size_the_choice_has_the_best_printed_number(page: str, size: int) -> None:
    """The largest printed speed-up, and the smallest printed cost (several are equal to the cent)."""
    every = measured(page, (size,))
    fastest, _ = best(every, FASTEST)
    speedups = {machine: table(page).number(f"{machine}, {size}", "speed-up").value for machine in MACHINES}
    assert speedups[fastest] == max(speedups.values())
    cheapest, _ = best(every, CHEAPEST)
    costs = {machine: table(page).number(f"{machine}, {size}", "cost ($)").value for machine in MACHINES}
    assert costs[cheapest] == min(costs.values())


def test_the_fastest_of_seismic_is_p3_8xlarge_with_1024_images() -> None:
    """Section 4.2: the highest speed-up, 3.8."""
    assert best(measured(SEISMIC), FASTEST) == ("p3.8xlarge", 1024)


def test_the_fastest_of_cifar_is_p3_8xlarge() -> None:
    """Section 4.2: the best performance among all."""
    assert best(measured(CIFAR), FASTEST)[0] == "p3.8xlarge"


def test_the_machine_with_the_lowest_price_is_not_the_cheapest_for_cifar() -> None:
    """Chapter 4, finding 1: "the cheapest instance does not always provide the lowest cost"."""
    assert best(measured(CIFAR), CHEAPEST)[0] == "p3.2xlarge"
    assert min(usd_per_hour(), key=lambda machine: usd_per_hour()[machine]) == "p2.xlarge"


@pytest.mark.parametrize("page", [SEISMIC, CIFAR])
def test_the_best_cost_benefit_is_p3_2xlarge(page: str) -> None:
    """Sections 4.2 and 4.5: "small runtime with one of the lowest costs among all"."""
    assert best(measured(page), HALVES)[0] == "p3.2xlarge"


def test_the_best_cost_benefit_is_the_same_at_every_batch_size() -> None:
    for page in (SEISMIC, CIFAR):
        for size in BATCH_SIZES:
            assert best(measured(page, (size,)), HALVES)[0] == "p3.2xlarge", (page, size)


def test_more_gpus_are_not_on_the_front_of_seismic() -> None:
    """Finding 2: p2.8xlarge, p2.16xlarge and p3.16xlarge are slower and more expensive than p3.2xlarge."""
    names = [e.candidate.offer.vm_type.name for e in front(measured(SEISMIC))]
    assert names == ["p3.8xlarge", "p3.2xlarge", "p2.xlarge"]
    bend = knee(front(measured(SEISMIC)))
    assert bend is not None
    assert bend.candidate.offer.vm_type.name == "p3.2xlarge"


def simulate_seconds(block: TableBlock, column: str) -> list[Estimate]:
    return [run(machine, block.time(machine, column).value, block.batch_size) for machine in MACHINES]


ROUNDED = 1.01
"""Times are printed to the hundredth: what they make of the cost may be off by as much."""


@pytest.mark.parametrize("column", [*COLUMNS, "real"])
@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.time_table} {b.time_prefix}{b.batch_size}")
def test_every_simulation_chooses_the_machine_of_its_column(block: TableBlock, column: str) -> None:
    """The machine whose relative time, and the one whose relative cost, is printed as 1.00."""
    every = simulate_seconds(block, column)
    fastest, _ = best(every, FASTEST)
    assert block.time(fastest, column).value == 1
    cheapest, _ = best(every, CHEAPEST)
    assert table(block.cost_table).number(block.cost_prefix + cheapest, column).value <= ROUNDED


def named(time_table: str, prefix: str = "") -> TableBlock:
    return next(b for b in BLOCKS if b.time_table == time_table and b.time_prefix.startswith(prefix))


def test_p3_2xlarge_is_the_fastest_for_seismic_by_every_simulation() -> None:
    """Section 5.4, table 5.7."""
    for column in (*COLUMNS, "real"):
        assert best(simulate_seconds(named("malta-5.7"), column), FASTEST)[0] == "p3.2xlarge"


def test_ten_epochs_find_the_cheapest_for_mnist_and_twenty_do_not() -> None:
    """Section 5.4, table 5.11: p3.2xlarge "is, in fact, 1.32 times more expensive than the p2.xlarge"."""
    block = named("malta-5.10", "with ")
    cheapest = {column: best(simulate_seconds(block, column), CHEAPEST)[0] for column in (*COLUMNS, "real")}
    assert (cheapest["10 epochs"], cheapest["20 epochs"], cheapest["real"]) == ("p2.xlarge", "p3.2xlarge", "p2.xlarge")


def test_only_25_epochs_find_the_fastest_for_mnist_with_2048_images() -> None:
    """Section 5.4, tables 5.12 and 5.13: the columns are of 10, 20 and 25 epochs; the cheapest all of them find."""
    block = named("malta-5.12", "with ")
    fastest = [best(simulate_seconds(block, column), FASTEST)[0] for column in (*COLUMNS, "real")]
    assert fastest == ["p3.2xlarge", "p3.2xlarge", "p3.8xlarge", "p3.8xlarge"]
    assert {best(simulate_seconds(block, column), CHEAPEST)[0] for column in (*COLUMNS, "real")} == {"p3.2xlarge"}


def test_p3_2xlarge_is_always_faster_and_three_times_of_four_cheaper() -> None:
    """Paper of 2019, table 2."""
    cheaper = 0
    for size in (64, 128, 256, 512):
        every = [
            run(each.run.machine, each.run.seconds.value, size, each.run.usd_per_hour)
            for each in runs()
            if each.run.batch_size == size
        ]
        assert best(every, FASTEST)[0] == "p3.2xlarge"
        cheaper += best(every, CHEAPEST)[0] == "p3.2xlarge"
    assert cheaper == 3


def test_every_machine_once_at_its_best_batch_size() -> None:
    """Chapter 4: the method answers which machine and which batch size."""
    listed = best_per_machine(in_order(measured(SEISMIC), CHEAPEST))
    assert [(e.candidate.offer.vm_type.name, e.candidate.batch_size) for e in listed[:3]] == [
        ("p2.xlarge", 512),
        ("p3.2xlarge", 1024),
        ("p3.8xlarge", 1024),
    ]

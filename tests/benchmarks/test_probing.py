"""The comparison of policies, on made-up machines."""

import math

import numpy as np
import pytest

from benchmarks.probing import policies
from benchmarks.probing.__main__ import POLICIES, run_policies, summary
from benchmarks.probing.cherrypick import next_machine
from benchmarks.probing.problem import EPOCHS, Machine, Problem
from trainfare.catalog.gpu_facts import load_gpus

GPUS = load_gpus()


def make_problem(seconds: tuple[float, ...] = (4.0, 2.0, 1.0), usd_per_hour_of_time: float = 0.0) -> Problem:
    named = ("K80", "T4", "V100")
    machines = tuple(
        Machine(name=name, gpu=GPUS[name], usd_per_hour=price)
        for name, price in zip(named, (0.9, 0.526, 3.06), strict=True)
    )
    truth = np.array(seconds)
    return Problem(
        setting="made up",
        name="a program",
        machines=machines,
        seconds=truth,
        usd_per_hour_of_time=usd_per_hour_of_time,
        predict_from=lambda _: (truth, np.full(3, 0.1)),
    )


def quiet() -> np.random.Generator:
    return np.random.default_rng(1)


def test_a_job_of_ten_dollars_costs_ten_dollars_on_the_cheapest_machine() -> None:
    job = make_problem().sized(10.0, start=0.0)
    assert job.oracle == pytest.approx(10.0)
    assert job.cost.argmin() == 1


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("value_of_time", [0.0, 20.0])
def test_no_policy_pays_less_than_the_oracle(name: str, value_of_time: float) -> None:
    for usd in (0.5, 20.0, 500.0):
        job = make_problem(usd_per_hour_of_time=value_of_time).sized(usd)
        result = POLICIES[name](job, quiet())
        assert result.total_cost >= job.oracle * (1 - 1e-9)
        assert result.total_cost >= job.cost[result.trained_on] * (1 - 1e-9)


def test_a_few_iterations_everywhere_cost_a_boot_and_a_probe_of_each() -> None:
    job = make_problem().sized(100.0, start=90.0)
    result = policies.everywhere(job, quiet())
    assert result.probe_cost == pytest.approx((0.9 + 0.526 + 3.06) / 3600 * 120)
    assert (result.trained_on, result.probes) == (1, 3)


def test_two_epochs_everywhere_cost_a_tenth_of_every_training() -> None:
    job = make_problem().sized(100.0, start=0.0)
    result = policies.two_epochs(job, quiet())
    assert result.probe_cost == pytest.approx(2 / EPOCHS * float(job.cost.sum()))


def test_our_policy_is_within_one_percent_of_the_oracle_if_its_model_is_right() -> None:
    job = make_problem().sized(100.0)
    result = policies.ours_with_profile(job, quiet())
    assert result.trained_on == 1
    assert result.total_cost / job.oracle < 1.01


def test_leaving_a_machine_costs_the_work_done_there() -> None:
    """By its data sheet the K80 is the best here, but it is three times slower than that."""
    problem = make_problem((12.0, 2.0, 1.0))
    job = problem.sized(100.0)
    result = policies.ours_by_facts(job, quiet())
    assert result.trained_on == 1
    assert job.oracle < result.total_cost < 1.05 * job.oracle


def test_cherrypick_measures_at_least_six_and_spreads_the_first() -> None:
    features = np.array([[float(i)] for i in range(10)])
    known: list[int] = []
    costs: list[float] = []
    while (index := next_machine(features, known, costs, quiet())) is not None:
        known.append(index)
        costs.append(math.exp(abs(index - 4) / 3))
    assert 6 <= len(known) <= 10
    assert abs(known[1] - known[0]) >= 4
    assert 4 in known


def test_the_table_has_a_row_for_every_policy() -> None:
    table = summary(run_policies([make_problem()], (0.5, 200.0), 90.0))
    assert [row["policy"] for row in table] == list(POLICIES)
    assert all(row["total"] >= row["regret"] - 1e-6 for row in table)

"""The lower bound: no policy costs less, and it is close where the optimum is known."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.scheduler.makers import AZURE, K80, make_job, random_instance
from tests.scheduler.published import NAMES, NODES, published, published_costs
from trainfare.model.queue import Delays, Instance, Job, NodeType, Slot, single_node_slots
from trainfare.scheduler.bounds import lower_bound as bound_module
from trainfare.scheduler.bounds.fleet_prices import dual_value
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.bounds.priced_job import priced_job
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies.registry import POLICIES, load_policy
from trainfare.scheduler.simulation.generate import QueueSetting, generate
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import slot_table

SEEDS = st.integers(0, 2**32 - 1)
NC6 = K80[:1]


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The bound holds for any prices: few rounds suffice in tests that do not need a close bound."""
    if "near" not in request.node.name:
        monkeypatch.setattr(bound_module, "HALVINGS", 0)
        monkeypatch.setattr(bound_module, "ROUNDS", 16)


def instance_of(*jobs: Job, types: tuple[NodeType, ...] = K80, gangs: tuple[Slot, ...] = ()) -> Instance:
    return Instance(types=types, slots=single_node_slots(types) + gangs, jobs=jobs)


def cost(instance: Instance, name: str, nodes: int, delays: Delays | None = None) -> float:
    schedule = simulate(instance, load_policy(name), name=name, nodes=nodes, delays=delays or Delays())
    return evaluate(schedule).total_usd


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, load=st.sampled_from([0.3, 2.0, 10.0]))
def test_no_policy_costs_less_than_the_bound(name: str, seed: int, load: float) -> None:
    instance = random_instance(seed, jobs=4, types=AZURE, load=load)
    assert lower_bound(instance, 2).usd <= cost(instance, name, 2)


@pytest.mark.parametrize("name", ["fifo", "greedy", "trainfare"])
@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, max_nodes=st.integers(1, 2), load=st.sampled_from([0.3, 3.0]))
def test_bound_holds_where_the_cheapest_type_is_limited(name: str, seed: int, max_nodes: int, load: float) -> None:
    cheap = replace(K80[1], name="own", usd_per_hour=0.1, max_nodes=max_nodes)
    instance = random_instance(seed, jobs=4, types=(*K80, cheap), load=load)
    assert lower_bound(instance, 3).usd <= cost(instance, name, 3)


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS)
def test_bound_holds_with_delays_and_wrong_predictions(seed: int) -> None:
    instance = random_instance(seed, jobs=4, load=3.0)
    wrong = np.exp(np.random.default_rng(seed).normal(0, 0.4, 4))
    true = tuple(tuple(np.array(job.seconds) * factor) for job, factor in zip(instance.jobs, wrong, strict=True))
    instance = replace(instance, true_seconds=true)
    delays = Delays(boot_seconds=120, checkpoint_seconds=30, restart_seconds=60)
    assert lower_bound(instance, 2).usd <= cost(instance, "greedy", 2, delays)
    assert lower_bound(instance, 2).usd <= cost(instance, "greedy", 2)


@settings(max_examples=4, deadline=None)
@given(seed=SEEDS, name=st.sampled_from(["fifo", "greedy", "trainfare"]))
def test_bound_holds_with_spot_gangs_and_quotas(seed: int, name: str) -> None:
    setting = QueueSetting(
        nodes=3, jobs=5, load=2.0, users=2, quota_gpus=6, gang_nodes=(2,), spot_discount=0.6, log_error=0.2
    )
    instance = generate(setting, seed)
    delays = Delays(boot_seconds=60, restart_seconds=60, checkpoint_every_seconds=600)
    assert lower_bound(instance, 3).usd <= cost(instance, name, 3, delays)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_bound_holds_for_any_prices(seed: int) -> None:
    """Prices and intervals are arbitrary: the bound must hold for any of them."""
    rng = np.random.default_rng(seed)
    instance = random_instance(seed, jobs=4, load=5.0)
    table = slot_table(instance.fleet(1))
    edges = np.concatenate([[0.0], np.sort(rng.uniform(0, 40_000, 6))])
    jobs = [
        priced_job(
            seconds=np.array(job.seconds),
            share=table.share,
            uses=table.fraction[None, :],
            submitted=job.submitted_seconds,
            deadline=job.deadline_seconds,
            late_usd_per_second=job.late_usd_per_second,
            edges=edges,
        )
        for job in instance.jobs
    ]
    prices = rng.exponential(float(rng.choice([1e-4, 1e-3, 1e-2])), (1, 6))
    assert dual_value(jobs, np.diff(edges)[None, :], prices) <= cost(instance, "greedy", 1)


def alone_usd(job: Job, instance: Instance) -> float:
    """The cost of the cheapest mixture of slots of one job: a linear programme with its lateness as one more column."""
    share = slot_table(instance.fleet(1)).share
    seconds = np.array(job.seconds)
    solved = linprog(
        np.append(share, job.late_usd_per_second),
        A_eq=[np.append(1 / seconds, 0.0)],
        b_eq=[1.0],
        A_ub=[np.append(np.ones(len(seconds)), -1.0)],
        b_ub=[job.deadline_seconds - job.submitted_seconds],
    )
    return float(solved.fun)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, slack=st.floats(0.3, 4))
def test_bound_of_one_job_is_its_cheapest_mixture(seed: int, slack: float) -> None:
    instance = random_instance(seed, jobs=1, types=AZURE)
    job = instance.jobs[0]
    job = replace(job, deadline_seconds=job.submitted_seconds + slack * job.shortest_seconds)
    instance = replace(instance, jobs=(job,))
    assert lower_bound(instance, 1).alone_usd == pytest.approx(alone_usd(job, instance), rel=1e-6)


def one_gpu_queue(seed: int, jobs: int) -> tuple[Job, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        make_job(
            f"j{number}",
            types=NC6,
            hours=float(rng.uniform(0.5, 3)),
            deadline_seconds=float(rng.uniform(1800, 20_000)),
            late_usd_per_second=float(rng.uniform(0.003, 0.015)),
        )
        for number in range(jobs)
    )


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS)
def test_bound_on_one_gpu_is_not_above_the_best_order(seed: int) -> None:
    """All jobs are submitted at once on a machine with one GPU: the optimum is one of few orders."""
    jobs = one_gpu_queue(seed, 4)
    best = min(_sequential_usd(order) for order in permutations(jobs))
    assert lower_bound(instance_of(*jobs, types=NC6), 1).usd <= best


def test_bound_on_one_gpu_is_near_the_best_order() -> None:
    parts = []
    for seed in range(3):
        jobs = one_gpu_queue(seed, 6)
        best = min(_sequential_usd(order) for order in permutations(jobs))
        parts.append(lower_bound(instance_of(*jobs, types=NC6), 1).usd / best)
    assert np.mean(parts) > 0.93


def _sequential_usd(order: tuple[Job, ...]) -> float:
    now = usd = 0.0
    for job in order:
        now += job.seconds[0]
        usd += NC6[0].usd_per_second * job.seconds[0]
        usd += job.late_usd_per_second * max(0.0, now - job.deadline_seconds)
    return usd


def test_only_the_fluid_bound_counts_overload() -> None:
    jobs = [make_job(f"j{n}", hours=2, deadline_seconds=4000) for n in range(12)]
    found = lower_bound(instance_of(*jobs), 1)
    assert found.usd == found.fluid_usd > 2 * found.alone_usd


def test_job_submitted_after_its_deadline_pays_from_its_deadline_on() -> None:
    job = make_job(types=NC6, hours=1, submitted_seconds=5000, deadline_seconds=1000, late_usd_per_second=0.01)
    rent, late = 0.56, 0.01 * (5000 + 3600 - 1000)
    assert lower_bound(instance_of(job, types=NC6), 1).usd == pytest.approx(rent + late, rel=1e-6)


@pytest.mark.parametrize(
    "job",
    [make_job(types=NC6, deadline_seconds=math.inf), make_job(types=NC6, deadline_seconds=0, late_usd_per_second=0)],
    ids=["no deadline", "lateness is free"],
)
def test_job_that_is_never_late_pays_only_rent(job: Job) -> None:
    assert lower_bound(instance_of(job, types=NC6), 1).usd == pytest.approx(0.56, rel=1e-6)


def test_an_empty_queue_costs_nothing() -> None:
    assert lower_bound(instance_of(), 3).usd == 0


def test_bound_uses_true_times_not_predictions() -> None:
    instance = instance_of(make_job(types=NC6), types=NC6)
    twice = replace(instance, true_seconds=((7200.0,),))
    assert lower_bound(twice, 1).usd == pytest.approx(2 * lower_bound(instance, 1).usd)


def test_gang_larger_than_the_fleet_is_not_used() -> None:
    job = make_job(types=NC6, hours=1, deadline_seconds=1000, late_usd_per_second=1.0)
    job = replace(job, seconds=(3600.0, 900.0))
    instance = instance_of(job, types=NC6, gangs=(Slot("NC6", 1, nodes=4),))
    assert lower_bound(instance, 4).usd == pytest.approx(0.56, rel=1e-6)
    assert lower_bound(instance, 3).usd == pytest.approx(0.56 + 2600, rel=1e-6)


def test_limit_of_a_type_raises_the_bound() -> None:
    """Twelve jobs prefer the fast GPU; with one node of it the others are late or cost more."""
    slow, fast = K80[0], NodeType(name="V100", gpu="V100", gpus=1, usd_per_hour=0.6)
    jobs = [
        make_job(f"j{n}", types=(slow, fast), hours=1, speed={"V100": 4.0}, deadline_seconds=3600) for n in range(12)
    ]
    free = instance_of(*jobs, types=(slow, fast))
    tight = replace(free, types=(slow, replace(fast, max_nodes=1)))
    assert lower_bound(tight, 12).usd > 1.5 * lower_bound(free, 12).usd
    assert lower_bound(tight, 12).usd <= cost(tight, "greedy", 12)


def test_quota_affects_only_its_user() -> None:
    jobs = [make_job(f"j{n}", types=NC6, hours=1, deadline_seconds=4000, user="ada") for n in range(4)]
    free = instance_of(*jobs, types=NC6)
    assert lower_bound(replace(free, quotas=(("ada", 1),)), 4).usd > 5 * lower_bound(free, 4).usd
    assert lower_bound(replace(free, quotas=(("bob", 1),)), 4).usd == pytest.approx(lower_bound(free, 4).usd)


@pytest.mark.parametrize("limit", ["type", "quota"])
def test_bound_is_infinite_if_a_job_can_never_run(limit: str) -> None:
    instance = instance_of(make_job(types=NC6, user="ada"), types=NC6)
    none = replace(NC6[0], max_nodes=0)
    barred = replace(instance, types=(none,)) if limit == "type" else replace(instance, quotas=(("ada", 0),))
    assert lower_bound(barred, 2).usd == math.inf


def test_prices_of_a_sample_give_almost_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_instance(3, jobs=30, load=8.0)
    complete = lower_bound(instance, 3).usd
    monkeypatch.setattr(bound_module, "SAMPLE", 15)
    sampled = lower_bound(instance, 3)
    assert sampled.alone_usd < sampled.usd
    assert 0.85 * complete < sampled.usd < complete * (1 + 1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_greedy_is_two_to_seven_percent_above_the_bound_on_published_instances(name: str) -> None:
    greedy = float(published_costs()[name, "Greedy"][-1])
    assert 1.02 < greedy / lower_bound(published(name), NODES).usd < 1.07


def test_reported_cost_of_local_search_under_load_is_below_the_bound() -> None:
    reported = float(published_costs()["10-100-1-high", "LocalSearch"][-1])
    assert reported < lower_bound(published("10-100-1-high"), NODES).alone_usd

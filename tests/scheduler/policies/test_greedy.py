"""Greedy: rule by rule, against a plain implementation of the rules, and its separate steps."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state, random_instance
from tests.scheduler.published import published
from tests.scheduler.small_states import gang_state, quota_state, random_jobs, random_state
from trainfare.model.queue import (
    Decision,
    Fleet,
    Job,
    NodePlan,
    NodeType,
    QueuedJob,
    RentedNode,
    Slot,
    State,
    single_node_slots,
)
from trainfare.scheduler.legal import decision_violations, schedule_violations
from trainfare.scheduler.packing.preferences import rows_by_pressure, slot_preferences
from trainfare.scheduler.policies.greedy import (
    complete_plans,
    fill_free_gpus,
    give_idle_gpus,
    greedy,
    greedy_plans,
    shrink_nodes,
)
from trainfare.scheduler.simulation.simulate import simulate
from trainfare.scheduler.tables import remaining_seconds

HOUR = 3600.0
DAY = 24 * HOUR


def _nodes(state: State, *, max_recipients: int | None = 0) -> list[tuple[str, dict[str, int]]]:
    """The nodes that Greedy plans, by default without giving idle GPUs away."""
    return [
        (plan.type, dict(plan.jobs))
        for plan in greedy_plans(state, remaining_seconds(state), max_recipients=max_recipients)
    ]


_Nodes = list[tuple[str, dict[str, int]]]


class _PlainGreedy:
    """The rules implemented as simply as possible, for fleets without limits, gangs and quotas."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.types = {each.name: each for each in state.fleet.types}
        self.slots = {(slot.type, slot.gpus): index for index, slot in enumerate(state.fleet.slots)}
        self.remaining = {each.job.id: [t * (1 - each.done) for t in each.job.seconds] for each in state.jobs}
        self.deadlines = {each.job.id: each.job.deadline_seconds for each in state.jobs}

    def nodes(self) -> _Nodes:
        nodes: _Nodes = []
        for job in sorted(self.remaining, key=lambda job: self.deadlines[job] - min(self.remaining[job])):
            self.place(job, nodes)
        nodes = [self.shrink(*node) for node in nodes]
        self.give(nodes)
        return nodes

    def free(self, node: tuple[str, dict[str, int]]) -> int:
        return self.types[node[0]].gpus - sum(node[1].values())

    def key(self, job: str, slot: tuple[str, int]) -> tuple[int, float]:
        seconds = self.remaining[job][self.slots[slot]]
        if self.state.now_seconds + seconds <= self.deadlines[job]:
            return 0, self.types[slot[0]].usd_per_second * seconds
        return 1, seconds

    def place(self, job: str, nodes: _Nodes) -> None:
        for kind, gpus in sorted(self.slots, key=lambda slot: self.key(job, slot)):
            family = [each for each in self.types.values() if each.gpu == self.types[kind].gpu]
            fits = [node for node in nodes if self.types[node[0]] in family and self.free(node) >= gpus]
            if fits:
                min(fits, key=self.free)[1][job] = gpus
                return
            if len(nodes) < self.state.fleet.nodes:
                nodes.append((max(family, key=lambda each: each.gpus).name, {job: gpus}))
                return

    def shrink(self, kind: str, held: dict[str, int]) -> tuple[str, dict[str, int]]:
        used = sum(held.values())
        family = [each for each in self.types.values() if each.gpu == self.types[kind].gpu]
        small = [each for each in family if each.gpus in (used, used + 1)]
        return (min(small, key=lambda each: each.usd_per_hour).name if small else kind), held

    def give(self, nodes: _Nodes) -> None:
        gains = [
            (times[self.slots[node[0], gpus]] - times[self.slots[node[0], gpus + self.free(node)]], node, job)
            for node in nodes
            if self.free(node)
            for job, gpus in node[1].items()
            for times in [self.remaining[job]]
        ]
        if gains:
            _, node, job = max(gains, key=lambda gain: gain[0])
            node[1][job] += self.free(node)


@pytest.mark.parametrize("seed", range(40))
def test_greedy_agrees_with_a_plain_implementation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        QueuedJob(job=job, done=float(rng.uniform(0, 0.9)))
        for job in random_instance(seed, jobs=int(rng.integers(1, 40)), types=AZURE, load=8).jobs
    ]
    state = make_state(jobs, make_fleet(int(rng.integers(1, 12)), AZURE), now_seconds=float(rng.uniform(0, 2 * HOUR)))
    assert _nodes(state, max_recipients=1) == _PlainGreedy(state).nodes()


class TestRules:
    def test_most_pressing_job_gets_the_only_slot(self) -> None:
        types = K80[:1]
        jobs = [make_job("calm", types=types), make_job("tight", types=types, deadline_seconds=2 * HOUR)]
        assert _nodes(make_state(jobs, make_fleet(1, types))) == [("NC6", {"tight": 1})]

    def test_jobs_share_a_node_before_another_is_opened(self) -> None:
        state = make_state([make_job("a"), make_job("b")], make_fleet(2))
        assert _nodes(state) == [("NC12", {"a": 1, "b": 1})]

    def test_job_goes_to_the_tightest_fit(self) -> None:
        """After jobs with three and two GPUs, a job with one GPU fills the node with three."""
        types = (K80[2],)
        fleet = Fleet(nodes=3, types=types, slots=single_node_slots(types))

        def only(name: str, gpus: int, deadline: float) -> Job:
            seconds = tuple(HOUR if g == gpus else math.inf for g in (1, 2, 3, 4))
            return Job(
                id=name, submitted_seconds=0, deadline_seconds=deadline, late_usd_per_second=0.1, seconds=seconds
            )

        state = make_state([only("two", 2, HOUR), only("three", 3, 2 * HOUR), only("one", 1, 3 * HOUR)], fleet)
        assert _nodes(state) == [("NC24", {"two": 2}), ("NC24", {"three": 3, "one": 1})]

    def test_job_takes_its_next_slot_if_the_preferred_one_does_not_fit(self) -> None:
        """The second job prefers 2 GPUs; one is left."""
        jobs = [
            make_job("a", hours=3, deadline_seconds=2 * HOUR, power=0.9),
            make_job("b", hours=3, deadline_seconds=2.9 * HOUR, power=0.9),
        ]
        fleet = Fleet(nodes=1, types=(K80[2],), slots=(Slot("NC24", 1), Slot("NC24", 2), Slot("NC24", 3)))
        cut = [replace(job, seconds=(job.seconds[3], job.seconds[4], job.seconds[5])) for job in jobs]
        cut[0] = replace(cut[0], seconds=(math.inf, math.inf, cut[0].seconds[2]))
        assert _nodes(make_state(cut, fleet)) == [("NC24", {"a": 3, "b": 1})]

    def test_least_pressing_jobs_wait_if_slots_are_short(self) -> None:
        jobs = [make_job(f"j{number}", hours=5, deadline_seconds=(9 - number) * HOUR) for number in range(8)]
        ((kind, held),) = _nodes(make_state(jobs, make_fleet(1)))
        assert kind == "NC24"
        assert "j7" in held
        assert "j0" not in held


class TestEdges:
    def test_empty_queue_rents_nothing(self) -> None:
        assert greedy(make_state([])) == Decision(nodes=())
        assert greedy_plans(make_state([]), remaining_seconds(make_state([]))) == []

    def test_single_job_gets_its_cheapest_machine(self) -> None:
        assert _nodes(make_state([make_job()])) == [("NC6", {"j1": 1})]

    def test_job_that_is_late_everywhere_gets_the_fastest_slot(self) -> None:
        assert _nodes(make_state([make_job(deadline_seconds=1.0)])) == [("NC24", {"j1": 4})]

    def test_jobs_without_deadlines_run_on_the_cheapest_slots(self) -> None:
        state = make_state([make_job(name, deadline_seconds=math.inf) for name in "ab"])
        assert _nodes(state) == [("NC12", {"a": 1, "b": 1})]

    def test_running_jobs_stay_on_their_nodes(self) -> None:
        node = RentedNode(id=3, type="NC6", rented_seconds=0, ready_seconds=0)
        running = QueuedJob(job=make_job(), done=0.1, expected_done=0.1, nodes=(3,), gpus=1)
        assert [plan.node for plan in greedy(make_state([running], nodes=(node,))).nodes] == [3]


class TestLimits:
    def test_limited_type_is_never_exceeded_and_the_next_is_used(self) -> None:
        types = (K80[0], K80[1], replace(K80[2], max_nodes=1))
        jobs = [make_job(f"j{number}", deadline_seconds=1.0) for number in range(3)]
        assert sorted(kind for kind, _ in _nodes(make_state(jobs, make_fleet(3, types)))) == ["NC12", "NC12", "NC24"]

    def test_node_is_not_shrunk_to_a_type_beyond_its_limit(self) -> None:
        types = (replace(K80[0], max_nodes=0), *K80[1:])
        assert _nodes(make_state([make_job()], make_fleet(1, types))) == [("NC12", {"j1": 1})]

    def test_idle_gpus_do_not_exceed_the_quota_of_a_user(self) -> None:
        fleet = make_fleet(2, (K80[2],), quotas=(("ann", 1),))
        jobs = [make_job("a", types=(K80[2],), user="ann"), make_job("b", types=(K80[2],), user="ann")]
        assert _nodes(make_state(jobs, fleet), max_recipients=None) == [("NC24", {"a": 1})]

    def test_gang_needs_complete_new_nodes(self) -> None:
        types = (NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.5),)
        fleet = make_fleet(2, types, gangs=(Slot("NC6", 1, 2),))
        gang = Job(
            id="g", submitted_seconds=0, deadline_seconds=HOUR, late_usd_per_second=0.1, seconds=(math.inf, HOUR)
        )
        calm = Job(id="c", submitted_seconds=0, deadline_seconds=DAY, late_usd_per_second=0.1, seconds=(HOUR, math.inf))
        assert _nodes(make_state([calm, gang], fleet)) == [("NC6", {"g": 1}), ("NC6", {"g": 1})]
        tight = replace(calm, deadline_seconds=0.0)
        assert _nodes(make_state([tight, gang], fleet)) == [("NC6", {"c": 1})]

    def test_gang_that_lacks_a_node_takes_a_smaller_slot(self) -> None:
        types = (NodeType(name="NC6", gpu="K80", gpus=1, usd_per_hour=0.5),)
        fleet = make_fleet(1, types, gangs=(Slot("NC6", 1, 2),))
        job = Job(id="g", submitted_seconds=0, deadline_seconds=HOUR, late_usd_per_second=1.0, seconds=(2 * HOUR, HOUR))
        assert _nodes(make_state([job], fleet)) == [("NC6", {"g": 1})]

    def test_on_demand_machines_are_used_when_spot_is_exhausted(self) -> None:
        spot = NodeType(name="spot", gpu="K80", gpus=1, usd_per_hour=0.2, reclaims_per_hour=0.05, max_nodes=1)
        types = (spot, K80[0])
        jobs = [make_job(name, types=types) for name in "ab"]
        assert [kind for kind, _ in _nodes(make_state(jobs, make_fleet(2, types)))] == ["spot", "NC6"]

    def test_on_demand_machine_is_not_shrunk_to_spot(self) -> None:
        spot = NodeType(name="spot", gpu="K80", gpus=1, usd_per_hour=0.2, reclaims_per_hour=0.05)
        state = make_state([make_job(types=(spot, *K80))], make_fleet(2, (spot, *K80)))
        plans = shrink_nodes(state, [NodePlan(type="NC24", jobs=(("j1", 1),))], remaining_seconds(state))
        assert [plan.type for plan in plans] == ["NC6"]

    @pytest.mark.parametrize("maker", [random_state, gang_state, quota_state], ids=["plain", "gangs", "quotas"])
    def test_decisions_can_be_carried_out(self, maker: Callable[[int], State]) -> None:
        for seed in range(60):
            state = maker(seed)
            left = remaining_seconds(state)
            for nodes in (
                greedy(state).nodes,
                greedy_plans(state, left, max_recipients=None),
                complete_plans(state, [], left),
            ):
                assert decision_violations(state, Decision(nodes=tuple(nodes))) == ()

    def test_complete_queue_has_a_legal_schedule(self) -> None:
        schedule = simulate(random_instance(1, jobs=15, types=AZURE, load=6), greedy, name="greedy", nodes=2)
        assert schedule_violations(schedule) == ()
        assert len(schedule.ended_seconds) == 15


def _renamed(state: State) -> State:
    types = tuple(replace(each, name=f"x-{each.name}", gpu=f"z-{each.gpu}") for each in state.fleet.types)
    slots = tuple(replace(slot, type=f"x-{slot.type}") for slot in state.fleet.slots)
    jobs = tuple(
        replace(each, job=replace(each.job, id=f"{9 - number}-{each.job.id}")) for number, each in enumerate(state.jobs)
    )
    return replace(state, fleet=replace(state.fleet, types=types, slots=slots), jobs=jobs)


def test_names_do_not_matter() -> None:
    for seed in range(20):
        state = random_state(seed)
        new_names = {each.job.id: new.job.id for each, new in zip(state.jobs, _renamed(state).jobs, strict=True)}
        expected = [
            (f"x-{kind}", {new_names[job]: gpus for job, gpus in held.items()})
            for kind, held in _nodes(state, max_recipients=1)
        ]
        assert _nodes(_renamed(state), max_recipients=1) == expected


class TestSteps:
    def test_fill_keeps_planned_jobs_and_adds_the_most_pressing(self) -> None:
        types = K80[:1]
        deadlines = {"planned": 9.0, "calm": 8.0, "tight": 2.0}
        jobs = [make_job(name, types=types, deadline_seconds=hours * HOUR) for name, hours in deadlines.items()]
        state = make_state(jobs, make_fleet(2, types))
        planned = NodePlan(type="NC6", jobs=(("planned", 1),))
        assert fill_free_gpus(state, [planned], remaining_seconds(state)) == [
            planned,
            NodePlan(type="NC6", jobs=(("tight", 1),)),
        ]

    def test_fill_uses_idle_gpus_of_planned_nodes(self) -> None:
        state = make_state([make_job("a"), make_job("b")], make_fleet(1))
        plans = fill_free_gpus(state, [NodePlan(type="NC24", jobs=(("a", 2),))], remaining_seconds(state))
        assert plans == [NodePlan(type="NC24", jobs=(("a", 2), ("b", 1)))]

    def test_fill_without_plans_is_greedy_before_shrinking(self) -> None:
        state = make_state(random_instance(5, jobs=9, types=AZURE, load=9).jobs, make_fleet(3, AZURE))
        left = remaining_seconds(state)
        assert shrink_nodes(state, fill_free_gpus(state, [], left), left) == greedy_plans(state, left, max_recipients=0)

    def test_shrunk_node_holds_the_same_jobs_and_costs_no_more(self) -> None:
        state = make_state([make_job("a"), make_job("b")], make_fleet(1))
        (plan,) = shrink_nodes(state, [NodePlan(type="NC24", jobs=(("a", 1), ("b", 1)))], remaining_seconds(state))
        assert plan == NodePlan(type="NC12", jobs=(("a", 1), ("b", 1)))

    def test_full_node_is_not_shrunk(self) -> None:
        state = make_state([make_job("a")], make_fleet(1))
        planned = [NodePlan(type="NC12", jobs=(("a", 2),))]
        assert shrink_nodes(state, planned, remaining_seconds(state)) == planned

    def test_idle_gpus_go_to_the_job_that_gains_most_on_every_node(self) -> None:
        state = make_state([make_job("short"), make_job("long", hours=8), make_job("other")], make_fleet(2))
        planned = [NodePlan(type="NC24", jobs=(("short", 1), ("long", 1))), NodePlan(type="NC12", jobs=(("other", 1),))]
        left = remaining_seconds(state)
        assert [dict(plan.jobs) for plan in give_idle_gpus(state, planned, left)] == [
            {"short": 1, "long": 3},
            {"other": 2},
        ]
        assert [dict(plan.jobs) for plan in give_idle_gpus(state, planned, left, max_recipients=1)] == [
            {"short": 1, "long": 3},
            {"other": 1},
        ]

    def test_idle_gpus_that_would_slow_a_job_down_stay_idle(self) -> None:
        fleet = Fleet(nodes=1, types=(K80[1],), slots=single_node_slots((K80[1],)))
        job = Job(
            id="a", submitted_seconds=0, deadline_seconds=DAY, late_usd_per_second=0.1, seconds=(HOUR, 1.1 * HOUR)
        )
        state = make_state([job], fleet)
        planned = [NodePlan(type="NC12", jobs=(("a", 1),))]
        assert give_idle_gpus(state, planned, remaining_seconds(state)) == planned

    def test_corrected_times_change_the_decision(self) -> None:
        state = make_state([make_job(hours=4, deadline_seconds=5 * HOUR)])
        assert greedy_plans(state, remaining_seconds(state))[0].type == "NC6"
        assert greedy_plans(state, 2 * remaining_seconds(state))[0].type == "NC12"

    def test_preferences_are_slots_in_time_by_cost_then_late_slots_by_time(self) -> None:
        state = make_state([make_job(hours=4, deadline_seconds=2.5 * HOUR)])
        slots = [state.fleet.slots[index] for index in slot_preferences(state, remaining_seconds(state))[0]]
        assert slots[:4] == [Slot("NC12", 2), Slot("NC24", 4), Slot("NC24", 3), Slot("NC24", 2)]
        assert {slot.gpus for slot in slots[4:]} == {1}

    def test_jobs_of_equal_pressure_stay_in_the_order_of_submission(self) -> None:
        state = make_state([make_job(name) for name in "abc"])
        assert rows_by_pressure(state, remaining_seconds(state)).tolist() == [0, 1, 2]


def test_a_thousand_nodes_and_four_thousand_jobs_are_fast() -> None:
    """It takes 0.01 s of an idle core. The shortest of five counts: other work makes any of them longer."""
    rng = np.random.default_rng(0)
    queue = published("10-100-0-high")
    jobs = random_jobs(rng, queue.fleet(1000), 4000)
    state = make_state(jobs, queue.fleet(1000))
    left = remaining_seconds(state)
    took = []
    for _ in range(5):
        start = time.process_time()
        nodes = greedy_plans(state, left)
        took.append(time.process_time() - start)
        assert len(nodes) == 1000
    assert min(took) < 0.15

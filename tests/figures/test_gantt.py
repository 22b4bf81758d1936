"""Figures of schedules: lanes, bars, late jobs; sums of many nodes; comparisons of policies."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.figures.reading import layers, subtitle, title, views
from tests.scheduler.makers import AZURE, make_fleet, make_job, random_instance
from trainfare.figures import gantt
from trainfare.figures.gantt import gantt_figure
from trainfare.figures.look import ACCENT, Spec
from trainfare.figures.schedule_costs import MAX_RATIO, policies_figure
from trainfare.figures.schedule_lanes import SAME_MOMENT_SECONDS, bars, lanes
from trainfare.figures.schedule_load import INTERVALS, mean_heights
from trainfare.figures.schedule_look import LATE, NOW, PREPARING
from trainfare.model.queue import Delays, Slot
from trainfare.model.schedule import Allocation, NodeRental, Schedule, ScheduleOutcome
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.policies.greedy import greedy
from trainfare.scheduler.simulation.simulate import simulate

HOUR = 3600.0


def rental(node: int, start: float, end: float, kind: str = "NC24", **changes: object) -> NodeRental:
    made = NodeRental(
        node=node, type=kind, start_seconds=HOUR * start, ready_seconds=HOUR * start, end_seconds=HOUR * end
    )
    return replace(made, **changes)  # type: ignore[arg-type] # fields by name, of several types


def allocation(
    job: str, node: int | tuple[int, ...], gpus: int, start: float, end: float, works: float = 0.0
) -> Allocation:
    return Allocation(
        job=job,
        nodes=node if isinstance(node, tuple) else (node,),
        gpus=gpus,
        start_seconds=HOUR * start,
        work_start_seconds=HOUR * max(start, works),
        end_seconds=HOUR * end,
        done_before=0.0,
        done_after=1.0,
    )


def schedule(
    rentals: list[NodeRental], allocations: list[Allocation], *, deadlines: dict[str, float] | None = None
) -> Schedule:
    """A schedule whose jobs all end with their last allocation; deadlines in hours, by default none."""
    due = deadlines or {}
    names = list(dict.fromkeys(each.job for each in allocations))
    jobs = tuple(
        make_job(name, deadline_seconds=HOUR * due.get(name, math.inf), late_usd_per_second=0.001) for name in names
    )
    ends = {each.job: each.end_seconds for each in allocations}
    return Schedule(
        policy="greedy",
        fleet=make_fleet(nodes=10, types=AZURE, gangs=(Slot("NC24", 4, 2),)),
        jobs=jobs,
        true_seconds=tuple(job.seconds for job in jobs),
        delays=Delays(),
        rentals=tuple(rentals),
        allocations=tuple(allocations),
        ended_seconds=tuple(ends.items()),
    )


def figure(made: Schedule, *, bound_usd: float | None = None, width: int = 600) -> Spec:
    return gantt_figure(made, evaluate(made), bound_usd=bound_usd, width=width)


def rows(spec: Spec) -> list[Spec]:
    """The bars of jobs; the first rectangles are the backgrounds."""
    _, drawn = layers(spec, "rect")
    return list(drawn["data"]["values"])


def texts(spec: Spec) -> list[str]:
    return [row["label"] for layer in layers(spec, "text") for row in layer["data"]["values"]]


TWO = schedule(
    [rental(0, 0, 4), rental(1, 0, 2, "NV12")],
    [allocation("j1", 0, 2, 0, 4), allocation("j2", 0, 1, 0, 1), allocation("j3", 1, 2, 0, 2)],
    deadlines={"j1": 3.0, "j2": 1.0},
)


def test_a_lane_holds_one_node_at_a_time_preferably_of_one_type() -> None:
    found = lanes([rental(0, 0, 1), rental(1, 0, 3, "NV6"), rental(2, 1, 2, "NV6"), rental(3, 2, 3), rental(4, 3, 4)])
    assert found == {0: 0, 1: 1, 2: 0, 3: 0, 4: 0}
    assert lanes([rental(0, 0, 1), rental(1, 0, 1, "NV6"), rental(2, 1, 2, "NV6")])[2] == 1


def test_a_node_that_is_returned_at_once_is_not_drawn() -> None:
    assert lanes([rental(0, 1, 1), rental(1, 1, 2)]) == {1: 0}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_bars_never_overlap_and_their_area_is_gpu_time(seed: int) -> None:
    made = simulate(random_instance(seed, jobs=8, types=AZURE, load=6), greedy, name="greedy", nodes=3)
    drawn = bars(made)
    assert max(lanes(made.rentals).values()) < 3
    for one, other in combinations(drawn, 2):
        disjoint = (
            one.lane != other.lane
            or one.allocation.end_seconds <= other.allocation.start_seconds + SAME_MOMENT_SECONDS
            or other.allocation.end_seconds <= one.allocation.start_seconds + SAME_MOMENT_SECONDS
            or one.band + one.bands <= other.band
            or other.band + other.bands <= one.band
        )
        assert disjoint
    gpus = {each.name: each.gpus for each in made.fleet.types}
    assert all(bar.band + bar.bands <= gpus[bar.rental.type] for bar in drawn)
    area = sum(bar.bands * (bar.allocation.end_seconds - bar.allocation.start_seconds) for bar in drawn)
    spent = sum(len(each.nodes) * each.gpus * (each.end_seconds - each.start_seconds) for each in made.allocations)
    assert area == pytest.approx(spent)


def test_a_job_gets_adjacent_gpus_if_possible() -> None:
    made = schedule(
        [rental(0, 0, 3)],
        [
            allocation("a", 0, 1, 0, 3),
            allocation("b", 0, 1, 0, 1),
            allocation("c", 0, 1, 0, 3),
            allocation("d", 0, 2, 1, 3),
        ],
    )
    parts = [(bar.band, bar.bands) for bar in bars(made) if bar.allocation.job == "d"]
    assert parts == [(1, 1), (3, 1)]  # b's and the one above c: no two next to each other are free
    made = schedule([rental(0, 0, 3)], [allocation("a", 0, 1, 0, 3), allocation("d", 0, 2, 1, 3)])
    assert [(bar.band, bar.bands) for bar in bars(made)] == [(0, 1), (1, 2)]


def test_a_job_on_several_nodes_has_a_bar_on_each() -> None:
    made = schedule([rental(0, 0, 1), rental(1, 0, 1)], [allocation("gang", (0, 1), 4, 0, 1)])
    assert [row["job"] for row in rows(figure(made))] == ["gang", "gang"]
    assert "on each of 2 nodes" in rows(figure(made))[0]["where"]


def test_the_title_is_the_answer_and_the_subtitle_explains_it() -> None:
    spec = figure(TWO, bound_usd=10.0)
    assert title(spec) == "greedy: $15.08 for 3 jobs on 10 nodes, 1 of them late"
    assert subtitle(spec).startswith("rent $11.48, lateness $3.60 · 50.8% above the lower bound · 4 h in total")
    assert "height = GPUs" in subtitle(spec)


def test_a_cost_far_above_the_bound_is_given_as_a_ratio() -> None:
    assert "7.5x the lower bound" in subtitle(figure(TWO, bound_usd=2.0))


def test_only_work_after_the_deadline_is_dark() -> None:
    late = [row for row in rows(figure(TWO)) if row["fill"] == LATE]
    assert [(row["job"], row["x"], row["x2"]) for row in late] == [("j1", 3 * HOUR, 4 * HOUR)]
    assert "after the deadline" in texts(figure(TWO))
    in_time = schedule([rental(0, 0, 4)], [allocation("j1", 0, 2, 0, 4)])
    assert LATE not in {row["fill"] for row in rows(figure(in_time))}
    assert "after the deadline" not in texts(figure(in_time))


def test_a_short_lateness_in_a_long_schedule_is_visible() -> None:
    made = schedule([rental(0, 0, 1000)], [allocation("j1", 0, 4, 0, 1000)], deadlines={"j1": 999.99})
    (late,) = [row for row in rows(figure(made)) if row["fill"] == LATE]
    assert late["x2"] == 1000 * HOUR
    assert (late["x2"] - late["x"]) / (1000 * HOUR) * figure(made)["width"] == pytest.approx(2.0, rel=0.01)
    on_time = schedule([rental(0, 0, 1000)], [allocation("j1", 0, 4, 0, 1000)], deadlines={"j1": 1000})
    assert LATE not in {row["fill"] for row in rows(figure(on_time))}


def test_the_latest_jobs_are_labelled_if_there_is_space() -> None:
    made = schedule(
        [rental(0, 0, 9)],
        [allocation("j1", 0, 2, 0, 3), allocation("j2", 0, 2, 0, 9)],
        deadlines={"j1": 1.0},
    )
    assert "j1: 2 h late" in texts(figure(made))
    crowded = schedule(
        [rental(0, 0, 9)],
        [allocation("j1", 0, 2, 0, 3), allocation("j2", 0, 2, 3, 9), allocation("j3", 0, 2, 0, 9)],
        deadlines={"j1": 1.0},
    )
    assert "j1: 2 h late" not in texts(figure(crowded))


def test_the_tooltip_of_a_bar_has_its_deadline_and_lateness() -> None:
    told = {row["job"]: row for row in rows(figure(TWO))}
    assert told["j1"]["deadline"] == "3 h"
    assert told["j1"]["ended"] == "4 h, 1 h late"
    assert told["j1"]["where"] == "2 GPUs of NC24"
    assert told["j3"]["deadline"] == "none"


def test_the_height_of_a_bar_is_its_gpus() -> None:
    heights = {row["job"]: row["y2"] - row["y"] for row in rows(figure(TWO))}
    assert heights["j1"] == pytest.approx(2 * heights["j2"], abs=0.2)


def test_booting_and_restoring_are_grey() -> None:
    made = schedule([rental(0, 0, 4)], [allocation("j1", 0, 2, 0, 4, works=1.0)])
    grey = [row for row in rows(figure(made)) if row["fill"] == PREPARING]
    assert [(row["x"], row["x2"]) for row in grey] == [(0, HOUR)]
    assert "boot or restore" in texts(figure(made))


def test_an_interrupted_spot_node_has_a_cross() -> None:
    made = schedule([rental(0, 0, 4, reclaimed=True)], [allocation("j1", 0, 2, 0, 4)])
    assert {"×", "× spot interruption"} <= set(texts(figure(made)))
    assert "×" not in texts(figure(TWO))


def test_names_are_only_on_bars_with_enough_space() -> None:
    made = schedule([rental(0, 0, 100)], [allocation("long", 0, 4, 0, 99), allocation("short", 0, 4, 99, 100)])
    assert "long" in texts(figure(made))
    assert "short" not in texts(figure(made))


def test_many_nodes_are_shown_as_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gantt, "MAX_LANES", 1)
    above, below = views(figure(TWO))
    assert "GPUs of all nodes" in subtitle(above)
    areas = [layer for layer in above["layer"] if layer["mark"]["type"] == "area"]
    step = 4 * HOUR / INTERVALS
    worked = [sum((row["y2"] - row["y"]) * step for row in area["data"]["values"][:INTERVALS]) for area in areas]
    assert worked == pytest.approx([9 * HOUR, 4 * HOUR, 7 * HOUR], rel=1e-3)  # K80, M60, idle: 16 + 4 paid
    assert any(layer["mark"]["type"] == "line" for layer in below["layer"])


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 5)), max_size=6),
)
def test_mean_heights_keep_the_integral(pieces: list[tuple[float, float, float]]) -> None:
    lasting = [(min(a, b), max(a, b), tall) for a, b, tall in pieces]
    step = 100 / INTERVALS
    assert sum(mean_heights(lasting, step)) * step == pytest.approx(
        sum((end - start) * tall for start, end, tall in lasting), abs=1e-6
    )


def cost(policy: str, rent: float, lateness: float = 0.0) -> ScheduleOutcome:
    return replace(
        evaluate(TWO),
        policy=policy,
        total_usd=rent + lateness,
        rental_usd=rent,
        tardiness_usd=lateness,
    )


def test_the_cheapest_policy_is_named_and_coloured() -> None:
    spec = policies_figure([cost("greedy", 110), cost("trainfare", 98, 1)], [], bound_usd=97.0)
    assert title(spec) == "trainfare is the cheapest of 2 policies: $99.00, 10.0% below greedy"
    assert "lower bound of $97.00" in subtitle(spec)
    drawn = next(layers(spec, "rect"))["data"]["values"]
    assert [(row["policy"], row["x"], row["x2"]) for row in drawn if row["fill"] == ACCENT] == [("trainfare", 0, 98)]
    assert [(row["policy"], row["x"], row["x2"]) for row in drawn if row["fill"] == LATE] == [("trainfare", 98, 99)]
    assert "$99.00, +2.1%" in texts(spec)


def test_the_bar_of_a_much_more_expensive_policy_is_cut() -> None:
    spec = policies_figure([cost("trainfare", 100), cost("fifo", 150, 1850)], [], bound_usd=97.0)
    drawn = next(layers(spec, "rect"))["data"]["values"]
    assert max(row["x2"] for row in drawn) == MAX_RATIO * 100
    assert "… $2,000.00" in texts(spec)
    assert "… marks a bar that is cut" in subtitle(spec)


def test_schedules_below_have_the_same_time_axis() -> None:
    short = schedule([rental(0, 0, 2)], [allocation("j1", 0, 4, 0, 2)])
    pairs = [(TWO, evaluate(TWO)), (short, evaluate(short))]
    _, one, other = views(policies_figure([made for _, made in pairs], pairs, width=360))
    domains = [view["layer"][0]["encoding"]["x"]["scale"]["domain"] for view in (one, other)]
    assert domains[0] == domains[1] == [0.0, 4 * HOUR]


def test_time_counts_from_the_first_submission() -> None:
    instance = random_instance(3, jobs=3)
    later = replace(
        instance,
        jobs=tuple(
            replace(
                job,
                submitted_seconds=job.submitted_seconds + 1e6,
                deadline_seconds=job.deadline_seconds + 1e6,
            )
            for job in instance.jobs
        ),
    )
    now, then = (rows(figure(simulate(each, greedy, name="greedy", nodes=2))) for each in (instance, later))
    assert min(row["x"] for row in now) == 0
    assert [row["x2"] for row in then] == pytest.approx([row["x2"] for row in now], abs=1)
    assert [row["deadline"] for row in then] == [row["deadline"] for row in now]


def test_an_empty_schedule_can_be_drawn() -> None:
    empty = schedule([], [])
    assert title(figure(empty)) == "greedy: $0 for 0 jobs on 10 nodes, none late"


@pytest.mark.parametrize("max_lanes", [40, 0], ids=["lanes", "sums"])
def test_the_axis_title_names_its_zero(monkeypatch: pytest.MonkeyPatch, max_lanes: int) -> None:
    monkeypatch.setattr(gantt, "MAX_LANES", max_lanes)
    assert "time since the first submission" in str(gantt_figure(TWO, evaluate(TWO)))
    planned = str(gantt_figure(TWO, evaluate(TWO), since=NOW))
    assert "time from now" in planned
    assert "first submission" not in planned


def test_one_job_is_singular() -> None:
    one = replace(evaluate(TWO), jobs=1)
    assert subtitle(views(policies_figure([one], []))[0]).startswith("1 job")
    assert not subtitle(views(policies_figure([one], []))[0]).startswith("1 jobs")

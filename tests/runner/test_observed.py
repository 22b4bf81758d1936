"""The times of a run by its facts and observations: only parts that ended have one."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.makers import (
    NOON,
    make_candidate,
    make_estimate,
    make_fact,
    make_observation,
    make_offer,
    make_profile,
    make_run,
)
from trainfare.model.bill import Billing
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.run import Fact, FactKind, Observation, Run
from trainfare.runner.accuracy import Accuracy, ComparedRun, compare_run, summarise
from trainfare.runner.life import life_of
from trainfare.runner.measured_profile import MAX_TIMES, profile_of_attempt
from trainfare.runner.observed import AttemptTimes, attempts_of
from trainfare.runner.receipt import receipt_of

PLAIN: tuple[tuple[FactKind, float], ...] = (
    ("launch intended", 0),
    ("machines seen", 1),
    ("machines ready", 60),
    ("program started", 80),
    ("program ended", 200),
    ("results collected", 203),
    ("termination intended", 203),
    ("terminated", 205),
    ("run ended", 205),
)


def facts_at(*moments: tuple[FactKind, float], **changes: Any) -> list[Fact]:
    """Facts so many seconds after noon; `changes` are fields of the last launch."""
    found: list[Fact] = []
    attempt = 0
    for number, (kind, seconds) in enumerate(moments):
        attempt += kind == "launch intended"
        more = changes if kind == "launch intended" else {}
        found.append(
            make_fact(
                kind=kind, number=number, seen_at=NOON + timedelta(seconds=seconds), **{"attempt": attempt} | more
            )
        )
    return found


def seen(**changes: Any) -> list[Observation]:
    """A setup of 15 s, a program of 120 s and 61 iterations: 5 s, then 1 s each, with two validations of 10 s."""
    first: dict[str, Any] = {"first": 1, "count": 31, "seconds": [5.0] + [1.0] * 30, "init_seconds": 20.0}
    first |= {"first_seconds": 5.0, "validations": 1.0, "validation_seconds": 10.0}
    last = {"first": 32, "count": 30, "seconds": [1.0] * 10, "validations": 1.0, "validation_seconds": 10.0}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("setup", {"state": "ended", "exit_code": 0.0, "seconds": 15.0}),
        ("program", {"state": "started"}),
        ("iterations", first),
        ("iterations", last),
        ("meter", {"cpu_seconds": 1.0, "peak_memory_bytes": 3e8}),
        ("program", {"state": "ended", "exit_code": 0.0, "seconds": changes.get("program", 120.0)}),
    ]
    return [make_observation(number=n, kind=kind, values=values) for n, (kind, values) in enumerate(kinds, 1)]


def attempt_of(facts: Sequence[Fact], observations: Sequence[Observation]) -> AttemptTimes:
    (attempt,) = attempts_of(make_run(), facts, observations)
    return attempt


def test_a_run_that_ended_has_every_part() -> None:
    found = attempt_of(facts_at(*PLAIN), seen())
    assert (found.boot_seconds, found.setup_seconds, found.sending_seconds) == (60, 20, 5)
    assert (found.training_seconds, found.collecting_seconds, found.completed) == (120, 5, True)
    assert found.training is not None
    assert (found.training.iterations, found.training.init_seconds, found.training.first_seconds) == (61, 20, 5)
    assert (found.training.steady_seconds, found.training.validation_seconds) == (60, 20)


def test_parts_that_did_not_end_have_no_time() -> None:
    lost = facts_at(*PLAIN[:4], ("machines lost", 90), ("termination intended", 90), ("terminated", 95))
    found = attempt_of(lost, seen()[:3])
    assert (found.boot_seconds, found.setup_seconds) == (60, 20)
    assert (found.training_seconds, found.collecting_seconds, found.completed) == (None, None, False)
    refused = attempt_of(facts_at(PLAIN[0], ("launch refused", 3)), ())
    assert (refused.boot_seconds, refused.setup_seconds, refused.training) == (None, None, None)


def test_a_stopped_run_is_not_complete_even_if_its_program_ended_well() -> None:
    stopped = facts_at(*PLAIN[:4], ("stop asked", 150), *PLAIN[4:])
    assert not attempt_of(stopped, seen()).completed


def test_a_start_that_was_noticed_late_is_not_setup() -> None:
    """The laptop slept from second 65 to 170: the program ran since second 80 and ended at 200."""
    late = facts_at(*PLAIN[:3], ("program started", 170), *PLAIN[4:])
    assert attempt_of(late, seen(program=120.0)).setup_seconds == 20


def test_a_termination_that_failed_is_not_the_time_to_collect() -> None:
    failed = facts_at(*PLAIN[:7], ("termination failed", 204), ("terminated", 5000), ("run ended", 5000))
    assert attempt_of(failed, seen()).collecting_seconds is None


def test_each_attempt_has_its_own_times_and_machine() -> None:
    other = make_candidate(offer=make_offer(usd_per_hour=2.0))
    first = facts_at(
        PLAIN[0], ("machines seen", 1), ("machines lost", 5), ("termination intended", 5), ("terminated", 9)
    )
    second = [
        make_fact(kind=kind, number=len(first) + n, attempt=2, seen_at=NOON + timedelta(seconds=100 + s))
        for n, (kind, s) in enumerate(PLAIN)
    ]
    second[0] = make_fact(kind="launch intended", number=5, attempt=2, candidate=other, seen_at=second[0].seen_at)
    found = attempts_of(make_run(), [*first, *second], [])
    assert [(each.attempt, each.boot_seconds) for each in found] == [(1, None), (2, 60)]
    assert found[1].candidate == other


def predicted_run(**changes: Any) -> Run:
    """A run that was predicted to take what it took, but for half of its iterations' time."""
    lengths = {"boot": 60, "setup": 20, "initialisation": 20, "first iteration": 5, "steady iterations": 30}
    phases = tuple(
        Phase(name=name, seconds=Interval.within_factor(seconds, 1.5))  # type: ignore[arg-type] # a literal
        for name, seconds in lengths.items()
    )
    estimate = make_estimate(
        phases=phases,
        seconds=Interval.within_factor(135.0, 1.6),
        usd=Interval.within_factor(0.02, 1.6),
        iterations=changes.pop("iterations", 61),
    )
    return make_run(estimate=estimate, candidate=estimate.candidate, **changes)


def compared(run: Run, facts: list[Fact], observations: list[Observation]) -> ComparedRun:
    ended_at = facts[-1].seen_at
    return compare_run(
        run,
        life_of(facts),
        attempts_of(run, facts, observations),
        receipt_of(run, facts, billing=Billing(), now=ended_at),
        ended_at=ended_at,
    )


def test_predicted_against_observed_line_by_line() -> None:
    found = compared(predicted_run(), facts_at(*PLAIN), seen())
    lines = {line.line: line for line in found.lines}
    assert [line for line, one in lines.items() if one.predicted_seconds is not None] == [
        "boot",
        "setup",
        "initialisation",
        "first iteration",
        "steady iterations",
        "in all",
    ]
    assert (lines["boot"].error, lines["boot"].is_inside) == (0, True)
    assert (lines["steady iterations"].error, lines["steady iterations"].is_inside) == (-0.5, False)
    assert lines["in all"].seconds == 205
    assert lines["in all"].error == pytest.approx(135 / 205 - 1)
    assert lines["in all"].is_cost_inside is True
    assert lines["rest"].seconds == 120 - 20 - 5 - 60 - 20


def test_of_a_failed_run_only_parts_that_ended_are_compared() -> None:
    failed = facts_at(*PLAIN)
    failed[4] = make_fact(kind="program ended", number=4, attempt=1, exit_code=1, seen_at=failed[4].seen_at)
    failed[8] = make_fact(kind="run ended", number=8, attempt=1, outcome="failed", seen_at=failed[8].seen_at)
    found = compared(predicted_run(), failed, seen())
    assert [line.line for line in found.lines if line.error is not None] == [
        "boot",
        "setup",
        "initialisation",
        "first iteration",
    ]


def test_a_training_of_another_length_says_nothing_about_the_prediction_of_iterations() -> None:
    found = compared(predicted_run(iterations=500), facts_at(*PLAIN), seen())
    assert "steady iterations" not in [line.line for line in found.lines]
    assert "in all" in [line.line for line in found.lines]


def test_the_summary_has_error_bias_and_the_share_inside() -> None:
    runs = [compared(predicted_run(), facts_at(*PLAIN), seen()) for _ in range(2)]
    found: Accuracy = summarise(runs)
    steady = next(one for one in found.summaries if one.line == "steady iterations")
    assert (steady.runs, steady.mean_absolute_error, steady.share_inside) == (2, 0.5, 0.0)
    assert steady.bias == pytest.approx(-0.5)
    assert [one.of for one in found.summaries if one.line == "in all"] == ["time", "cost"]


def test_a_run_leaves_a_profile_of_the_machine_that_it_ran_on() -> None:
    base, host = make_profile(), Host(name="big", vm_type="ssh/big")
    found = profile_of_attempt(make_run(), attempt_of(facts_at(*PLAIN), seen()), base, host)
    assert found is not None
    assert (found.id, found.origin, found.host, found.ending) == ("pr93", "run", host, "finished")
    assert (found.init_seconds, found.iteration_seconds) == (20, (5.0, *[1.0] * 60))
    assert list(found.validation_seconds) == [10, 10]
    assert (found.operations, found.parameters, found.samples) == (base.operations, base.parameters, base.samples)
    assert (found.data_wait_seconds, found.peak_host_bytes) == ((), 300_000_000)


def test_the_times_of_a_long_training_are_means_of_equal_numbers_of_iterations() -> None:
    many = make_observation(
        number=1,
        values={"first": 1, "count": 40_001, "seconds": [1.0] * 200, "first_seconds": 1.0, "init_seconds": 1.0},
    )
    slow = make_observation(number=2, values={"first": 40_002, "count": 40_000, "seconds": [3.0] * 200})
    found = profile_of_attempt(make_run(), attempt_of(facts_at(*PLAIN), [many, slow]), None, Host(name="big"))
    assert found is not None
    assert len(found.steady_iteration_seconds) <= MAX_TIMES
    assert sum(found.steady_iteration_seconds) / len(found.steady_iteration_seconds) == pytest.approx(2.0, rel=0.01)
    assert (found.run_iterations, found.planned_iterations) == (80_001, 80_001)


@pytest.mark.parametrize(
    ("base", "host"),
    [
        (make_profile(device="cuda"), Host(name="big")),
        (make_profile(device="cpu"), Host(name="big", gpu="T4", gpus=1)),
        (make_profile(device="cuda", data_wait_seconds=(0.5,) * 5), Host(name="big", gpu="T4", gpus=1)),
    ],
)
def test_a_run_on_another_device_than_the_profile_is_not_learned_from(base: Profile, host: Host) -> None:
    assert profile_of_attempt(make_run(), attempt_of(facts_at(*PLAIN), seen()), base, host) is None


def test_a_few_iterations_or_several_nodes_are_not_learned_from() -> None:
    host = Host(name="big")
    assert profile_of_attempt(make_run(), attempt_of(facts_at(*PLAIN), seen()[:2]), None, host) is None
    nodes = facts_at(*PLAIN, candidate=make_candidate(nodes=2))
    assert profile_of_attempt(make_run(), attempt_of(nodes, seen()), None, host) is None

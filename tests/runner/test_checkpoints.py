"""Which checkpoint comes home, how often, and what is lost with a machine."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_checkpoint, make_estimate, make_observation, make_offer, make_run
from trainfare.model.interval import Interval
from trainfare.model.run import Observation
from trainfare.runner.checkpoints import (
    MEAN_SECONDS_BETWEEN_LOSSES,
    SavedCheckpoint,
    fetch_interval_seconds,
    is_fetch_due,
    latest_saved,
    lost_work,
    mean_seconds_between_losses,
)
from trainfare.runner.life import Life
from trainfare.runner.progress import RunProgress
from trainfare.runner.resuming import resume_command, resume_environment
from trainfare.runner.seen import Seen, summarise

SECOND = timedelta(seconds=1)


def saved(number: int, path: str, second: float, *, noted: float | None = None, **values: Any) -> Observation:
    """A checkpoint that was saved so many seconds after noon, and noted two seconds later."""
    return make_observation(
        number=number,
        kind="checkpoint",
        at=NOON + timedelta(seconds=second + 2 if noted is None else noted),
        values={"path": path, "bytes": 10, "seconds": 0.5, "saved": (NOON.timestamp() + second), **values},
    )


def newest(*seen: Observation, **options: Any) -> SavedCheckpoint:
    found = latest_saved(seen, **options)
    assert found is not None
    return found


@given(st.floats(1e-3, 1e4), st.floats(60, 1e7))
def test_the_interval_loses_less_than_half_or_double_of_it(cost: float, between_losses: float) -> None:
    def lost_share(interval: float) -> float:
        return cost / interval + interval / 2 / between_losses

    best = fetch_interval_seconds(cost, between_losses=between_losses)
    assert best >= cost
    if best > cost:
        assert lost_share(best) <= min(lost_share(best / 2), lost_share(best * 2))


def test_spot_machines_bring_checkpoints_home_more_often() -> None:
    estimate = make_estimate(interruptions=Interval.exactly(4.0))
    run = make_run(estimate=estimate, candidate=estimate.candidate)
    assert mean_seconds_between_losses(run, run.candidate) == pytest.approx(estimate.seconds.value / 4)
    assert mean_seconds_between_losses(run, make_candidate(nodes=2)) == MEAN_SECONDS_BETWEEN_LOSSES
    on_spot = make_candidate(offer=make_offer(market="spot", region="a"))
    spot = make_run(estimate=replace(estimate, candidate=on_spot), candidate=on_spot)
    elsewhere = replace(on_spot, offer=make_offer(market="spot", region="b", usd_per_hour=1.0))
    assert mean_seconds_between_losses(spot, elsewhere) == mean_seconds_between_losses(spot, on_spot)
    assert mean_seconds_between_losses(spot, make_candidate()) == MEAN_SECONDS_BETWEEN_LOSSES, "on demand"
    assert mean_seconds_between_losses(make_run(estimate=None), None) == MEAN_SECONDS_BETWEEN_LOSSES
    assert fetch_interval_seconds(2.0, between_losses=MEAN_SECONDS_BETWEEN_LOSSES) == pytest.approx(588, abs=1)


def test_files_that_are_saved_together_are_one_checkpoint() -> None:
    found = newest(
        saved(1, "out/model.pt", 0, iteration=100),
        saved(2, "out/optimizer.pt", 30, iteration=100),
        done_before=50,
    )
    assert (found.paths, found.path) == (("out/model.pt", "out/optimizer.pt"), "out")
    assert (found.number, found.iteration, found.save_seconds) == (2, 150, 1.0)
    by_time = newest(saved(1, "a.ckpt", 0), saved(2, "b.ckpt", 0.4), saved(3, "old.ckpt", -60))
    assert by_time.paths == ("old.ckpt",), "another one was saved later"


def test_the_file_that_is_saved_most_often_is_the_one_to_go_on_from() -> None:
    entries = (
        saved(1, "last.pt", 0, iteration=10),
        saved(2, "best.pt", 0.1, iteration=10),
        saved(3, "last.pt", 9, iteration=20),
    )
    assert newest(*entries).paths == ("last.pt",)
    assert newest(*entries, saved(4, "best.pt", 9.1, iteration=20), saved(5, "last.pt", 20, iteration=30)).path == (
        "last.pt"
    )
    assert newest(saved(1, "w-1.pt", 0, iteration=1), saved(2, "o-1.pt", 1, iteration=1)).path == "."


def test_what_a_trainer_saved_is_what_it_goes_on_from() -> None:
    found = newest(saved(1, "out/checkpoint-5", 0, iteration=5, resumes=1), saved(2, "weights.pt", 1, iteration=5))
    assert (found.path, found.resumes) == ("out/checkpoint-5", True)
    assert found.paths == ("out/checkpoint-5", "weights.pt")
    assert not newest(saved(1, "weights.pt", 1, iteration=5)).resumes


def test_a_checkpoint_whose_files_may_still_come_is_not_taken() -> None:
    first, second = saved(1, "1.pt", 0, iteration=5), saved(2, "2.pt", 10, noted=10.2, iteration=9)
    assert newest(first, second).path == "1.pt"
    assert newest(first, second, has_ended=True).path == "2.pt"
    later = make_observation(number=3, at=NOON + 15 * SECOND)
    assert newest(first, second, later).path == "2.pt", "the agent looked again and saw no more"
    assert latest_saved((second,)) is None


def test_another_checkpoint_comes_home_when_its_interval_has_passed() -> None:
    life = Life(attempt=1, checkpoint=make_checkpoint(), checkpoint_at=NOON, checkpoint_attempt=1)
    interval = fetch_interval_seconds(2.0, between_losses=3600.0)
    assert interval == math.sqrt(2 * 2 * 3600)
    new = newest(saved(9, "last.pt", 60))
    assert not is_fetch_due(life, new, NOON + 119 * SECOND, 3600.0)
    assert is_fetch_due(life, new, NOON + 120 * SECOND, 3600.0)
    assert not is_fetch_due(life, newest(saved(9, "last.pt", -1)), NOON + 9999 * SECOND, 3600.0), "it is at home"
    assert is_fetch_due(replace(life, attempt=2), new, NOON + SECOND, 3600.0), "the first of an attempt"


def test_the_loss_is_counted_in_iterations_or_else_in_time() -> None:
    life = Life(attempt=1, checkpoint=make_checkpoint(iteration=300), checkpoint_attempt=1, started_at=NOON)
    progress = RunProgress(
        iterations=420,
        total_iterations=1000,
        seconds=60.0,
        iteration_seconds=Interval.exactly(0.5),
        remaining_seconds=None,
        loss=None,
    )
    assert str(lost_work(life, progress, heard_at=None)) == "120 iterations (1 min)"
    unknown = replace(life, checkpoint=make_checkpoint(iteration=None))
    assert str(lost_work(unknown, progress, heard_at=NOON + 90 * SECOND)) == "1 min 30 s of training"
    assert str(lost_work(replace(life, checkpoint=None), progress, heard_at=None)) == "420 iterations (3 min 30 s)"


def test_the_words_that_resume_are_added_only_where_there_is_a_checkpoint() -> None:
    run = make_run(resume_flag="--resume 'at {}' --strict")
    life = Life(resumed_from=make_checkpoint(path="out/my file.pt"))
    assert resume_command(run, Life()) == run.program.command
    assert resume_command(run, life) == (*run.program.command, "--resume", "at out/my file.pt", "--strict")
    assert resume_command(replace(run, resume_flag="auto"), life) == run.program.command
    assert resume_environment(run, life) == {}
    by_itself = replace(run, resume_flag="auto")
    assert resume_environment(by_itself, life) == {"TRAINFARE_RESUME_FROM": "out/my file.pt"}
    assert resume_environment(by_itself, Life()) == {}


def on_node(node: int, entry: Observation) -> Observation:
    return replace(entry, node=node)


def test_a_checkpoint_of_several_nodes_is_complete_when_each_has_saved_its_part() -> None:
    first = (saved(1, "c/0.pt", 0, iteration=10), saved(4, "c/0.pt", 20, iteration=20))
    second = (on_node(1, saved(2, "c/1.pt", 0.5, iteration=10)), on_node(1, saved(3, "c/1.pt", 21, iteration=20)))
    found = newest(*first, *second, nodes=2)
    assert (found.iteration, found.paths) == (20, ("c/0.pt",))
    (part,) = found.others
    assert (part.node, part.number, part.paths) == (1, 3, ("c/1.pt",))
    older = newest(*first, second[0], nodes=2)
    assert (older.iteration, older.others[0].number) == (10, 2), "the second node has not saved at iteration 20 yet"
    assert newest(*first, second[0], nodes=2, has_ended=True).iteration == 10, "and never will"
    assert latest_saved(first[:1], nodes=2) is None, "nothing was heard of the second node"


def test_a_node_that_trains_and_does_not_save_has_no_part() -> None:
    entries = (saved(1, "last.pt", 0, iteration=10), saved(2, "last.pt", 10, iteration=20))
    steps = make_observation(node=1, number=5, at=NOON + 30 * SECOND)
    assert newest(*entries, steps, nodes=2).iteration == 20
    assert newest(*entries, steps, nodes=2).others == ()
    early = make_observation(node=1, number=5, at=NOON + 5 * SECOND)
    assert newest(*entries, early, nodes=2).iteration == 10, "it has not looked since"
    once = on_node(1, saved(6, "tokens.pt", -60, iteration=1))
    more = (*entries, saved(3, "last.pt", 20, iteration=30), once, steps)
    assert newest(*more, nodes=2).others == (), "what it saved once is no part of every checkpoint"


def test_without_iterations_nodes_that_saved_at_the_same_time_belong_together() -> None:
    first = (saved(1, "0.pt", 0), saved(2, "0.pt", 8))
    second = (on_node(1, saved(1, "1.pt", 0.3)),)
    assert newest(*first, *second, nodes=2, has_ended=True).number == 1, "the first node has saved once more"
    both = newest(*first, *second, on_node(1, saved(2, "1.pt", 8.2)), nodes=2)
    assert (both.number, both.others[0].number) == (2, 2)


@given(st.data())
def test_what_is_added_bit_by_bit_says_the_same_as_all_at_once(data: st.DataObject) -> None:
    entries = []
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        node = data.draw(st.integers(0, 1))
        if data.draw(st.booleans()):
            entries.append(on_node(node, saved(number, data.draw(st.sampled_from("ab")), 3.0 * number)))
        else:
            values = {"first": number, "count": 1, "seconds": [0.1]}
            entries.append(make_observation(node=node, number=number, at=NOON + 3 * number * SECOND, values=values))
    pieces, cut = Seen(), data.draw(st.integers(0, len(entries)))
    pieces.add(entries[:cut])
    latest_saved(pieces, nodes=2)
    pieces.add(entries[cut:])
    assert pieces == summarise(entries)
    assert latest_saved(pieces, nodes=2) == latest_saved(entries, nodes=2)

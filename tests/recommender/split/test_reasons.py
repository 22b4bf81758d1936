"""What is said of two legs, and of none."""

import pytest

from tests.makers import make_estimate
from tests.model.test_split import make_legs, make_move, make_part
from tests.recommender.split.test_search import make_course
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.split import Early, MigrationPart, Reached, Saving
from trainfare.recommender.split.reasons import no_split_reason, split_reasons
from trainfare.recommender.split.search import Split

DEADLINE = Goal(deadline_seconds=36_000.0)


def said(goal: Goal = DEADLINE, *, checkpoints_seen: bool = False, **changes: object) -> str:
    return " | ".join(split_reasons(make_legs(**changes), goal, checkpoints_seen=checkpoints_seen))


def test_split_machines_limit_and_saving_are_said() -> None:
    sentence = said()
    assert "epochs 1 – 3 on aws fast (3 min, 0.53 $)" in sentence
    assert "then epochs 4 – 10 on aws cheap" in sentence
    assert "within 10 h 00 min with 90 % confidence" in sentence
    assert "1.00 $ (40 %; 90 %: 0.50 $ – 2.00 $) less than aws g4dn.xlarge alone" in sentence


@pytest.mark.parametrize(
    ("saving", "words"),
    [
        (Saving(quantity="seconds", amount=Interval.exactly(7200.0), share=0.2), "2 h 00 min"),
        (Saving(quantity="score", amount=Interval.exactly(0.3), share=0.2), "as you weigh them"),
    ],
)
def test_a_saving_is_told_in_what_the_goal_wants(saving: Saving, words: str) -> None:
    assert words in said(saving=saving)


def test_where_no_machine_alone_would_do_that_is_the_reason() -> None:
    assert "no single machine keeps that" in said(instead_of=None, saving=None)


def test_the_move_says_what_is_assumed_and_leaves_out_what_is_nothing() -> None:
    nothing = MigrationPart(seconds=Interval.exactly(0.0), found="nothing", how="there already")
    legs = make_legs()
    move = make_move(upload=make_part(found="stated"), download=nothing, checkpoint=make_part(4.0))
    sentence = said(move=move, seconds=legs.legs[0].estimate.seconds + move.seconds + legs.legs[1].estimate.seconds)
    assert "written 4 s, up 2 s, read 2 s; assumed and stated" in sentence
    assert "down" not in sentence


def test_an_early_figure_is_told_with_its_time() -> None:
    reached = Reached(
        early=Early(metric="loss", value=0.5, seconds=7200.0),
        epochs=Interval(value=3.0, low=2.0, high=5.0),
        seconds=Interval(value=3600.0, low=3000.0, high=7000.0),
    )
    assert (
        "loss 0.5 is expected after epoch 3 (90 %: 2 to 5), 60 min from the start (at the most 1 h 57 min), "
        "wanted within 2 h 00 min" in said(reached=reached)
    )


def test_what_the_program_must_be_able_to_do_is_said() -> None:
    assert "none was seen while profiling" in said()
    assert "its own checkpoint of epoch 3" in said(checkpoints_seen=True)


def test_why_one_machine_is_better_is_said() -> None:
    courses = [make_course("fast", 10, 10), make_course("cheap", 30, 2)]
    split = Split(first=0, second=1, after=5, score=60, seconds=200, usd=60)
    assert "less than is in doubt" in no_split_reason(split, courses, make_estimate(), DEADLINE)
    assert "5 epochs on aws fast and the rest on aws cheap" in no_split_reason(
        split, courses, make_estimate(), DEADLINE
    )
    assert "better than one" in no_split_reason(None, courses, make_estimate(), DEADLINE)
    assert "keep 10 h 00 min either" in no_split_reason(None, courses, None, DEADLINE)
    assert "what is wanted early" in no_split_reason(None, courses, None, Goal())

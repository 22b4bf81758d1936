import pytest

from trainfare.model.epochs import EpochsAnswer


def test_a_rule_that_does_not_apply_has_a_reason_and_no_number() -> None:
    answer = EpochsAnswer(rule="curve", why="only two epochs were observed")
    assert answer.refused
    assert answer.rounded is None


def test_a_range_may_have_no_value() -> None:
    answer = EpochsAnswer(rule="other batch sizes", why="too far", low=3, high=40)
    assert not answer.refused
    assert answer.rounded is None


def test_the_rounded_number_is_at_least_one() -> None:
    assert EpochsAnswer(rule="curve", why="quick", value=0.3, low=0.2, high=1).rounded == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"value": 5.0},
        {"low": 1.0},
        {"value": 5.0, "low": 6.0, "high": 7.0},
        {"low": 7.0, "high": 6.0},
        {"value": float("nan"), "low": 1.0, "high": 2.0},
        {"value": 0.0, "low": 0.0, "high": 0.0},
        {"why": " "},
        {"batch_size": 0},
    ],
)
def test_an_invalid_answer_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|needs|between"):
        EpochsAnswer(**({"rule": "curve", "why": "because"} | changes))  # type: ignore[arg-type] # fields by name, of several types

"""The life of a run: the table has no dead end, costs nothing when it ends, and refuses what cannot follow."""

from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_checkpoint
from trainfare.model.rented import RentedMachine
from trainfare.model.run import REMARKS, Fact, FactKind, RunState
from trainfare.runner.life import NEXT, IllegalFactError, Life, after, life_of

MACHINE = RentedMachine(
    id="m1", owner="ada@laptop", run_id="r1", attempt=1, node=0, vm_type="ssh/big", state="ready", expires_at=NOON
)
STATES = get_args(RunState)
KINDS = get_args(FactKind)


def make_fact(kind: FactKind, life: Life) -> Fact:
    """A valid fact of a kind that has the next number."""
    return Fact(
        run_id="r1",
        number=life.facts,
        seen_at=NOON + timedelta(seconds=life.facts),
        kind=kind,
        attempt=life.attempt + (kind == "launch intended"),
        text="why",
        candidate=make_candidate(),
        machines=(MACHINE,),
        exit_code=0,
        stop_reason="user",
        outcome="succeeded",
        checkpoint=make_checkpoint(),
    )


def possible(life: Life) -> list[FactKind]:
    return [kind for kind in KINDS if (life.state, kind) in NEXT or (kind in REMARKS and life.state != "ended")]


@given(st.data())
def test_every_walk_through_the_table_can_be_read_back_and_ended(data: st.DataObject) -> None:
    life, facts = Life(), []
    for _ in range(data.draw(st.integers(0, 40))):
        kinds = possible(life)
        if not kinds:
            break
        facts.append(make_fact(data.draw(st.sampled_from(kinds)), life))
        life = after(life, facts[-1])
    assert life_of(facts) == life
    while life.state != "ended":
        ways: dict[RunState, FactKind] = {"planned": "run ended", "ending": "terminated"}
        life = after(life, make_fact(ways.get(life.state, "termination intended"), life))
    assert not life.may_cost


def test_a_run_ends_only_where_no_machine_can_exist() -> None:
    assert {state for (state, kind), end in NEXT.items() if end == "ended"} == {"planned"}
    into_planned = {kind for (state, kind), end in NEXT.items() if end == "planned"}
    assert into_planned == {"terminated", "launch refused", "machines abandoned"}


def test_machines_that_were_asked_for_can_be_terminated_in_every_state() -> None:
    for state in STATES:
        if Life(state=state).may_cost:
            assert (state, "termination intended") in NEXT, state


@pytest.mark.parametrize("state", STATES)
def test_a_fact_that_is_not_in_the_table_is_refused(state: RunState) -> None:
    life = Life(state=state, attempt=1, facts=3)
    for kind in KINDS:
        if kind not in possible(life):
            with pytest.raises(IllegalFactError, match="cannot follow"):
                after(life, make_fact(kind, life))


def test_a_number_or_an_attempt_that_is_not_the_next_is_refused() -> None:
    with pytest.raises(IllegalFactError, match="the next number is 0"):
        after(Life(), replace(make_fact("launch intended", Life()), number=1))
    with pytest.raises(IllegalFactError, match="attempt 2 cannot follow attempt 0"):
        after(Life(), replace(make_fact("launch intended", Life()), attempt=2))


def test_a_new_attempt_starts_without_the_failure_of_the_last() -> None:
    life = Life()
    kinds: tuple[FactKind, ...] = (
        "launch intended",
        "machines seen",
        "machines lost",
        "termination intended",
        "terminated",
    )
    for kind in kinds:
        life = after(life, make_fact(kind, life))
    assert (life.failure, life.machines) == ("why", ())
    life = after(life, make_fact("launch intended", life))
    assert (life.attempt, life.failure, life.termination_intended) == (2, None, False)


def test_the_first_reason_to_stop_counts() -> None:
    life = after(Life(), replace(make_fact("stop asked", Life()), stop_reason="budget"))
    life = after(life, replace(make_fact("stop asked", life), stop_reason="user"))
    assert life.stop_reason == "budget"


def test_a_run_that_was_interrupted_goes_on_also_if_its_machine_is_gone_before_its_results_are_at_home() -> None:
    """The announced end of a spot machine: the program was ended by SIGTERM, and then the machine is taken back."""
    ended: dict[str, object] = {"exit_code": -15, "interrupted": True, "reclaimed": True}
    kinds: tuple[tuple[FactKind, dict[str, object]], ...] = (
        ("launch intended", {}),
        ("machines seen", {}),
        ("machines ready", {}),
        ("program started", {}),
        ("program ended", ended),
        ("machines lost", {"reclaimed": True}),
    )
    life = Life()
    for kind, fields in kinds:
        life = after(life, replace(make_fact(kind, life), **fields))  # type: ignore[arg-type] # fields of a Fact
    assert (life.interrupted, life.reclaims) == (True, 1)


def test_the_last_refusal_of_each_request_is_remembered_until_the_program_starts() -> None:
    life = Life()
    kinds: tuple[FactKind, ...] = ("launch intended", "launch refused", "launch intended", "launch refused")
    for kind in kinds:
        life = after(life, make_fact(kind, life))
    assert [fact.attempt for fact in life.refusals] == [2], "the same was asked for"
    assert life.refused_since is not None
    starting: tuple[FactKind, ...] = ("launch intended", "machines seen", "machines ready", "program started")
    for kind in starting:
        life = after(life, make_fact(kind, life))
    assert life.refused_since is None

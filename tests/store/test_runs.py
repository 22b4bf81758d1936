"""Facts, observations and leases: their contract, run over every store (memory, SQLite, PostgreSQL)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.makers import NOON, make_candidate, make_fact, make_observation, make_run
from trainfare.errors import ExternalError
from trainfare.model.lease import Lease, run_lease_name
from trainfare.model.run import REMARKS, Fact, FactKind
from trainfare.store.history import AlreadyStoredError, History, RunEndedError, StaleLeaseError
from trainfare.store.memory import MemoryHistory
from trainfare.store.open import open_history

MINUTE = timedelta(minutes=1)


@pytest.fixture
def run_history(history: History) -> History:
    """A history with the runs r93 and r94, which no plan belongs to."""
    for number, name in enumerate(("r93", "r94")):
        history.runs.add(make_run(id=name, plan_id=None, made_at=NOON + number * MINUTE))
    return history


def take(history: History, *, run_id: str = "r93", holder: str = "laptop", now: datetime = NOON) -> Lease:
    lease = history.leases.take(run_lease_name(run_id), holder=holder, seconds=60, now=now)
    assert lease is not None
    return lease


@pytest.fixture
def lease(run_history: History) -> Lease:
    return take(run_history)


class TestFacts:
    def test_a_new_run_has_no_facts(self, run_history: History) -> None:
        assert run_history.facts.of("r93") == ()
        assert run_history.facts.of("absent") == ()

    def test_facts_of_every_kind_are_read_back_in_order(self, run_history: History, lease: Lease) -> None:
        kinds = [kind for kind in get_args(FactKind) if kind != "run ended"]
        facts = tuple(make_fact(number=number, kind=kind) for number, kind in enumerate((*kinds, "run ended")))
        assert [run_history.facts.append(fact, lease=lease) for fact in facts] == list(facts)
        assert run_history.facts.of("r93") == facts
        assert run_history.facts.of("r94") == ()

    def test_a_fact_that_was_decided_without_knowing_the_last_is_refused(
        self, run_history: History, lease: Lease
    ) -> None:
        stop = run_history.facts.append(make_fact(kind="stop asked"), lease=None)
        with pytest.raises(AlreadyStoredError, match="fact r93/0"):
            run_history.facts.append(make_fact(number=0), lease=lease)
        launch = run_history.facts.append(make_fact(number=1), lease=lease)
        assert run_history.facts.of("r93") == (stop, launch)

    def test_refusals_since_a_moment_are_found_whatever_became_of_their_runs(
        self, run_history: History, lease: Lease
    ) -> None:
        def refuse(run_id: str, number: int, minutes: int, cause: str | None, held: Lease, **more: Any) -> Fact:
            fields = {"run_id": run_id, "number": number, "seen_at": NOON + minutes * MINUTE, "refusal": cause}
            fields = {"kind": "launch refused", "attempt": 1, "candidate": make_candidate(), **fields, **more}
            return run_history.facts.append(make_fact(**fields), lease=held)

        old = refuse("r93", 0, 0, "capacity", lease)
        new = refuse("r93", 1, 30, "quota", lease)
        run_history.facts.append(make_fact(number=2, kind="run ended"), lease=lease)
        held = take(run_history, run_id="r94")
        other = refuse("r94", 0, 20, "capacity", held, kind="machines lost")
        refuse("r94", 1, 40, None, held, kind="machines lost")
        assert run_history.facts.refusals(since=NOON) == (new, other, old)
        assert run_history.facts.refusals(since=NOON + 20 * MINUTE) == (new, other)
        assert run_history.facts.refusals(since=NOON + 31 * MINUTE) == ()

    def test_a_number_is_not_left_out(self, run_history: History, lease: Lease) -> None:
        with pytest.raises(ValueError, match="next number is 0") as caught:
            run_history.facts.append(make_fact(number=1), lease=lease)
        assert not isinstance(caught.value, AlreadyStoredError)
        assert run_history.facts.of("r93") == ()

    @pytest.mark.parametrize("kind", REMARKS)
    def test_anybody_may_remark_and_gets_the_next_number(
        self, run_history: History, lease: Lease, kind: FactKind
    ) -> None:
        run_history.facts.append(make_fact(), lease=lease)
        stored = run_history.facts.append(make_fact(kind=kind, number=7), lease=None)
        assert stored == make_fact(kind=kind, number=1)
        assert run_history.facts.of("r93") == (make_fact(), stored)

    @pytest.mark.parametrize("kind", sorted({*get_args(FactKind)} - {*REMARKS}))
    def test_every_other_fact_needs_the_lease(self, run_history: History, kind: FactKind) -> None:
        with pytest.raises(ValueError, match="lease of its run"):
            run_history.facts.append(make_fact(kind=kind), lease=None)
        assert run_history.facts.of("r93") == ()

    def test_the_lease_of_another_run_does_not_count(self, run_history: History) -> None:
        other = take(run_history, run_id="r94")
        with pytest.raises(ValueError, match="run/r94"):
            run_history.facts.append(make_fact(), lease=other)

    def test_nothing_follows_the_end_of_a_run(self, run_history: History, lease: Lease) -> None:
        run_history.facts.append(make_fact(kind="run ended"), lease=lease)
        with pytest.raises(RunEndedError, match="r93 has ended"):
            run_history.facts.append(make_fact(kind="stop asked"), lease=None)
        with pytest.raises(RunEndedError):
            run_history.facts.append(make_fact(number=1), lease=lease)
        assert len(run_history.facts.of("r93")) == 1

    def test_a_fact_needs_its_run(self, run_history: History) -> None:
        with pytest.raises(ValueError, match="run absent"):
            run_history.facts.append(make_fact(run_id="absent", kind="stop asked"), lease=None)
        lease = take(run_history, run_id="absent")
        with pytest.raises(ValueError, match="run absent"):
            run_history.facts.append(make_fact(run_id="absent"), lease=lease)

    def test_a_supervisor_whose_lease_was_taken_over_cannot_append(self, run_history: History, lease: Lease) -> None:
        run_history.facts.append(make_fact(), lease=lease)
        second = take(run_history, holder="desktop", now=NOON + MINUTE)
        with pytest.raises(StaleLeaseError, match="taken over by desktop"):
            run_history.facts.append(make_fact(kind="machines seen", number=1), lease=lease)
        run_history.facts.append(make_fact(kind="launch refused", number=1), lease=second)
        assert [fact.kind for fact in run_history.facts.of("r93")] == ["launch intended", "launch refused"]

    def test_a_released_lease_is_no_right_to_append(self, run_history: History, lease: Lease) -> None:
        run_history.leases.release(lease)
        with pytest.raises(StaleLeaseError, match="released"):
            run_history.facts.append(make_fact(), lease=lease)

    def test_runs_that_have_not_ended_are_listed_oldest_first(self, run_history: History, lease: Lease) -> None:
        run_history.runs.add(make_run(id="r00", plan_id=None, made_at=NOON + 5 * MINUTE))
        assert run_history.facts.unended_runs() == ("r93", "r94", "r00")
        run_history.facts.append(make_fact(), lease=lease)
        other = take(run_history, run_id="r94")
        run_history.facts.append(make_fact(run_id="r94", kind="run ended"), lease=other)
        assert run_history.facts.unended_runs() == ("r93", "r00")

    def test_runs_that_have_ended_are_listed_newest_first(self, run_history: History, lease: Lease) -> None:
        assert run_history.facts.ended_runs() == ()
        run_history.runs.add(make_run(id="r00", plan_id=None, made_at=NOON + 5 * MINUTE))
        run_history.facts.append(make_fact(kind="run ended"), lease=lease)
        newest = take(run_history, run_id="r00")
        run_history.facts.append(make_fact(run_id="r00", kind="run ended"), lease=newest)
        assert run_history.facts.ended_runs() == ("r00", "r93")
        assert run_history.facts.ended_runs(limit=1) == ("r00",)


class TestObservations:
    def test_a_new_run_has_no_observations(self, run_history: History) -> None:
        assert run_history.observations.of("r93") == ()
        assert run_history.observations.last_number("r93", attempt=1, node=0) == 0
        run_history.observations.add_all([])
        assert run_history.observations.of("r93") == ()

    def test_observations_are_read_back_in_the_order_of_attempt_node_and_number(self, run_history: History) -> None:
        keys = [(2, 0, 1), (1, 1, 1), (1, 0, 10), (1, 0, 2)]
        run_history.observations.add_all(
            make_observation(attempt=attempt, node=node, number=number, values={"first": number / 3})
            for attempt, node, number in keys
        )
        found = run_history.observations.of("r93")
        assert [(each.attempt, each.node, each.number) for each in found] == sorted(keys)
        assert found[1] == make_observation(number=10, values={"first": 10 / 3})
        assert [each.attempt for each in run_history.observations.of("r93", attempt=2)] == [2]
        assert run_history.observations.of("r94") == ()

    def test_a_journal_that_is_read_twice_is_stored_once(self, run_history: History) -> None:
        journal = [make_observation(number=number, values={"first": number}) for number in range(1, 9)]
        run_history.observations.add_all(journal[:5])
        changed = make_observation(number=5, values={"first": -1})
        run_history.observations.add_all([*journal[2:4], changed, *journal[5:], journal[7]])
        assert run_history.observations.of("r93") == tuple(journal)

    def test_the_last_number_is_that_of_one_journal(self, run_history: History) -> None:
        run_history.observations.add_all(make_observation(number=number) for number in (1, 2, 3))
        run_history.observations.add_all([make_observation(attempt=2, number=7), make_observation(node=1, number=9)])
        last = run_history.observations.last_number
        assert last("r93", attempt=1, node=0) == 3
        assert last("r93", attempt=2, node=0) == 7
        assert last("r93", attempt=1, node=1) == 9
        assert last("r94", attempt=1, node=0) == 0

    def test_the_newest_entries_of_one_journal_can_be_listed(self, run_history: History) -> None:
        run_history.observations.add_all(
            make_observation(attempt=attempt, node=node, number=number)
            for attempt in (1, 2)
            for node in (0, 1)
            for number in (1, 2, 3)
        )
        found = run_history.observations.of("r93", attempt=2, node=1, after=1)
        assert [(each.attempt, each.node, each.number) for each in found] == [(2, 1, 2), (2, 1, 3)]
        assert run_history.observations.of("r93", attempt=1, node=0, after=3) == ()

    def test_some_kinds_can_be_listed(self, run_history: History) -> None:
        kinds = ("heartbeat", "message", "checkpoint", "heartbeat")
        run_history.observations.add_all(
            make_observation(number=number, kind=kind, values={}) for number, kind in enumerate(kinds, 1)
        )
        of = run_history.observations.of
        assert [each.number for each in of("r93", kinds=["heartbeat"])] == [1, 4]
        assert [each.number for each in of("r93", kinds={"message", "checkpoint"})] == [2, 3]
        assert of("r93", kinds=()) == of("r93", kinds=["message"], attempt=2) == ()

    def test_a_loss_that_is_not_finite_is_read_back_as_none(self, run_history: History) -> None:
        losses = make_observation(kind="losses", values={"first": 0, "values": [2.5, None], "text": "Zoë \x00 🚂"})
        run_history.observations.add_all([losses])
        assert run_history.observations.of("r93") == (losses,)

    def test_all_are_stored_or_none(self, run_history: History) -> None:
        with pytest.raises(ValueError, match="run absent"):
            run_history.observations.add_all([make_observation(), make_observation(run_id="absent")])
        assert run_history.observations.of("r93") == ()


class TestLeases:
    def test_a_lease_is_held_by_one_until_it_runs_out(self, history: History) -> None:
        first = history.leases.take("run/r93", holder="laptop", seconds=60, now=NOON)
        assert first == Lease(name="run/r93", holder="laptop", token=1, expires_at=NOON + MINUTE)
        just_before = NOON + timedelta(seconds=59.999)
        assert history.leases.take("run/r93", holder="desktop", seconds=60, now=just_before) is None
        second = history.leases.take("run/r93", holder="desktop", seconds=60, now=NOON + MINUTE)
        assert second is not None
        assert second.token > first.token
        assert history.leases.take("run/r93", holder="laptop", seconds=60, now=NOON + MINUTE) is None

    def test_leases_of_other_names_are_independent(self, history: History) -> None:
        for name in ("run/r93", "run/r94", "reaper"):
            assert history.leases.take(name, holder=name, seconds=60, now=NOON) is not None

    def test_a_renewed_lease_keeps_its_token_and_lasts_longer(self, history: History) -> None:
        lease = take(history)
        renewed = history.leases.renew(lease, 60, NOON + MINUTE / 2)
        assert (renewed.token, renewed.expires_at) == (lease.token, NOON + 1.5 * MINUTE)
        assert history.leases.take("run/r93", holder="desktop", seconds=60, now=NOON + MINUTE) is None
        assert history.leases.current("run/r93") == renewed

    def test_a_lease_that_ran_out_can_be_renewed_if_nobody_took_it(self, history: History) -> None:
        late = history.leases.renew(take(history), 60, NOON + 5 * MINUTE)
        assert history.leases.take("run/r93", holder="desktop", seconds=60, now=NOON + 5.5 * MINUTE) is None
        assert late.expires_at == NOON + 6 * MINUTE

    def test_a_lease_that_was_taken_over_can_neither_be_renewed_nor_released(self, history: History) -> None:
        lease = take(history)
        second = take(history, holder="desktop", now=NOON + MINUTE)
        with pytest.raises(StaleLeaseError, match="taken over by desktop") as caught:
            history.leases.renew(lease, 60, NOON + MINUTE)
        assert not isinstance(caught.value, ExternalError)
        assert caught.value.exit_code == 4
        history.leases.release(lease)
        assert history.leases.current("run/r93") == second

    def test_a_released_lease_can_be_taken_at_once_and_its_token_grows_on(self, history: History) -> None:
        lease = take(history)
        history.leases.release(lease)
        history.leases.release(lease)
        assert history.leases.current("run/r93") is None
        with pytest.raises(StaleLeaseError, match="released"):
            history.leases.renew(lease, 60, NOON)
        assert take(history, holder="desktop").token > lease.token

    def test_a_holder_that_takes_its_lease_again_makes_the_old_one_stale(self, history: History) -> None:
        lease = take(history)
        again = take(history)
        assert again.token > lease.token
        with pytest.raises(StaleLeaseError):
            history.leases.renew(lease, 60, NOON)
        assert history.leases.renew(again, 60, NOON) == again

    def test_a_lease_that_was_never_taken_is_stale(self, history: History) -> None:
        invented = Lease(name="run/r93", holder="laptop", token=5, expires_at=NOON)
        assert history.leases.current("run/r93") is None
        with pytest.raises(StaleLeaseError):
            history.leases.renew(invented, 60, NOON)
        history.leases.release(invented)


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "renew", "release", "append", "remark"]),
        st.sampled_from(["laptop", "desktop"]),
        st.integers(0, 90),
    ),
    max_size=25,
)


def play(history: History, moves: list[tuple[str, str, int]]) -> Iterator[object]:
    """What each move of two supervisors with one clock came to. Each move comes some seconds after the last."""
    leases: dict[str, Lease] = {}
    now = NOON
    for move, holder, seconds in moves:
        now += timedelta(seconds=seconds)
        lease = leases.get(holder)
        try:
            if move == "take":
                taken = history.leases.take("run/r93", holder=holder, seconds=60, now=now)
                leases |= {holder: taken} if taken else {}
                yield taken
            elif move == "remark":
                yield history.facts.append(make_fact(kind="warned", text=holder), lease=None)
            elif lease is None:
                yield None
            elif move == "renew":
                leases[holder] = history.leases.renew(lease, 60, now)
                yield leases[holder]
            elif move == "release":
                history.leases.release(lease)
                yield None
            else:
                number = len(history.facts.of("r93"))
                yield history.facts.append(make_fact(number=number, text=holder), lease=lease)
        except StaleLeaseError as error:
            yield str(error)
    yield history.facts.of("r93")
    yield history.leases.current("run/r93")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_sqlite_answers_two_supervisors_as_memory_does(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str, int]]
) -> None:
    path: Path = tmp_path_factory.mktemp("two") / "history.db"
    with open_history(str(path)) as stored, MemoryHistory() as memory:
        for history in (stored, memory):
            history.runs.add(make_run(plan_id=None))
        assert list(play(stored, moves)) == list(play(memory, moves))


@settings(max_examples=200, deadline=None)
@given(steps)
def test_only_the_holder_of_the_newest_token_ever_appends(moves: list[tuple[str, str, int]]) -> None:
    with MemoryHistory() as history:
        history.runs.add(make_run(plan_id=None))
        newest, tokens = None, []
        for (move, holder, _), answer in zip(moves, play(history, moves), strict=False):
            if move == "take" and isinstance(answer, Lease):
                newest = holder
                tokens.append(answer.token)
            if move == "append" and answer is not None and not isinstance(answer, str):
                assert holder == newest
        assert tokens == sorted(set(tokens))
        facts = history.facts.of("r93")
        assert [fact.number for fact in facts] == list(range(len(facts)))

"""The contract of every history, run over every store (memory, SQLite, PostgreSQL) and every table.

The first class of tests runs over every table, the second over every table from which nouns can be removed, the third
is about what one kind of noun has of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.makers import (
    NOON,
    make_estimate,
    make_plan,
    make_profile,
    make_program,
    make_run,
    make_submission,
)
from trainfare.errors import NotFoundError
from trainfare.model.interval import Interval
from trainfare.store.history import AlreadyStoredError, History, RemovableTable, Table
from trainfare.store.open import open_history

HOUR = timedelta(hours=1)
INDIA = timezone(timedelta(hours=5, minutes=30))


@dataclass(frozen=True, kw_only=True)
class TableCase:
    """One table of a history, and the nouns to fill it with."""

    name: str
    make: Callable[..., Any]
    moment: str
    """The field by which a list is ordered."""
    change: Mapping[str, Any]
    """A field that differs, for another noun under the same id."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """Nouns that must be in history before, by table."""
    missing: Mapping[str, Any] = field(default_factory=dict)
    """A reference to a noun that is not in history."""
    newest_first: bool = True
    restorable: bool = False
    list_command: str | None = None

    def table(self, history: History) -> Table[Any]:
        """The table, with everything that its nouns refer to already in history."""
        for name, noun in self.needs.items():
            getattr(history, name).add(noun)
        table: Table[Any] = getattr(history, self.name)
        return table


PROFILES = TableCase(
    name="profiles",
    make=make_profile,
    moment="measured_at",
    change={"micro_batch_size": 1},
    restorable=True,
    list_command="trainfare profiles list",
)
PLANS = TableCase(
    name="plans",
    make=make_plan,
    moment="made_at",
    change={"runners_up": ()},
    needs={"profiles": make_profile()},
    missing={"runners_up": (make_estimate(profile_id="absent"),)},
    list_command="trainfare plans list",
)
RUNS = TableCase(
    name="runs",
    make=make_run,
    moment="made_at",
    change={"made_at": NOON + HOUR},
    needs={"profiles": make_profile(), "plans": make_plan()},
    missing={"plan_id": "absent"},
    list_command="trainfare runs list",
)
SUBMISSIONS = TableCase(
    name="submissions",
    make=make_submission,
    moment="submitted_at",
    change={"epochs": 1},
    needs={"profiles": make_profile()},
    missing={"profile_ids": ("p7k2", "absent")},
    newest_first=False,
    list_command="trainfare queue list",
)
CASES = (PROFILES, PLANS, RUNS, SUBMISSIONS)


def every(*cases: TableCase) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


class TestEveryTable:
    @every(*CASES)
    def test_a_new_table_is_empty(self, history: History, case: TableCase) -> None:
        assert case.table(history).all() == ()
        assert history.damaged == ()

    @every(*CASES)
    def test_a_noun_is_read_back_as_it_was_added(self, history: History, case: TableCase) -> None:
        table = case.table(history)
        noun = case.make(**{case.moment: NOON.astimezone(INDIA)})
        table.add(noun)
        assert table.get(noun.id) == noun
        assert table.all() == (noun,)

    @every(*CASES)
    def test_a_list_is_ordered_by_moment_whatever_the_time_zone(self, history: History, case: TableCase) -> None:
        table = case.table(history)
        for name, age in (("x1", 2), ("x2", 0), ("x3", 1)):
            elsewhere = timezone(timedelta(hours=-8 * age))
            table.add(case.make(id=name, **{case.moment: (NOON - age * HOUR).astimezone(elsewhere)}))
        oldest_first = ["x1", "x3", "x2"]
        assert [noun.id for noun in table.all()] == (oldest_first[::-1] if case.newest_first else oldest_first)

    @every(*CASES)
    def test_a_taken_id_is_refused_and_nothing_is_overwritten(self, history: History, case: TableCase) -> None:
        table = case.table(history)
        noun = case.make()
        table.add(noun)
        for other in (noun, case.make(**case.change)):
            with pytest.raises(AlreadyStoredError) as caught:
                table.add(other)
            assert caught.value.name == noun.id
        assert table.all() == (noun,)

    @every(*CASES)
    def test_a_mistyped_id_names_the_nearest(self, history: History, case: TableCase) -> None:
        table = case.table(history)
        noun = case.make()
        table.add(noun)
        with pytest.raises(NotFoundError) as caught:
            table.get(f"{noun.id}x")
        assert caught.value.near == noun.id
        assert f"{noun.id}x" in str(caught.value)
        if case.list_command:
            assert f"`{case.list_command}` shows all" in str(caught.value)

    @every(PLANS, RUNS, SUBMISSIONS)
    def test_a_noun_that_refers_to_a_missing_one_is_refused(self, history: History, case: TableCase) -> None:
        table = case.table(history)
        with pytest.raises(ValueError, match="absent") as caught:
            table.add(case.make(**case.missing))
        assert not isinstance(caught.value, AlreadyStoredError)
        assert table.all() == ()
        table.add(case.make())
        assert table.all() == (case.make(),)


@every(PROFILES, SUBMISSIONS)
class TestEveryRemovableTable:
    @pytest.fixture
    def table(self, history: History, case: TableCase) -> RemovableTable[Any]:
        """A table with two nouns, of which the usual one has been removed."""
        case.table(history)
        table: RemovableTable[Any] = getattr(history, case.name)
        table.add(case.make())
        table.add(case.make(id="second"))
        table.remove(case.make().id)
        return table

    def test_a_removed_noun_is_no_longer_found(self, table: RemovableTable[Any], case: TableCase) -> None:
        assert [noun.id for noun in table.all()] == ["second"]
        for ask in (table.get, table.remove):
            with pytest.raises(NotFoundError) as caught:
                ask(case.make().id)
            assert caught.value.near != case.make().id

    def test_removing_a_mistyped_id_names_the_nearest(self, table: RemovableTable[Any], case: TableCase) -> None:
        with pytest.raises(NotFoundError, match="Did you mean second"):
            table.remove("seconds")
        assert [noun.id for noun in table.all()] == ["second"]

    def test_the_id_of_a_removed_noun_stays_taken(self, table: RemovableTable[Any], case: TableCase) -> None:
        with pytest.raises(AlreadyStoredError):
            table.add(case.make(**case.change))
        assert [noun.id for noun in table.all()] == ["second"]

    def test_adding_a_removed_noun_unchanged_restores_it_if_its_kind_allows_that(
        self, table: RemovableTable[Any], case: TableCase
    ) -> None:
        noun = case.make()
        if not case.restorable:
            with pytest.raises(AlreadyStoredError):
                table.add(noun)
            return
        for _ in range(2):
            table.add(noun)
            assert table.get(noun.id) == noun
            assert noun in table.all()
            table.remove(noun.id)
            assert noun not in table.all()


class TestEachNoun:
    @pytest.fixture
    def full(self, history: History) -> History:
        """A history with one profile, one plan and one run."""
        history.profiles.add(make_profile())
        history.plans.add(make_plan())
        history.runs.add(make_run())
        return history

    def test_a_new_history_has_no_estimates(self, history: History) -> None:
        assert history.estimates.of("p7k2") == ()

    def test_a_profile_with_unusual_text_and_numbers_is_read_back(self, history: History) -> None:
        profile = make_profile(
            program=make_program(command=("python", "train.py", "--name", "Zoë's \x00 “run” \\ 🚂")),
            loss=(2.3, None, 1e-300),
        )
        history.profiles.add(profile)
        assert history.profiles.get(profile.id) == profile

    def test_submissions_with_and_without_optional_fields_are_read_back(self, history: History) -> None:
        history.profiles.add(make_profile())
        history.profiles.add(make_profile(id="p8"))
        plain = make_submission(id="s1", deadline_at=None, late_usd_per_hour=0.0, epochs=None, user="")
        complete = make_submission(
            profile_ids=("p8", "p7k2"),
            program="Zoë's “run” \x00 🚂",
            iterations_per_epoch=7,
            most_gpus=4,
            late_usd_per_hour=1e-300,
        )
        for submission in (plain, complete):
            history.submissions.add(submission)
            assert history.submissions.get(submission.id) == submission
        assert set(history.submissions.all()) == {plain, complete}

    def test_nouns_that_refer_to_a_removed_one_stay(self, history: History) -> None:
        history.profiles.add(make_profile())
        history.plans.add(make_plan())
        history.submissions.add(make_submission())
        history.profiles.remove("p7k2")
        history.submissions.add(make_submission(id="later"))
        assert history.plans.get("n4t9") == make_plan()
        assert len(history.estimates.of("p7k2")) == 2
        assert {submission.id for submission in history.submissions.all()} == {"s5j8", "later"}

    def test_a_plan_is_read_back_with_its_runners_up_in_order(self, history: History) -> None:
        history.profiles.add(make_profile())
        runners_up = tuple(make_estimate(usd=Interval.within_factor(1 + n / 7, 2)) for n in range(30))
        plan = make_plan(runners_up=runners_up, considered=31)
        history.plans.add(plan)
        assert history.plans.get(plan.id) == plan
        assert history.plans.all() == (plan,)
        assert history.estimates.of("p7k2") == (plan.chosen, *runners_up)

    def test_a_plan_without_runners_up_is_read_back(self, history: History) -> None:
        history.profiles.add(make_profile())
        history.plans.add(make_plan(runners_up=()))
        assert history.plans.get("n4t9") == make_plan(runners_up=())

    def test_estimates_are_listed_newest_plan_first(self, history: History) -> None:
        history.profiles.add(make_profile())
        old = make_plan(id="old", made_at=NOON - HOUR, chosen=make_estimate(epochs=1), runners_up=())
        new = make_plan(id="new", made_at=NOON, chosen=make_estimate(epochs=2), runners_up=())
        history.plans.add(old)
        history.plans.add(new)
        assert history.plans.all() == (new, old)
        assert history.estimates.of("p7k2") == (new.chosen, old.chosen)

    def test_estimates_are_those_of_one_profile(self, history: History) -> None:
        history.profiles.add(make_profile())
        history.profiles.add(make_profile(id="p8"))
        other = make_estimate(profile_id="p8")
        history.plans.add(make_plan(runners_up=(other,)))
        assert history.estimates.of("p8") == (other,)

    def test_a_refused_plan_leaves_no_estimates(self, full: History) -> None:
        with pytest.raises(ValueError, match="profile p8"):
            full.plans.add(make_plan(id="n5", runners_up=(make_estimate(profile_id="p8"),)))
        with pytest.raises(AlreadyStoredError, match="n4t9"):
            full.plans.add(make_plan(runners_up=()))
        assert full.plans.all() == (make_plan(),)
        assert len(full.estimates.of("p7k2")) == 2

    def test_a_run_of_a_program_that_was_never_profiled_needs_no_plan(self, history: History) -> None:
        run = make_run(plan_id=None, estimate=None)
        history.runs.add(run)
        assert history.runs.get("r93") == run

    def test_a_history_can_be_used_in_a_with_statement(self, history: History) -> None:
        with history as same:
            assert same is history


@pytest.fixture
def sqlite_history(tmp_path: Path) -> Iterator[History]:
    with open_history(str(tmp_path / "history.db")) as history:
        yield history


def test_threads_that_write_at_once_wait_for_each_other(sqlite_history: History) -> None:
    names = {f"p{number}" for number in range(80)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: sqlite_history.profiles.add(make_profile(id=name)), names))
    assert {profile.id for profile in sqlite_history.profiles.all()} == names


def test_another_connection_sees_what_was_added(sqlite_history: History, tmp_path: Path) -> None:
    with open_history(str(tmp_path / "history.db")) as other:
        sqlite_history.profiles.add(make_profile())
        assert other.profiles.all() == (make_profile(),)

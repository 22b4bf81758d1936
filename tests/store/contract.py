"""What every history promises; each implementation inherits these tests, memory first."""

from datetime import timedelta, timezone

import pytest

from tests.makers import (
    NOON,
    make_estimate,
    make_observation,
    make_plan,
    make_profile,
    make_program,
    make_run,
    make_submission,
)
from trainfare.errors import NotFoundError
from trainfare.model.interval import Interval
from trainfare.store.history import AlreadyKept, History

HOUR = timedelta(hours=1)


class HistoryContract:
    @pytest.fixture
    def history(self) -> History:
        raise NotImplementedError("each implementation gives its own")

    @pytest.fixture
    def full(self, history: History) -> History:
        """With one profile, one plan and one run."""
        history.add_profile(make_profile())
        history.add_plan(make_plan())
        history.add_run(make_run())
        return history

    def test_a_new_history_is_empty(self, history: History) -> None:
        assert not history.profiles()
        assert not history.plans()
        assert not history.runs()
        assert not history.submissions()
        assert not history.estimates("p7k2")
        assert not history.observations("r93")
        assert not history.damaged

    def test_a_profile_comes_back_as_it_was(self, history: History) -> None:
        profile = make_profile(
            program=make_program(command=("python", "train.py", "--name", "Zoë's \x00 “run” \\ 🚂")),
            measured_at=NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
            loss=(2.3, None, 1e-300),
        )
        history.add_profile(profile)
        assert history.profile(profile.id) == profile
        assert history.profiles() == (profile,)

    def test_profiles_come_newest_first(self, history: History) -> None:
        for name, age in (("p1", 2), ("p2", 0), ("p3", 1)):
            elsewhere = timezone(timedelta(hours=-8 * age))
            history.add_profile(make_profile(id=name, measured_at=(NOON - age * HOUR).astimezone(elsewhere)))
        assert [profile.id for profile in history.profiles()] == ["p2", "p3", "p1"]

    def test_a_taken_id_is_refused_and_nothing_is_overwritten(self, history: History) -> None:
        history.add_profile(make_profile())
        with pytest.raises(AlreadyKept, match="p7k2"):
            history.add_profile(make_profile(micro_batch_size=1))
        with pytest.raises(AlreadyKept, match="p7k2"):
            history.add_profile(make_profile())
        assert history.profiles() == (make_profile(),)

    def test_a_mistyped_id_names_the_nearest(self, history: History) -> None:
        history.add_profile(make_profile())
        with pytest.raises(NotFoundError) as caught:
            history.profile("p7kk2")
        assert str(caught.value) == (
            "there is no profile p7kk2. Did you mean p7k2? `trainfare profiles list` shows all."
        )

    def test_a_removed_profile_is_gone_from_sight(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_profile(make_profile(id="p8"))
        history.remove_profile("p7k2")
        assert [profile.id for profile in history.profiles()] == ["p8"]
        for ask in (history.profile, history.remove_profile):
            with pytest.raises(NotFoundError) as caught:
                ask("p7k2")
            assert caught.value.near != "p7k2"

    def test_removing_what_is_not_there_names_the_nearest(self, history: History) -> None:
        history.add_profile(make_profile())
        with pytest.raises(NotFoundError, match="Did you mean p7k2"):
            history.remove_profile("p7k")

    def test_the_id_of_a_removed_profile_stays_taken(self, history: History) -> None:
        history.add_profile(make_profile())
        history.remove_profile("p7k2")
        with pytest.raises(AlreadyKept):
            history.add_profile(make_profile(micro_batch_size=1))

    def test_a_removed_profile_can_be_brought_back(self, history: History) -> None:
        history.add_profile(make_profile())
        for _ in range(2):
            history.remove_profile("p7k2")
            history.add_profile(make_profile())
            assert history.profile("p7k2") == make_profile()
        assert history.profiles() == (make_profile(),)

    def test_estimates_outlive_the_removal_of_their_profile(self, full: History) -> None:
        full.remove_profile("p7k2")
        assert full.plan("n4t9") == make_plan()
        assert len(full.estimates("p7k2")) == 2

    def test_a_plan_comes_back_with_its_runners_up_in_order(self, history: History) -> None:
        history.add_profile(make_profile())
        runners_up = tuple(make_estimate(usd=Interval.within_factor(1 + n / 7, 2)) for n in range(30))
        plan = make_plan(runners_up=runners_up, considered=31)
        history.add_plan(plan)
        assert history.plan(plan.id) == plan
        assert history.estimates("p7k2") == (plan.chosen, *runners_up)

    def test_a_plan_without_runners_up_comes_back(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_plan(make_plan(runners_up=()))
        assert history.plan("n4t9") == make_plan(runners_up=())

    def test_plans_come_newest_first_and_so_do_estimates(self, history: History) -> None:
        history.add_profile(make_profile())
        old = make_plan(id="old", made_at=NOON - HOUR, chosen=make_estimate(epochs=1), runners_up=())
        new = make_plan(id="new", made_at=NOON, chosen=make_estimate(epochs=2), runners_up=())
        history.add_plan(old)
        history.add_plan(new)
        assert history.plans() == (new, old)
        assert history.estimates("p7k2") == (new.chosen, old.chosen)

    def test_estimates_are_those_of_one_profile(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_profile(make_profile(id="p8"))
        other = make_estimate(profile_id="p8")
        history.add_plan(make_plan(runners_up=(other,)))
        assert history.estimates("p8") == (other,)

    def test_a_plan_needs_its_profiles(self, history: History) -> None:
        history.add_profile(make_profile())
        with pytest.raises(ValueError, match="profile p8"):
            history.add_plan(make_plan(runners_up=(make_estimate(profile_id="p8"),)))
        assert history.plans() == ()
        assert history.estimates("p7k2") == ()

    def test_a_taken_plan_id_is_refused_and_nothing_is_added(self, full: History) -> None:
        with pytest.raises(AlreadyKept, match="n4t9"):
            full.add_plan(make_plan(runners_up=()))
        assert full.plans() == (make_plan(),)
        assert len(full.estimates("p7k2")) == 2

    def test_a_plan_that_is_not_there_is_not_found(self, full: History) -> None:
        with pytest.raises(NotFoundError, match="Did you mean n4t9"):
            full.plan("n4t8")

    def test_a_run_comes_back(self, full: History) -> None:
        later = make_run(id="r94", started_at=NOON + HOUR)
        full.add_run(later)
        assert full.run("r93") == make_run()
        assert full.runs() == (later, make_run())
        with pytest.raises(NotFoundError, match="Did you mean r9"):
            full.run("r92")

    def test_a_run_needs_its_plan_and_a_new_id(self, full: History) -> None:
        with pytest.raises(ValueError, match="plan n5"):
            full.add_run(make_run(id="r94", plan_id="n5"))
        with pytest.raises(AlreadyKept, match="r93"):
            full.add_run(make_run())
        assert full.runs() == (make_run(),)

    def test_observations_come_in_the_order_of_their_numbers(self, full: History) -> None:
        full.add_run(make_run(id="r94"))
        for number in (10, 2, 0):
            full.add_observation(make_observation(number=number, value=number / 3))
        full.add_observation(make_observation(run_id="r94", fact="message", value=None, text="hello"))
        assert [seen.number for seen in full.observations("r93")] == [0, 2, 10]
        assert full.observations("r93")[2] == make_observation(number=10, value=10 / 3)
        assert full.observations("r94")[0].text == "hello"

    def test_an_observation_needs_its_run_and_a_new_number(self, full: History) -> None:
        full.add_observation(make_observation())
        with pytest.raises(AlreadyKept, match="r93/0"):
            full.add_observation(make_observation(value=9.0))
        with pytest.raises(ValueError, match="run r95"):
            full.add_observation(make_observation(run_id="r95"))
        assert full.observations("r93") == (make_observation(),)

    def test_a_submission_comes_back_as_it_was(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_profile(make_profile(id="p8"))
        plain = make_submission(id="s1", deadline_at=None, late_usd_per_hour=0.0, epochs=None, user="")
        full = make_submission(
            profile_ids=("p8", "p7k2"),
            program="Zoë's “run” \x00 🚂",
            submitted_at=NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
            iterations_per_epoch=7,
            most_gpus=4,
            late_usd_per_hour=1e-300,
        )
        for submission in (plain, full):
            history.add_submission(submission)
            assert history.submission(submission.id) == submission
        assert set(history.submissions()) == {plain, full}

    def test_submissions_come_in_the_order_of_their_submission(self, history: History) -> None:
        history.add_profile(make_profile())
        for name, age in (("s1", 1), ("s2", 2), ("s3", 0)):
            elsewhere = timezone(timedelta(hours=-8 * age))
            history.add_submission(make_submission(id=name, submitted_at=(NOON - age * HOUR).astimezone(elsewhere)))
        assert [submission.id for submission in history.submissions()] == ["s2", "s1", "s3"]

    def test_a_submission_needs_its_profiles_and_a_new_id(self, history: History) -> None:
        history.add_profile(make_profile())
        with pytest.raises(ValueError, match=r"submission s5j8 leans on .*profile p8"):
            history.add_submission(make_submission(profile_ids=("p7k2", "p8")))
        assert history.submissions() == ()
        history.add_submission(make_submission())
        with pytest.raises(AlreadyKept, match="s5j8"):
            history.add_submission(make_submission(epochs=1))
        assert history.submissions() == (make_submission(),)

    def test_a_withdrawn_submission_no_longer_waits(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_submission(make_submission())
        history.add_submission(make_submission(id="s6"))
        history.withdraw_submission("s5j8")
        assert [submission.id for submission in history.submissions()] == ["s6"]
        for ask in (history.submission, history.withdraw_submission):
            with pytest.raises(NotFoundError) as caught:
                ask("s5j8")
            assert caught.value.near != "s5j8"
        with pytest.raises(AlreadyKept):
            history.add_submission(make_submission())

    def test_a_mistyped_submission_names_the_nearest(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_submission(make_submission())
        with pytest.raises(NotFoundError) as caught:
            history.withdraw_submission("s5j9")
        assert str(caught.value) == (
            "there is no submission s5j9. Did you mean s5j8? `trainfare schedule queue` shows all."
        )

    def test_a_submission_outlives_the_removal_of_its_profile(self, history: History) -> None:
        history.add_profile(make_profile())
        history.add_submission(make_submission())
        history.remove_profile("p7k2")
        assert history.submissions() == (make_submission(),)

    def test_it_can_be_used_in_a_with_statement(self, history: History) -> None:
        with history as same:
            assert same is history

"""From what was logged to a Profile, with nothing invented on the way."""

from pathlib import Path
from typing import Any

import pytest

from tests.makers import NOON
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_of
from trainfare.profiler.past_runs.run_log import Logged, Stated
from trainfare.profiler.past_runs.series import Scalars


def make_scalars(**columns: dict[int, tuple[float, float]]) -> Scalars:
    """By name, at each step: value and moment."""
    scalars = Scalars()
    for name, points in columns.items():
        for step, (value, moment) in points.items():
            scalars.add(name, step, value, moment)
    return scalars


def make_logged(**changes: Any) -> Logged:
    fields: dict[str, Any] = {"origin": "csv", "source": Path("runs/a"), "ended_at": NOON}
    return Logged(**(fields | changes))


def profiled(logged: Logged, **stated: Any) -> Profile:
    return profile_of(logged, Stated(**stated), id="p1")[0]


def noted(logged: Logged, **stated: Any) -> str:
    return " ".join(profile_of(logged, Stated(**stated), id="p1")[1])


def steady(steps: range, seconds: float = 1.0) -> dict[int, tuple[float, float]]:
    return {step: (1 / (step + 1), step * seconds) for step in steps}


def test_what_nobody_said_is_absent() -> None:
    profile = profiled(make_logged(by_step=make_scalars(loss=steady(range(5)))))
    assert (profile.micro_batch_size, profile.samples, profile.epochs, profile.iterations_per_epoch) == (None,) * 4
    assert (profile.device, profile.host.vm_type, profile.run_seconds, profile.curve) == (None, None, None, ())
    assert (profile.framework, profile.host.name, profile.program.command) == ("unknown", "unknown", ("a",))


def test_what_the_user_says_counts_more_than_what_the_log_says() -> None:
    logged = make_logged(
        by_step=make_scalars(loss=steady(range(5))), settings={"batch_size": "32", "epochs": 3}, framework="keras"
    )
    found = profiled(logged)
    assert (found.micro_batch_size, found.epochs, found.framework) == (32, 3, "keras")
    stated = profiled(
        logged, micro_batch_size=64, epochs=9, framework="jax", on="aws/g5.xlarge", command=("python", "t.py")
    )
    assert (stated.micro_batch_size, stated.epochs, stated.framework) == (64, 9, "jax")
    assert (stated.host.vm_type, stated.program.name) == ("aws/g5.xlarge", "t.py")


def test_settings_that_contradict_each_other_say_nothing() -> None:
    logged = make_logged(
        by_step=make_scalars(loss=steady(range(5))), settings={"batch_size": 32, "train_batch_size": 64}
    )
    assert profiled(logged).micro_batch_size is None


def test_the_first_logged_step_starts_the_clock() -> None:
    profile = profiled(make_logged(by_step=make_scalars(loss=steady(range(5), seconds=2.0))))
    assert profile.iteration_seconds == (2.0,) * 4
    assert profile.loss == (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5)


def test_where_every_tenth_step_is_logged_an_entry_is_a_mean_and_other_losses_are_unknown() -> None:
    profile = profiled(make_logged(by_step=make_scalars(loss=steady(range(10, 50, 10), seconds=0.5))))
    assert profile.iteration_seconds == (0.5,) * 3
    assert len(profile.loss) == 40
    assert [i for i, value in enumerate(profile.loss) if value is not None] == [9, 19, 29, 39]
    assert profile.run_iterations == 40


def test_a_validation_between_two_steps_is_not_in_the_time_of_an_iteration() -> None:
    loss = {step: (1.0, step + (3.0 if step >= 3 else 0.0)) for step in range(6)}
    profile = profiled(make_logged(by_step=make_scalars(loss=loss, val_accuracy={2: (0.9, 5.0)})))
    assert profile.iteration_seconds == (1.0,) * 4
    assert profile.validation_seconds == (3.0,)


def test_steps_that_were_all_validated_are_epochs() -> None:
    logged = make_logged(by_step=make_scalars(loss=steady(range(4), 60.0), val_loss=steady(range(4), 60.0)))
    profile = profiled(logged)
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert [epoch.seconds for epoch in profile.curve] == [None, 60.0, 60.0, 60.0]
    assert profile.curve[1].loss == 0.5
    assert profile.curve[1].metrics == {"val_loss": 0.5}
    assert (profile.iteration_seconds, profile.loss) == ((), ())


def test_steps_that_move_with_the_logged_epoch_are_epochs() -> None:
    epochs = {step: (float(step), float(step)) for step in range(1, 4)}
    profile = profiled(make_logged(by_step=make_scalars(loss=steady(range(1, 4)), epoch=epochs)))
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3]
    assert profile.iteration_seconds == ()


def test_where_nothing_tells_a_step_is_an_iteration_and_that_is_said() -> None:
    logged = make_logged(by_step=make_scalars(loss=steady(range(4))))
    assert "--steps-are epochs" in noted(logged)
    assert "--steps-are" not in noted(logged, steps_are="iterations")
    assert len(profiled(logged, steps_are="epochs").curve) == 4


def test_epochs_that_were_timed_and_not_validated_are_iterations_once_their_number_is_known() -> None:
    logged = make_logged(by_step=make_scalars(loss=steady(range(4), 60.0)), axis="epochs")
    assert profiled(logged).iteration_seconds == ()
    assert profiled(logged, iterations_per_epoch=100).iteration_seconds == (0.6,) * 3
    assert profiled(logged, iterations_per_epoch=100).run_iterations == 400


def test_the_length_of_an_epoch_follows_from_the_epochs_beside_the_steps() -> None:
    loss = steady(range(25))
    whole = {step: (float(step // 10), float(step)) for step in range(25)}
    parts = {step: (step / 12, float(step)) for step in range(1, 25)}
    assert profiled(make_logged(by_step=make_scalars(loss=loss, epoch=whole))).iterations_per_epoch == 10
    assert profiled(make_logged(by_step=make_scalars(loss=loss, epoch=parts))).iterations_per_epoch == 12


def test_a_length_that_sparse_logs_only_suggest_is_unknown() -> None:
    """Epochs of 12, every fifth step logged."""
    steps = range(0, 48, 5)
    epochs = {step: (float(step // 12), float(step)) for step in steps}
    logged = make_logged(by_step=make_scalars(loss=steady(steps), epoch=epochs))
    assert profiled(logged).iterations_per_epoch is None
    assert len(profiled(logged).curve) == 4


def test_with_a_stated_length_steps_fall_into_epochs() -> None:
    logged = make_logged(by_step=make_scalars(loss=steady(range(20)), val_acc={10: (0.5, 9.5), 20: (0.7, 19.5)}))
    curve = profiled(logged, iterations_per_epoch=10).curve
    assert [epoch.metrics for epoch in curve] == [{"val_acc": 0.5}, {"val_acc": 0.7}]
    assert [epoch.seconds for epoch in curve] == [None, 10.0]


def test_losses_that_are_not_finite_are_none() -> None:
    points = {0: (1.0, 0.0), 1: (float("nan"), 1.0), 2: (float("inf"), 2.0), 3: (0.5, 3.0)}
    assert profiled(make_logged(by_step=make_scalars(loss=points))).loss == (1.0, None, None, 0.5)


def test_several_losses_are_asked_about_and_time_is_still_known() -> None:
    logged = make_logged(by_step=make_scalars(loss_g=steady(range(5)), loss_d=steady(range(5))))
    assert "--loss: loss_g, loss_d" in noted(logged)
    assert profiled(logged).loss == ()
    assert len(profiled(logged).iteration_seconds) == 4
    assert len(profiled(logged, loss="loss_d").loss) == 5


def test_a_loss_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(ValueError, match=r"no 'lozz'; it has loss"):
        profiled(make_logged(by_step=make_scalars(loss=steady(range(5)))), loss="lozz")


def test_a_log_without_anything_of_training_is_refused() -> None:
    with pytest.raises(ValueError, match="no time, no loss"):
        profiled(make_logged())


def test_a_resumed_run_has_no_wall_time() -> None:
    scalars = make_scalars(loss=steady(range(5)))
    scalars.add("loss", 3, 0.1, 103.0)
    logged = make_logged(by_step=scalars, started=0.0, ended=103.0)
    assert profiled(logged).run_seconds is None
    assert "logged again once" in noted(logged)


def test_what_a_time_stands_for_is_said_where_there_are_times() -> None:
    sparse = make_scalars(loss=steady(range(0, 50, 10)))
    assert "every 10 iterations" in noted(make_logged(by_step=sparse))
    timeless = Scalars()
    for step in range(0, 50, 10):
        timeless.add("loss", step, 1.0)
    assert noted(make_logged(by_step=timeless)) == ""


def test_a_clock_that_went_backwards_is_told() -> None:
    points = {0: (1.0, 50.0), 1: (1.0, 51.0), 2: (1.0, 20.0), 3: (1.0, 21.0)}
    assert "went backwards once" in noted(make_logged(by_step=make_scalars(loss=points)))

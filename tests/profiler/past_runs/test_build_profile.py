"""The Profile built from the log of a past run contains only what the log or the user says."""

from pathlib import Path
from typing import Any

import pytest

from tests.makers import NOON
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.run_log import RunLog, RunOverrides
from trainfare.profiler.past_runs.series import Scalars


def make_scalars(**columns: dict[int, tuple[float, float]]) -> Scalars:
    """Series by name: value and timestamp at each step."""
    scalars = Scalars()
    for name, points in columns.items():
        for step, (value, timestamp) in points.items():
            scalars.add(name, step, value, timestamp)
    return scalars


def make_log(**changes: Any) -> RunLog:
    fields: dict[str, Any] = {"origin": "csv", "source": Path("runs/a"), "ended_at": NOON}
    return RunLog(**(fields | changes))


def profiled(log: RunLog, **overrides: Any) -> Profile:
    return profile_from_log(log, RunOverrides(**overrides), id="p1")[0]


def notes_of(log: RunLog, **overrides: Any) -> str:
    return " ".join(profile_from_log(log, RunOverrides(**overrides), id="p1")[1])


def steady(steps: range, seconds: float = 1.0) -> dict[int, tuple[float, float]]:
    return {step: (1 / (step + 1), step * seconds) for step in steps}


def test_unknown_facts_are_none() -> None:
    profile = profiled(make_log(by_step=make_scalars(loss=steady(range(5)))))
    assert (profile.micro_batch_size, profile.samples, profile.epochs, profile.iterations_per_epoch) == (None,) * 4
    assert (profile.device, profile.host.vm_type, profile.run_seconds, profile.curve) == (None, None, None, ())
    assert (profile.framework, profile.host.name, profile.program.command) == ("unknown", "unknown", ("a",))


def test_arguments_of_the_user_override_the_log() -> None:
    log = make_log(
        by_step=make_scalars(loss=steady(range(5))), settings={"batch_size": "32", "epochs": 3}, framework="keras"
    )
    found = profiled(log)
    assert (found.micro_batch_size, found.epochs, found.framework) == (32, 3, "keras")
    overrides = profiled(log, batch_size=64, epochs=9, framework="jax", on="aws/g5.xlarge", command=("python", "t.py"))
    assert (overrides.micro_batch_size, overrides.epochs, overrides.framework) == (64, 9, "jax")
    assert (overrides.host.vm_type, overrides.program.name) == ("aws/g5.xlarge", "t.py")


def test_contradicting_settings_are_ignored() -> None:
    log = make_log(by_step=make_scalars(loss=steady(range(5))), settings={"batch_size": 32, "train_batch_size": 64})
    assert profiled(log).micro_batch_size is None


def test_first_logged_step_only_starts_the_clock() -> None:
    profile = profiled(make_log(by_step=make_scalars(loss=steady(range(5), seconds=2.0))))
    assert profile.iteration_seconds == (2.0,) * 4
    assert profile.loss == (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5)


def test_every_tenth_step_logged_gives_means_and_unknown_losses() -> None:
    profile = profiled(make_log(by_step=make_scalars(loss=steady(range(10, 50, 10), seconds=0.5))))
    assert profile.iteration_seconds == (0.5,) * 3
    assert len(profile.loss) == 40
    assert [i for i, value in enumerate(profile.loss) if value is not None] == [9, 19, 29, 39]
    assert profile.run_iterations == 40


def test_validation_between_two_steps_is_not_in_the_iteration_time() -> None:
    loss = {step: (1.0, step + (3.0 if step >= 3 else 0.0)) for step in range(6)}
    profile = profiled(make_log(by_step=make_scalars(loss=loss, val_accuracy={2: (0.9, 5.0)})))
    assert profile.iteration_seconds == (1.0,) * 4
    assert profile.validation_seconds == (3.0,)


def test_a_log_with_a_validation_in_every_line_still_tells_the_time_of_an_iteration() -> None:
    lines = make_scalars(loss=steady(range(100, 500, 100), 0.6), val_loss=steady(range(100, 500, 100), 0.6))
    profile = profiled(make_log(by_step=lines))
    assert profile.iteration_seconds == pytest.approx((0.6,) * 3)
    assert profile.validation_seconds == ()
    told = profiled(make_log(by_step=lines, validation_seconds=(10.0, 10.0, 10.0)))
    assert told.iteration_seconds == pytest.approx((0.5,) * 3)
    assert told.validation_seconds == (10.0, 10.0, 10.0)


def test_steps_with_a_validation_each_are_epochs() -> None:
    log = make_log(by_step=make_scalars(loss=steady(range(4), 60.0), val_loss=steady(range(4), 60.0)))
    profile = profiled(log)
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3, 4]
    assert [epoch.seconds for epoch in profile.curve] == [None, 60.0, 60.0, 60.0]
    assert profile.curve[1].loss == 0.5
    assert profile.curve[1].metrics == {"val_loss": 0.5}
    assert (profile.iteration_seconds, profile.loss) == ((), ())


def test_steps_equal_to_the_logged_epoch_are_epochs() -> None:
    epochs = {step: (float(step), float(step)) for step in range(1, 4)}
    profile = profiled(make_log(by_step=make_scalars(loss=steady(range(1, 4)), epoch=epochs)))
    assert [epoch.number for epoch in profile.curve] == [1, 2, 3]
    assert profile.iteration_seconds == ()


def test_ambiguous_steps_are_taken_for_iterations_with_a_note() -> None:
    log = make_log(by_step=make_scalars(loss=steady(range(4))))
    assert "set steps_are to epochs" in notes_of(log)
    assert "steps_are" not in notes_of(log, steps_are="iterations")
    assert len(profiled(log, steps_are="epochs").curve) == 4


def test_timed_epochs_give_iteration_times_once_their_length_is_known() -> None:
    log = make_log(by_step=make_scalars(loss=steady(range(4), 60.0)), axis="epochs")
    assert profiled(log).iteration_seconds == ()
    assert profiled(log, iterations_per_epoch=100).iteration_seconds == (0.6,) * 3
    assert profiled(log, iterations_per_epoch=100).run_iterations == 400


def test_length_of_an_epoch_follows_from_logged_epochs() -> None:
    loss = steady(range(25))
    integers = {step: (float(step // 10), float(step)) for step in range(25)}
    fractions = {step: (step / 12, float(step)) for step in range(1, 25)}
    assert profiled(make_log(by_step=make_scalars(loss=loss, epoch=integers))).iterations_per_epoch == 10
    assert profiled(make_log(by_step=make_scalars(loss=loss, epoch=fractions))).iterations_per_epoch == 12


def test_length_of_an_epoch_is_unknown_if_a_sparse_log_only_suggests_it() -> None:
    """Epochs of 12, every fifth step logged."""
    steps = range(0, 48, 5)
    epochs = {step: (float(step // 12), float(step)) for step in steps}
    log = make_log(by_step=make_scalars(loss=steady(steps), epoch=epochs))
    assert profiled(log).iterations_per_epoch is None
    assert len(profiled(log).curve) == 4


def test_given_length_assigns_steps_to_epochs() -> None:
    log = make_log(by_step=make_scalars(loss=steady(range(20)), val_acc={10: (0.5, 9.5), 20: (0.7, 19.5)}))
    curve = profiled(log, iterations_per_epoch=10).curve
    assert [epoch.metrics for epoch in curve] == [{"val_acc": 0.5}, {"val_acc": 0.7}]
    assert [epoch.seconds for epoch in curve] == [None, 10.0]


def test_losses_that_are_not_finite_are_none() -> None:
    points = {0: (1.0, 0.0), 1: (float("nan"), 1.0), 2: (float("inf"), 2.0), 3: (0.5, 3.0)}
    assert profiled(make_log(by_step=make_scalars(loss=points))).loss == (1.0, None, None, 0.5)


def test_ambiguous_losses_are_noted_and_times_are_still_known() -> None:
    log = make_log(by_step=make_scalars(loss_g=steady(range(5)), loss_d=steady(range(5))))
    assert "set loss to one of loss_g, loss_d" in notes_of(log)
    assert profiled(log).loss == ()
    assert len(profiled(log).iteration_seconds) == 4
    assert len(profiled(log, loss="loss_d").loss) == 5


def test_unknown_loss_is_refused_with_the_known_names() -> None:
    with pytest.raises(UsageError, match=r"no 'lozz'; it has loss") as refusal:
        profiled(make_log(by_step=make_scalars(loss=steady(range(5)))), loss="lozz")
    assert refusal.value.field == "loss"


def test_log_without_training_data_is_refused() -> None:
    with pytest.raises(ValueError, match="no time, no loss"):
        profiled(make_log())


def test_resumed_run_has_no_run_time() -> None:
    scalars = make_scalars(loss=steady(range(5)))
    scalars.add("loss", 3, 0.1, 103.0)
    log = make_log(by_step=scalars, started=0.0, ended=103.0)
    assert profiled(log).run_seconds is None
    assert "logged again once" in notes_of(log)


def test_averaged_times_are_noted() -> None:
    sparse = make_scalars(loss=steady(range(0, 50, 10)))
    assert "every 10 iterations" in notes_of(make_log(by_step=sparse))
    timeless = Scalars()
    for step in range(0, 50, 10):
        timeless.add("loss", step, 1.0)
    assert notes_of(make_log(by_step=timeless)) == ""


def test_clock_that_went_backwards_is_noted() -> None:
    points = {0: (1.0, 50.0), 1: (1.0, 51.0), 2: (1.0, 20.0), 3: (1.0, 21.0)}
    assert "went backwards once" in notes_of(make_log(by_step=make_scalars(loss=points)))

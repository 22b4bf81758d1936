"""The decision how long to train."""

import math

from trainfare.app.recommending.workload import TrainingLength
from trainfare.app.stated import StatedLength
from trainfare.errors import InfeasibleError, Remedy
from trainfare.estimator.epochs.profile_epochs import epochs_to_target, expected_epochs
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.interval import Interval
from trainfare.model.plan import Target
from trainfare.model.profile import Profile
from trainfare.recommender.explain.codes import reason

ASSUMED_EPOCHS = 10
OWN_NUMBER = {"epochs": "N"}
"""The argument with which the user sets the number of epochs."""


def decide_epochs(
    stated: StatedLength,
    profile: Profile,
    iterations_per_epoch: int,
    *,
    leading: Profile | None = None,
    target: Target | None = None,
) -> TrainingLength:
    """The length of the training by the first rule that applies: the user states it; until the target is reached; the
    program states it; early stopping, the learning-rate schedule or the curve of the metric imply it; an assumption.

    This is the only place where it is decided. `leading` is the profile at whose batch size stated steps are counted,
    by default this one.
    """
    steps = stated.steps_of(profile, leading or profile)
    if steps is not None:
        return _iterations(steps, iterations_per_epoch)
    if stated.epochs is not None:
        return epochs_length(stated.epochs, iterations_per_epoch)
    if target is not None:
        return _until(profile, target)
    if profile.planned_iterations and profile.early_stopping is None:  # the program's epochs are the same, rounded up
        return _iterations(profile.planned_iterations, iterations_per_epoch)
    expected = expected_epochs(profile)
    if expected.rounded is None:
        return TrainingLength(
            epochs=ASSUMED_EPOCHS,
            reason=reason("assumptions", "epochs_assumed", OWN_NUMBER, epochs=ASSUMED_EPOCHS),
        )
    if expected.rule == "program":
        return TrainingLength(epochs=expected.rounded)
    return _expected(expected, expected.rounded)


def epochs_length(epochs: float, iterations_per_epoch: int) -> TrainingLength:
    """A number of epochs, of which the last may be incomplete."""
    if epochs == int(epochs):
        return TrainingLength(epochs=int(epochs))
    return _iterations(max(1, round(epochs * iterations_per_epoch)), iterations_per_epoch)


def _iterations(iterations: int, iterations_per_epoch: int) -> TrainingLength:
    return TrainingLength(epochs=math.ceil(iterations / iterations_per_epoch), iterations=iterations)


def _until(profile: Profile, target: Target) -> TrainingLength:
    answer = epochs_to_target(profile, target.value, metric=target.metric)
    if answer.rounded is None:
        raise InfeasibleError(
            f"The number of epochs until {target.metric} is {target.value:g} cannot be predicted: {answer.why}. "
            "Profile more epochs, or state the number.",
            remedies=[
                Remedy({"epochs": 10}, command="profile", program=profile.program.command_line),
                Remedy(OWN_NUMBER),
            ],
        )
    return _expected(answer, answer.rounded)


def _expected(answer: EpochsAnswer, epochs: int) -> TrainingLength:
    low, high = max(1, math.floor(answer.low or 1)), math.ceil(answer.high or 1)
    uncertain = low < high
    return TrainingLength(
        epochs=epochs,
        epochs_interval=Interval(value=epochs, low=low, high=high) if uncertain else None,
        reason=reason(
            "assumptions",
            "epochs_expected",
            OWN_NUMBER,
            epochs=epochs,
            low=low if uncertain else None,
            high=high if uncertain else None,
            rule=answer.rule,
            why=answer.why,
        ),
    )

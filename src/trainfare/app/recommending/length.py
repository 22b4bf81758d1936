"""How long to train."""

import math

from trainfare.app.recommending.workload import TrainingLength
from trainfare.errors import InfeasibleError
from trainfare.estimator.epochs.profile_epochs import epochs_to_target, expected_epochs
from trainfare.model.epochs import EpochsAnswer
from trainfare.model.interval import Interval
from trainfare.model.plan import Target
from trainfare.model.profile import Profile
from trainfare.units import format_count, plural

ASSUMED_EPOCHS = 10


def decide_epochs(
    stated: int | None, profile: Profile, iterations_per_epoch: int, *, target: Target | None = None
) -> TrainingLength:
    """How long to train: what the user says, until the target is reached, what the program says, when it would stop by
    itself, how many its learning rates and its curve want; else an assumption. Decided only here."""
    if stated is not None:
        return TrainingLength(epochs=stated)
    if target is not None:
        return _until(profile, target)
    if profile.planned_iterations and profile.early_stopping is None:  # its epochs are the same, rounded up
        epochs = math.ceil(profile.planned_iterations / iterations_per_epoch)
        return TrainingLength(epochs=epochs, iterations=profile.planned_iterations)
    expected = expected_epochs(profile)
    if expected.rounded is None:
        return TrainingLength(
            epochs=ASSUMED_EPOCHS,
            guessed=f"{ASSUMED_EPOCHS} epochs are assumed, because the program does not say how many: give --epochs",
        )
    if expected.rule == "program":
        return TrainingLength(epochs=expected.rounded)
    return _expected(expected, expected.rounded)


def _until(profile: Profile, target: Target) -> TrainingLength:
    answer = epochs_to_target(profile, target.value, metric=target.metric)
    if answer.rounded is None:
        raise InfeasibleError(
            f"nobody can tell how many epochs it takes until {target.metric} is {target.value:g}: {answer.why}. "
            "Let the profile see more epochs (trainfare profile --epochs 10 -- …), or give --epochs."
        )
    return _expected(answer, answer.rounded)


def _expected(answer: EpochsAnswer, whole: int) -> TrainingLength:
    low, high = max(1, math.floor(answer.low or 1)), math.ceil(answer.high or 1)
    return TrainingLength(
        epochs=whole,
        epochs_interval=Interval(value=whole, low=low, high=high) if low < high else None,
        guessed=f"{epochs_expected(whole)}: {answer.why}"
        + (f". {low} – {high} epochs (90 %) are in the intervals of time and cost" if low < high else "")
        + "; --epochs says otherwise",
    )


def epochs_expected(epochs: int, but: int | None = None) -> str:
    """`94 epochs instead of 90 are expected`; `but` is how many there would be otherwise."""
    instead = "" if but is None or but == epochs else f" instead of {format_count(but)}"
    return f"{plural(epochs, 'epoch')}{instead} {'is' if epochs == 1 else 'are'} expected"

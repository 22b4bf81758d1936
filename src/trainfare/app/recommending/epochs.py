"""Use case: how many epochs a profiled program needs, at its batch size or another."""

import math
from collections.abc import Sequence
from typing import Unpack

from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.errors import Remedy, UsageError
from trainfare.estimator.epochs.profile_epochs import EpochsReport, report_epochs
from trainfare.model.profile import Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History
from trainfare.store.open import open_existing_history
from trainfare.units import plural


def epochs(
    profile_ids: Sequence[str] = (),
    *,
    batch_size: int | None = None,
    metric: str | None = None,
    target: float | None = None,
    seen: int | None = None,
    settings: Settings | None = None,
    **length: Unpack[LengthKeywords],
) -> EpochsReport:
    """The number of epochs that the program of these profiles needs; of the newest profile if none is named.

    `batch_size` asks for another batch size; profiles at several sizes are used together. The length of the run, if the
    program does not declare it, is what the fields of a StatedLength say. `seen` uses only that many of the first
    epochs. With a `target`, the answer is the number of epochs until the metric reaches it, at the batch size of the
    profile.
    """
    stated = StatedLength(**length)
    for name, number in (("batch_size", batch_size), ("seen", seen)):
        if number is not None and number < 1:
            raise UsageError(f"must be an integer of at least 1, got {number}.", field=name)
    with open_existing_history((settings or read_settings()).store) as history:
        profiles = stated.apply(_profiles(history, profile_ids))
    _require_one_program(profiles)
    return report_epochs(
        profiles,
        batch_size=batch_size,
        epochs=_run_length(stated, profiles[0]),
        metric=metric,
        target=target,
        seen=seen,
    )


def _run_length(stated: StatedLength, profile: Profile) -> int | None:
    """The stated length of the run in epochs, of which the last may be incomplete."""
    if stated.epochs is not None:
        return math.ceil(stated.epochs)
    steps = stated.steps_of(profile, profile)
    if steps is None:
        return None
    iterations = stated.iterations_per_epoch or profile.iterations_per_epoch
    if iterations is None:
        raise UsageError(
            f"the number of iterations in an epoch of {profile.program.name} is not known, so {plural(steps, 'step')} "
            "are not known in epochs. State it, or the epochs.",
            field="tokens" if stated.steps is None else "steps",
            remedies=[Remedy({"iterations_per_epoch": "N"}), Remedy({"epochs": "N"})],
        )
    return math.ceil(steps / iterations)


def _profiles(history: History, profile_ids: Sequence[str]) -> tuple[Profile, ...]:
    if profile_ids:
        return tuple(history.profiles.get(profile_id) for profile_id in dict.fromkeys(profile_ids))
    every = history.profiles.all()
    if not every:
        raise UsageError(
            "there is no profile yet. Profile the program first.",
            remedies=[Remedy({"epochs": 5}, command="profile", program="python train.py")],
        )
    return (every[0],)


def _require_one_program(profiles: Sequence[Profile]) -> None:
    names = sorted({profile.program.name for profile in profiles})
    if len(names) > 1:
        raise UsageError(
            f"these are profiles of {len(names)} programs ({', '.join(names)}), and each needs its own number of "
            "epochs. Name the profiles of one program."
        )

"""What the user states about a training: its length, and facts of the profile that were not measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from trainfare.errors import Remedy, UsageError
from trainfare.model.profile import Profile

YOU = "you"
"""The source of a fact that the user states."""
TOTALS = ("epochs", "steps", "tokens")


class LengthKeywords(TypedDict, total=False):
    """The keyword arguments about the length of a training; each is a field of `StatedLength`."""

    epochs: float | None
    steps: int | None
    tokens: float | None
    samples: int | None
    profiled_batch_size: int | None
    iterations_per_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLength:
    """The length of the training and facts of its profile, as the user states them; None is as the profile says.

    Raises UsageError if they are impossible or contradict each other.
    """

    epochs: float | None = None
    """Passes over the training data; 1.5 is one and a half."""
    steps: int | None = None
    """Iterations in all, at the batch size of the leading profile."""
    tokens: float | None = None
    """Tokens in all, of a language model."""
    samples: int | None = None
    """Samples of the training data."""
    profiled_batch_size: int | None = None
    """The effective batch size at which the program was profiled."""
    iterations_per_epoch: int | None = None

    def __post_init__(self) -> None:
        stated = [name for name in TOTALS if getattr(self, name) is not None]
        if len(stated) > 1:
            raise UsageError(
                f"{stated[0].capitalize()} and {stated[1]} both set the length of the training. Pass only one of them.",
                field=stated[1],
            )
        for name in ("steps", "tokens", "samples", "profiled_batch_size", "iterations_per_epoch"):
            number = getattr(self, name)
            if number is not None and not 1 <= number < math.inf:
                raise UsageError(f"The number must be at least 1, got {number}.", field=name)
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise UsageError(f"The number must be greater than 0, got {self.epochs:g}.", field="epochs")
        if self.samples is not None and self.iterations_per_epoch is not None:
            raise UsageError(
                "The samples and the iterations of an epoch follow from each other. Pass only one of them.",
                field="samples",
            )

    @property
    def states_total(self) -> bool:
        """The user states how long to train."""
        return any(getattr(self, name) is not None for name in TOTALS)

    def apply(self, profiles: Sequence[Profile]) -> tuple[Profile, ...]:
        """The profiles with the stated facts instead of the measured ones."""
        sized = tuple(self._apply_batch_size(profile, profiles[0]) for profile in profiles)
        return tuple(self._apply_length(profile, sized[0]) for profile in sized)

    def steps_of(self, profile: Profile, leading: Profile) -> int | None:
        """The stated iterations at the batch size of this profile: the same number of samples as in the leading one;
        None if neither steps nor tokens are stated."""
        if self.tokens is not None:
            per_iteration = profile.tokens_per_iteration or _tokens_of_other(profile, leading)
            if per_iteration is None:
                raise _unknown_tokens(profile)
            return math.ceil(self.tokens / per_iteration)
        if self.steps is None:
            return None
        size, known = profile.effective_batch_size, leading.effective_batch_size
        return self.steps if not size or not known else math.ceil(self.steps * known / size)

    def _apply_batch_size(self, profile: Profile, leading: Profile) -> Profile:
        size, measured = self.profiled_batch_size, profile.effective_batch_size
        if size is None or measured not in (None, leading.effective_batch_size):
            return profile
        parts = profile.accumulation_steps * profile.world_size
        if size % parts:
            raise UsageError(
                f"A batch of {size} cannot be divided into the {parts} equal parts that one iteration of profile "
                f"{profile.id} consists of (accumulation steps and processes). State the size of all of them together.",
                field="profiled_batch_size",
            )
        tokens = profile.tokens_per_iteration
        return replace(
            profile,
            micro_batch_size=size // parts,
            tokens_per_sample=tokens // size if tokens and tokens % size == 0 else profile.tokens_per_sample,
            sources={**profile.sources, "micro_batch_size": YOU},
        )

    def _apply_length(self, profile: Profile, leading: Profile) -> Profile:
        if self.samples is not None:
            size = profile.effective_batch_size
            if size is None:
                raise UsageError(
                    f"Profile {profile.id} has no batch size, so the iterations of {self.samples} samples cannot be "
                    "computed. State the batch size that it used.",
                    field="samples",
                    remedies=[Remedy({"profiled_batch_size": "B"})],
                )
            sources = {**profile.sources, "samples": YOU, "iterations_per_epoch": YOU}
            iterations = math.ceil(self.samples / size)
            profile = replace(profile, samples=self.samples, iterations_per_epoch=iterations, sources=sources)
        steps = self.steps_of(profile, leading)
        if steps is None:
            return profile
        length = profile.iterations_per_epoch
        return replace(
            profile,
            planned_iterations=steps,
            epochs=None if length is None else math.ceil(steps / length),
            sources={**profile.sources, "planned_iterations": YOU},
        )


def _tokens_of_other(profile: Profile, leading: Profile) -> int | None:
    """The tokens of one iteration by those of the leading profile: the log of a past run does not say them."""
    size = profile.effective_batch_size
    return size * leading.tokens_per_sample if size and leading.tokens_per_sample else leading.tokens_per_iteration


def _unknown_tokens(profile: Profile) -> UsageError:
    if profile.tokens_per_sample is None:
        return UsageError(
            f"The tokens of one iteration of {profile.program.name} are not known: the model is not given rows of "
            "integers. State the number of steps instead.",
            field="tokens",
            remedies=[Remedy({"steps": "N"})],
        )
    return UsageError(
        f"Profile {profile.id} has no batch size, so its tokens per iteration are not known. State the batch size that "
        "it used.",
        field="tokens",
        remedies=[Remedy({"profiled_batch_size": "B"})],
    )

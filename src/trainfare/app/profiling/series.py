"""Measure a program several times: at several batch sizes, each as often as wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from trainfare.app.profiling.profile import ProfilingFailed, profile_command
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.command import option_words, with_option


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of several measurements; `profile` is what could be kept, `failure` why there is no more."""

    command: tuple[str, ...]
    batch_size: int | None
    repeat: int
    """From 1 on."""
    profile: Profile | None = None
    failure: str | None = None

    @property
    def remark(self) -> str | None:
        """A batch size that the program did not take up."""
        if self.profile is None or self.batch_size is None or self.profile.micro_batch_size is None:
            return None
        if self.batch_size in (self.profile.micro_batch_size, self.profile.effective_batch_size):
            return None
        return f"asked for batch size {self.batch_size}, the program took {self.profile.micro_batch_size}"


def profile_series(
    command: Sequence[str],
    *,
    batch_sizes: Sequence[int] = (),
    batch_flag: str | None = None,
    repeat: int = 1,
    on_trial: Callable[[Trial], None] = lambda _: None,
    **options: Any,
) -> tuple[Trial, ...]:
    """Profile the program at each batch size, `repeat` times each; `options` are those of `profile`.

    `batch_flag` is how its command takes a batch size, with {} for the number. A trial that fails does not end the
    series; one that the user interrupts does. `on_trial` gets each as it ends.
    """
    commands = _commands(command, batch_sizes, batch_flag)
    if repeat < 1:
        raise UsageError(f"--repeat must be a whole number of at least 1, got {repeat}.")
    trials = []
    for (size, words), number in product(commands, range(1, repeat + 1)):
        profile, failure = None, None
        interrupted = False
        try:
            profile = profile_command(words, **options)
            interrupted = profile.ending == "interrupted"
        except ProfilingFailed as error:
            profile, failure, interrupted = error.profile, str(error), error.exit_code == 130
        trial = Trial(command=words, batch_size=size, repeat=number, profile=profile, failure=failure)
        trials.append(trial)
        on_trial(trial)
        if interrupted:
            break
    return tuple(trials)


def _commands(
    command: Sequence[str], batch_sizes: Sequence[int], batch_flag: str | None
) -> list[tuple[int | None, tuple[str, ...]]]:
    if not batch_sizes:
        if batch_flag is not None:
            raise UsageError("--batch-flag says how to set a batch size, so it needs --batch-sizes 64,128.")
        return [(None, tuple(command))]
    if batch_flag is None:
        raise UsageError(
            "--batch-sizes needs to know how your command takes one: --batch-flag '--batch-size {}', with {} for "
            "the number."
        )
    for size in batch_sizes:
        if size < 1:
            raise UsageError(f"--batch-sizes must be whole numbers of at least 1, got {size}.")
    try:
        option_words(batch_flag)
    except ValueError as error:
        raise UsageError(f"--batch-flag is not right: {error}.") from error
    if not command:
        return [(batch_sizes[0], ())]
    return [(size, with_option(command, batch_flag, size)) for size in dict.fromkeys(batch_sizes)]

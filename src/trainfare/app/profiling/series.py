"""Measures a program several times: at several batch sizes, each as often as requested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Unpack

from trainfare.app.profiling.failures import ProfilingError
from trainfare.app.profiling.options import ProfileKeywords, ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.errors import Remedy, UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.command import EXAMPLE_OPTION, option_words, with_option


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One of several measurements; `profile` is what could be saved, `failure` the reason why there is no more."""

    command: tuple[str, ...]
    batch_size: int | None
    repeat: int
    """Counts from 1."""
    profile: Profile | None = None
    failure: str | None = None

    @property
    def remark(self) -> str | None:
        """A sentence if the program did not use the requested batch size."""
        if self.profile is None or self.batch_size is None or self.profile.micro_batch_size is None:
            return None
        if self.batch_size in (self.profile.micro_batch_size, self.profile.effective_batch_size):
            return None
        return f"batch size {self.batch_size} was requested, the program used {self.profile.micro_batch_size}"


def profile_series(
    command: Sequence[str],
    *,
    batch_sizes: Sequence[int] = (),
    batch_flag: str | None = None,
    repeat: int = 1,
    on_trial: Callable[[Trial], None] = lambda _: None,
    **options: Unpack[ProfileKeywords],
) -> tuple[Trial, ...]:
    """Profile the program at each batch size, `repeat` times each; `options` are those of `profile`.

    `batch_flag` is the option of the command that sets the batch size, with {} for the number. A trial that fails does
    not end the series; one that the user interrupts does. `on_trial` gets each trial when it ends.
    """
    return run_trials(
        command,
        ProfileOptions(**options),
        batch_sizes=batch_sizes,
        batch_flag=batch_flag,
        repeat=repeat,
        on_trial=on_trial,
    )


def run_trials(
    command: Sequence[str],
    options: ProfileOptions,
    *,
    batch_sizes: Sequence[int],
    batch_flag: str | None,
    repeat: int,
    on_trial: Callable[[Trial], None],
) -> tuple[Trial, ...]:
    """Profile the program several times with the same options; see `profile_series`."""
    commands = batch_commands(command, batch_sizes, batch_flag)
    if batch_sizes and options.batch_size is not None:
        raise UsageError(
            "The batch size cannot be stated where several are measured. Give one of the two.",
            field="profiled_batch_size",
        )
    if repeat < 1:
        raise UsageError(f"must be an integer of at least 1, got {repeat}.", field="repeat")
    trials = []
    for (size, words), number in product(commands, range(1, repeat + 1)):
        profile, failure = None, None
        interrupted = False
        try:
            profile = profile_command(words, options)
            interrupted = profile.ending == "interrupted"
        except ProfilingError as error:
            profile, failure, interrupted = error.profile, error.message, error.exit_code == 130
        trial = Trial(command=words, batch_size=size, repeat=number, profile=profile, failure=failure)
        trials.append(trial)
        on_trial(trial)
        if interrupted:
            break
    return tuple(trials)


def batch_commands(
    command: Sequence[str], batch_sizes: Sequence[int], batch_flag: str | None
) -> list[tuple[int | None, tuple[str, ...]]]:
    """The batch sizes, each with the command that sets it."""
    if not batch_sizes:
        if batch_flag is not None:
            message = "the option that sets a batch size is only used with batch sizes."
            raise UsageError(message, field="batch_flag", remedies=[Remedy({"batch_sizes": "64,128"})])
        return [(None, tuple(command))]
    if batch_flag is None:
        raise UsageError(
            "the option of the command that sets its batch size is needed, with {} for the number.",
            field="batch_sizes",
            remedies=[Remedy({"batch_flag": EXAMPLE_OPTION})],
        )
    for size in batch_sizes:
        if size < 1:
            raise UsageError(f"must be integers of at least 1, got {size}.", field="batch_sizes")
    try:
        option_words(batch_flag)
    except ValueError as error:
        raise UsageError(f"{error}.", field="batch_flag") from error
    if not command:
        return [(batch_sizes[0], ())]
    return [(size, with_option(command, batch_flag, size)) for size in dict.fromkeys(batch_sizes)]

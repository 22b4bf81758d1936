"""Measures a program on this machine and saves its Profile."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack, overload

from trainfare.app.profiling.in_process import InProcessProfiler
from trainfare.app.profiling.options import ProfileKeywords, ProfileOptions
from trainfare.app.profiling.save import MIN_ITERATIONS, count_iterations, save_profile, this_machine
from trainfare.clouds.slices import is_slice, slice_for
from trainfare.errors import ProgramError, Remedy, UsageError
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.events import summarize_events
from trainfare.profiler.measure import MeasuredRun, measure
from trainfare.profiler.workspace import Workspace, workspace
from trainfare.settings import Settings, read_settings
from trainfare.store.logs import save_log
from trainfare.store.open import open_history
from trainfare.units import format_duration, plural

_SUPPORTED = "PyTorch, Keras, TensorFlow and JAX"
_OUTPUT_LINES = 25
"""The last lines of a program's output that an error repeats, if they were not shown."""
_IN_PROCESS_OPTIONS = {"settings", "iterations", "on"}


class ProfilingError(ProgramError):
    """The program did not train to the end of the measurement; `profile` is what could be saved of it."""

    def __init__(self, message: str, profile: Profile | None, *, remedies: Sequence[Remedy] = ()) -> None:
        super().__init__(message, remedies=remedies)
        self.profile = profile


class ProfilingInterruptedError(ProfilingError):
    """The user stopped the program before the second iteration ended."""

    exit_code = 130


@overload
def profile(command: Sequence[str], **options: Unpack[ProfileKeywords]) -> Profile: ...


@overload
def profile(
    *, settings: Settings | None = ..., iterations: int | None = ..., on: str | None = ...
) -> InProcessProfiler: ...


def profile(command: Sequence[str] | None = None, **options: Unpack[ProfileKeywords]) -> Profile | InProcessProfiler:
    """Run a program for a few iterations, save its Profile in the store and return it.

        profile(["python", "train.py"])                 until the time of an iteration is known to 2 %, or a minute
        profile([…], iterations=50)                     a number of iterations
        profile([…], epochs=2)                          a number of epochs with their validations
        profile([…], until_stable=True, patience=5)     until the validation loss has not improved for 5 epochs

    The program runs in a copy of its folder unless that is too large (or `in_place=True`). A program that ends by
    itself, or that the user interrupts, after at least two iterations has a Profile too; its `ending` says so. One that
    fails or stalls raises `ProfilingError`, which carries the Profile of the iterations before. `ProfileOptions` lists
    all options.

    Without a command it measures the calling code: `with trainfare.profile() as measured:` around a training loop.
    """
    if command is not None:
        return profile_command(command, ProfileOptions(**options))
    if unknown := sorted(options.keys() - _IN_PROCESS_OPTIONS):
        raise TypeError(f"profile() without a command has no option {', '.join(unknown)}")
    return InProcessProfiler(
        settings=options.get("settings"), iterations=options.get("iterations"), on=options.get("on")
    )


def profile_command(command: Sequence[str], options: ProfileOptions) -> Profile:
    """Measure a program and save its Profile; see `profile`."""
    settings = options.settings or read_settings()
    program = _program(command, options.directory or Path.cwd())
    machine = this_machine(options.on, settings)
    with open_history(settings.store):
        pass  # a store that cannot be written is reported before the program runs
    measured, place = _measure(program, machine, options, settings)
    saved = None
    if count_iterations(measured.events) >= MIN_ITERATIONS:
        saved = save_profile(
            measured.events,
            program=program,
            machine=machine,
            ending=measured.ending,
            started=measured.started,
            store=settings.store,
        )
        save_log(Path(settings.logs), saved.id, measured.log.text())
    if saved is not None and measured.ending in ("enough", "finished", "interrupted"):
        return saved
    raise _failure(program, measured, place, saved, settings.stall_seconds, output_shown=options.on_output is not None)


def _measure(
    program: Program, machine: VmType | None, options: ProfileOptions, settings: Settings
) -> tuple[MeasuredRun, Workspace]:
    with (
        _part_of_this_machine(machine) as (prefix, environment),
        workspace(Path(program.directory), in_place=options.in_place, keep=options.keep_files) as place,
    ):
        options.on_workspace(place)
        measured = measure(
            program,
            iterations=options.target_iterations(settings.iterations),
            stopping_rule=options.stopping_rule,
            directory=place.directory,
            prefix=prefix,
            environment=environment,
            stall_seconds=settings.stall_seconds,
            trace_operations=options.trace_operations,
            gradient_noise=options.gradient_noise,
            operator_times=options.operator_times,
            on_progress=options.on_progress,
            on_output=options.on_output,
        )
    return measured, place


@contextmanager
def _part_of_this_machine(machine: VmType | None) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """The prefix and the environment of the command: a slice limits the program, any other machine does not."""
    if machine is None or not is_slice(machine):
        yield (), {}
        return
    with slice_for(machine, f"trainfare-profile-{os.getpid()}") as part:
        yield part.prefix, part.environment


def _program(command: Sequence[str], directory: Path) -> Program:
    if not command or not command[0].strip():
        raise UsageError(
            "there is no command to profile.",
            field="command",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    return Program(command=tuple(command), directory=str(directory))


def _failure(
    program: Program,
    measured: MeasuredRun,
    place: Workspace,
    saved: Profile | None,
    stall_seconds: float,
    *,
    output_shown: bool,
) -> ProfilingError:
    """The error of a run without a complete profile: what happened, what was saved, and the last output."""
    if measured.ending == "interrupted":
        return ProfilingInterruptedError(f"interrupted {_progress_phrase(measured)}; nothing was saved.", None)
    message = _what_happened(program, measured, stall_seconds)
    if saved is not None:
        message += f" The {plural(len(saved.iteration_seconds), 'iteration')} before are saved as profile {saved.id}."
    if place.is_copy and str(place.directory) in measured.log.text():
        message += f" It ran in a copy: {place.directory} in its output is your {program.directory}."
    if not output_shown and measured.ending != "finished" and (output := measured.log.last_lines(_OUTPUT_LINES)):
        message += f" The end of its output:\n\n{output}"
    remedies = [Remedy({"stall_seconds": "1h"})] if measured.ending == "stalled" else []
    return ProfilingError(message, saved, remedies=remedies)


def _progress_phrase(measured: MeasuredRun) -> str:
    """`before its first iteration`, `after 3 iterations`."""
    count = count_iterations(measured.events)
    return f"after {plural(count, 'iteration')}" if count else "before its first iteration"


def _what_happened(program: Program, measured: MeasuredRun, stall_seconds: float) -> str:
    name = f"`{program.command_line}`"
    match measured.ending:
        case "stalled":
            return (
                f"{name} showed no iteration for {format_duration(stall_seconds)}, {_progress_phrase(measured)}, and "
                f"was stopped. {_why_no_iteration(measured)}If it only needs longer, allow it more time to start."
            )
        case "failed":
            own_message = "See its own message." if measured.log.text().strip() else "It printed nothing."
            return f"{name} failed {_progress_phrase(measured)}{_exit_phrase(measured.exit_code)}. {own_message}"
    if count_iterations(measured.events):
        return (
            f"{name} ended after one training iteration; a profile needs {MIN_ITERATIONS}, because the first one is "
            "not typical. Let it train longer."
        )
    return f"{name} ended without a training iteration. {_why_no_iteration(measured)}".rstrip()


def _exit_phrase(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return f" with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    hint = ", perhaps because memory ran out" if -exit_code == signal.SIGKILL else ""
    return f", killed by {name}{hint}"


def _why_no_iteration(measured: MeasuredRun) -> str:
    """The reason why the probe saw no iteration; empty if it saw one."""
    if count_iterations(measured.events):
        return ""
    summary = summarize_events(measured.events)
    if not summary.inside_python:
        return (
            "The probe was not loaded: the program is not Python, or it starts Python with -I, -E or -S or without "
            "PYTHONPATH. Let it start Python without these. "
        )
    if summary.troubles:
        return f"The probe failed in it ({summary.troubles[0]}). Please report this. "
    if "torch" in summary.frameworks:
        return (
            "It imported PyTorch, but there was neither a step of a torch.optim.Optimizer nor a backward pass, which "
            "mark an iteration. "
        )
    unsupported = [name for name in summary.frameworks if name in boot.UNSUPPORTED_FRAMEWORKS]
    if unsupported:
        return f"It imported {' and '.join(unsupported)}, which is not supported yet; {_SUPPORTED} are. "
    if summary.frameworks:
        return (
            f"It imported {' and '.join(summary.frameworks)}, but there was no training step: no fit or "
            "train_on_batch of Keras, no optimizer of Keras that is applied, no gradient taken by JAX. "
        )
    return f"It is Python, but imported no supported framework ({_SUPPORTED}). "

"""Measures a program on this machine and saves its Profile."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack, overload

from trainfare.app.profiling.failures import profiling_error
from trainfare.app.profiling.in_process import InProcessProfiler
from trainfare.app.profiling.options import ProfileKeywords, ProfileOptions
from trainfare.app.profiling.save import MIN_ITERATIONS, count_iterations, save_profile, this_machine
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.clouds.slices import is_slice, slice_for
from trainfare.errors import Remedy, UsageError
from trainfare.model.machine import Host, VmType
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.measure import MeasuredRun, measure
from trainfare.profiler.workspace import Workspace, workspace
from trainfare.settings import Settings, read_settings
from trainfare.store.logs import save_log
from trainfare.store.open import open_history

_IN_PROCESS_OPTIONS = {"settings", "iterations", "max_seconds", "on"}


@overload
def profile(command: Sequence[str], **options: Unpack[ProfileKeywords]) -> Profile: ...


@overload
def profile(
    *,
    settings: Settings | None = ...,
    iterations: int | None = ...,
    max_seconds: float | None = ...,
    on: str | None = ...,
) -> InProcessProfiler: ...


def profile(command: Sequence[str] | None = None, **options: Unpack[ProfileKeywords]) -> Profile | InProcessProfiler:
    """Run a program for a few iterations, save its Profile in the store and return it.

        profile(["python", "train.py"])                 until the time of an iteration is known to 2 %, or a minute
        profile([…], iterations=50)                     a number of iterations
        profile([…], epochs=2)                          a number of epochs with their validations
        profile([…], until_stable=True, patience=5)     until the validation loss has not improved for 5 epochs
        profile([…], max_seconds=120)                   any of these, but at most two minutes from its start on

    The program runs in a copy of its folder unless that is too large (or `in_place=True`). A program that ends by
    itself, or that the user interrupts, after at least two iterations has a Profile too; its `ending` says so. One that
    fails, stalls or comes to one iteration only in the time allowed raises `ProfilingError`, which carries the Profile
    of the iterations before. `ProfileOptions` lists
    all options.

    Without a command it measures the calling code: `with trainfare.profile() as measured:` around a training loop.
    """
    if command is not None:
        return profile_command(command, ProfileOptions(**options))
    if unknown := sorted(options.keys() - _IN_PROCESS_OPTIONS):
        raise TypeError(f"profile() without a command has no option {', '.join(unknown)}")
    return InProcessProfiler(
        settings=options.get("settings"),
        iterations=options.get("iterations"),
        max_seconds=options.get("max_seconds"),
        on=options.get("on"),
    )


def profile_command(command: Sequence[str] | ProgramSource, options: ProfileOptions) -> Profile:
    """Measure a program and save its Profile; see `profile`. An archive or a task file is a command too."""
    settings = options.settings or read_settings()
    source = command if isinstance(command, ProgramSource) else _source(command, options.directory, settings)
    program = source.program
    machine = this_machine(options.on, settings)
    # A store that cannot be written is reported before the program runs.
    open_history(settings.store).close()
    measured, place = _measure(program, machine, options, settings, source.variables)
    return save_measurement(measured, place, program=program, machine=machine, options=options, settings=settings)


def save_measurement(
    measured: MeasuredRun,
    place: Workspace,
    *,
    program: Program,
    machine: VmType | None,
    options: ProfileOptions,
    settings: Settings,
    host: Host | None = None,
) -> Profile:
    """Save what was measured on this machine, or on another `host`. A measurement that is not complete raises
    `ProfilingError`, which carries what could be saved."""
    saved = None
    # What was measured within a time limit is kept, even a single iteration.
    if count_iterations(measured.events) >= (1 if measured.ending == "time_limit" else MIN_ITERATIONS):
        saved = save_profile(
            measured.events,
            program=program,
            machine=machine,
            host=host,
            ending=measured.ending,
            started=measured.started,
            store=settings.store,
            stated=options.stated_length,
        )
        save_log(Path(settings.logs), saved.id, measured.log.text())
    complete = saved is not None and len(saved.iteration_seconds) >= MIN_ITERATIONS
    if saved is not None and complete and measured.ending in ("enough", "time_limit", "finished", "interrupted"):
        return saved
    raise profiling_error(
        program,
        measured,
        place,
        saved,
        stall_seconds=settings.stall_seconds,
        max_seconds=options.longest_seconds,
        output_shown=options.on_output is not None,
    )


def _measure(
    program: Program,
    machine: VmType | None,
    options: ProfileOptions,
    settings: Settings,
    variables: Mapping[str, str],
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
            max_seconds=options.longest_seconds,
            directory=place.directory,
            prefix=(*prefix, *(options.sandbox or ())),
            environment={**variables, **environment},
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


def _source(command: Sequence[str], directory: Path | None, settings: Settings) -> ProgramSource:
    if not command or not command[0].strip():
        raise UsageError(
            "there is no command to profile.",
            field="command",
            remedies=[Remedy(command="profile", program="python train.py")],
        )
    return read_program(command, settings, folder=directory)

"""Measure a program here and keep what was seen."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

from trainfare.app.profiling.in_process import InCode
from trainfare.app.profiling.save import FEWEST_ITERATIONS, keep, this_machine
from trainfare.clouds.slices import is_slice, slice_for
from trainfare.errors import ProgramError, UsageError
from trainfare.model.machine import VmType
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.stopping import PATIENCE, STEADY, Until, UntilEpochs, UntilStable, UntilSteady
from trainfare.profiler.events import of_leading_process, what_was_seen
from trainfare.profiler.measure import Measured, Progress, measure
from trainfare.profiler.workspace import Workspace, workspace
from trainfare.settings import Settings, read_settings
from trainfare.store.logs import keep_log
from trainfare.store.open import open_history
from trainfare.units import format_duration

_LISTENED_TO = "PyTorch, Keras, TensorFlow and JAX"
_LAST_WORDS = 25
"""Lines of a program's output that an error repeats, where they were not shown."""


class ProfilingFailed(ProgramError):
    """The program did not train to the end of the measurement; `profile` is what could be kept of it."""

    def __init__(self, message: str, profile: Profile | None) -> None:
        super().__init__(message)
        self.profile = profile


class ProfilingInterrupted(ProfilingFailed):
    """The user stopped it before two iterations were seen."""

    exit_code = 130


@overload
def profile(
    command: Sequence[str],
    *,
    settings: Settings | None = ...,
    directory: Path | None = ...,
    iterations: int | None = ...,
    epochs: int | None = ...,
    until_stable: bool = ...,
    patience: int | None = ...,
    max_seconds: float | None = ...,
    in_place: bool = ...,
    keep_files: bool = ...,
    on: str | None = ...,
    trace_operations: bool = ...,
    gradient_noise: bool = ...,
    operator_times: bool = ...,
    on_workspace: Callable[[Workspace], None] = ...,
    on_progress: Callable[[Progress], None] = ...,
    on_output: Callable[[bytes], None] | None = ...,
) -> Profile: ...


@overload
def profile(
    *,
    settings: Settings | None = ...,
    iterations: int | None = ...,
    on: str | None = ...,
) -> InCode: ...


def profile(command: Sequence[str] | None = None, **options: Any) -> Profile | InCode:
    """Run a program for a few iterations, keep its Profile in history and return it.

        profile(["python", "train.py"])                 until the time of an iteration is known to 2 %, or a minute
        profile([…], iterations=50)                     so many iterations
        profile([…], epochs=2)                          so many epochs with their validations
        profile([…], until_stable=True, patience=5)     until the validation loss has not improved for 5 epochs

    It runs in a copy of its folder where that is cheap (`in_place` turns that off). A program that ends by itself, or
    that the user interrupts, after at least two iterations has a Profile too; its `ending` says so. One that fails or
    stands still raises `ProfilingFailed`, which carries what was kept.

    Without a command it is for the code at hand: `with trainfare.profile() as measured:` around a training loop.
    """
    if command is None:
        return InCode(**options)
    return profile_command(command, **options)


def profile_command(
    command: Sequence[str],
    *,
    settings: Settings | None = None,
    directory: Path | None = None,
    iterations: int | None = None,
    epochs: int | None = None,
    until_stable: bool = False,
    patience: int | None = None,
    max_seconds: float | None = None,
    in_place: bool = False,
    keep_files: bool = False,
    on: str | None = None,
    trace_operations: bool = True,
    gradient_noise: bool = False,
    operator_times: bool = False,
    on_workspace: Callable[[Workspace], None] = lambda _: None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_output: Callable[[bytes], None] | None = None,
) -> Profile:
    """As `profile`. `on_workspace` gets the folder in which it runs; afterwards that says what the program wrote."""
    settings = settings or read_settings()
    program = _program(command, directory or Path.cwd())
    count, until = wanted_end(
        iterations=iterations, epochs=epochs, until_stable=until_stable, patience=patience, max_seconds=max_seconds
    )
    if count is None and isinstance(until, UntilSteady) and max_seconds is None:
        count = settings.iterations
    machine = this_machine(on, settings)
    with open_history(settings.store):
        pass  # a store that cannot be written is better known before the program has run
    with (
        _part_of_this_machine(machine) as (prefix, environment),
        workspace(Path(program.directory), in_place=in_place, keep=keep_files) as place,
    ):
        on_workspace(place)
        measured = measure(
            program,
            iterations=count,
            until=until,
            directory=place.directory,
            prefix=prefix,
            environment=environment,
            stall_seconds=settings.stall_seconds,
            trace_operations=trace_operations,
            gradient_noise=gradient_noise,
            operator_times=operator_times,
            on_progress=on_progress,
            on_output=on_output,
        )
    kept = None
    if _iterations(measured) >= FEWEST_ITERATIONS:
        kept = keep(
            measured.events,
            program=program,
            machine=machine,
            ending=measured.ending,
            started=measured.started,
            store=settings.store,
        )
        keep_log(Path(settings.logs), kept.id, measured.log.text())
    if kept is not None and measured.ending in ("enough", "finished", "interrupted"):
        return kept
    if measured.ending == "interrupted":
        raise ProfilingInterrupted(f"interrupted {_how_far(measured)}; nothing was kept.", None)
    message = _what_happened(program, measured, settings.stall_seconds)
    if kept is not None:
        message += f" The {len(kept.iteration_seconds)} iterations before that are kept as {kept.id}."
    if place.is_copy and str(place.directory) in measured.log.text():
        message += f" It ran in a copy: what it calls {place.directory} is your {program.directory}."
    if on_output is None and measured.ending != "finished" and (said := measured.log.last_lines(_LAST_WORDS)):
        message += f" Its last words:\n\n{said}"
    raise ProfilingFailed(message, kept)


def wanted_end(
    *,
    iterations: int | None = None,
    epochs: int | None = None,
    until_stable: bool = False,
    patience: int | None = None,
    max_seconds: float | None = None,
) -> tuple[int | None, Until]:
    """How long to measure: a number of iterations, or what must be seen."""
    ways = {"--iterations": iterations is not None, "--epochs": epochs is not None, "--until-stable": until_stable}
    asked = [name for name, given in ways.items() if given]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} each say when to stop. Give one of them.")
    if patience is not None and not until_stable:
        raise UsageError("--patience says when a training is stable, so it needs --until-stable.")
    if max_seconds is not None and iterations is not None:
        raise UsageError("--iterations measures exactly as many as you say, so --max-time cannot go with it.")
    for name, number in {"--iterations": iterations, "--epochs": epochs, "--patience": patience}.items():
        fewest = FEWEST_ITERATIONS if name == "--iterations" else 1
        if number is not None and number < fewest:
            raise UsageError(f"{name} must be a whole number of at least {fewest}, got {number}.")
    if epochs is not None:
        return None, UntilEpochs(epochs=epochs, most_seconds=max_seconds)
    if until_stable:
        return None, UntilStable(patience=PATIENCE if patience is None else patience, most_seconds=max_seconds)
    return iterations, STEADY if max_seconds is None else UntilSteady(most_seconds=max_seconds)


@contextmanager
def _part_of_this_machine(machine: VmType | None) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """What to start the program with: a slice limits it, any other machine is this one as it is."""
    if machine is None or not is_slice(machine):
        yield (), {}
        return
    with slice_for(machine, f"trainfare-profile-{os.getpid()}") as part:
        yield part.prefix, part.environment


def _program(command: Sequence[str], directory: Path) -> Program:
    if not command or not command[0].strip():
        raise UsageError(
            "there is no command to profile. Write it after our own options: trainfare profile -- python train.py"
        )
    return Program(command=tuple(command), directory=str(directory))


def _iterations(measured: Measured) -> int:
    return sum(event["event"] == "iteration" for event in of_leading_process(measured.events))


def _how_far(measured: Measured) -> str:
    count = _iterations(measured)
    if not count:
        return "before its first iteration"
    return f"after {count} iteration{'s' if count != 1 else ''}"


def _what_happened(program: Program, measured: Measured, stall_seconds: float) -> str:
    name = f"`{program.command_line}`"
    match measured.ending:
        case "stalled":
            return (
                f"{name} showed no iteration for {format_duration(stall_seconds)}, {_how_far(measured)}, and was "
                f"stopped. {_why_unseen(measured)}If it only needs longer, say so with --stall 1h."
            )
        case "failed":
            own_message = "Its own message says why." if measured.log.text().strip() else "It printed nothing."
            return f"{name} failed {_how_far(measured)}{_how_it_ended(measured.exit_code)}. {own_message}"
    if _iterations(measured):
        return (
            f"{name} ended after one training iteration; a profile needs {FEWEST_ITERATIONS}, because the first is "
            "special. Let it train longer."
        )
    return f"{name} ran to its end without one training iteration. {_why_unseen(measured)}".rstrip()


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return f" with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    hint = ", perhaps for lack of memory" if -exit_code == signal.SIGKILL else ""
    return f", ended by {name}{hint}"


def _why_unseen(measured: Measured) -> str:
    """What the probe saw, when it saw no iteration; empty when it did."""
    if _iterations(measured):
        return ""
    seen = what_was_seen(measured.events)
    if not seen.inside_python:
        return (
            "The probe never got into it: it is not Python, or it starts Python with -I, -E or -S or an emptied "
            "environment. Let it start Python without these. "
        )
    if seen.troubles:
        return f"The probe had trouble with it ({seen.troubles[0]}). Please report this. "
    if "torch" in seen.frameworks:
        return (
            "It imported PyTorch, but there was neither a step of a torch.optim.Optimizer nor a backward pass, by "
            "which an iteration is seen. "
        )
    unheard = [name for name in seen.frameworks if name in boot.ONLY_NOTED]
    if unheard:
        return f"It imported {' and '.join(unheard)}, which is not listened to yet; {_LISTENED_TO} are. "
    if seen.frameworks:
        return (
            f"It imported {' and '.join(seen.frameworks)}, but no training step was seen: a fit or train_on_batch of "
            "Keras, an optimizer of Keras that is applied, a gradient taken by JAX. "
        )
    return f"It is Python, but imported no framework that is listened to ({_LISTENED_TO}). "

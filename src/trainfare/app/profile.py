"""Measure a program here and keep what was seen."""

import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.ids import new_id
from trainfare.catalog.catalog import load_catalog
from trainfare.errors import AskedWrongly, ProgramFailed
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.events import gpu_of, of_leading_process, profile_of, what_was_seen
from trainfare.profiler.host import this_host, this_host_name
from trainfare.profiler.measure import Measured, Progress, measure
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyKept
from trainfare.store.open import open_history
from trainfare.units import format_seconds

FEWEST_ITERATIONS = 2
"""The first is special, so one iteration says nothing of the others."""
_LAST_WORDS = 25
"""Lines of a program's output that an error repeats, where they were not shown."""


class ProfilingFailed(ProgramFailed):
    """The program did not train to the end of the measurement; `profile` is what could be kept of it."""

    def __init__(self, message: str, profile: Profile | None) -> None:
        super().__init__(message)
        self.profile = profile


class ProfilingInterrupted(ProfilingFailed):
    """The user stopped it before two iterations were seen."""

    exit_code = 130


def profile(
    command: Sequence[str],
    *,
    settings: Settings | None = None,
    directory: Path | None = None,
    iterations: int | None = None,
    on: str | None = None,
    trace_operations: bool = True,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_output: Callable[[bytes], None] | None = None,
) -> Profile:
    """Run the program for a few iterations, keep its Profile in history and return it.

    A program that ends by itself, or that the user interrupts, after at least two iterations has a Profile too;
    its `ending` says so. One that fails or stands still raises `ProfilingFailed`, which carries what was kept.
    """
    settings = settings or read_settings()
    program = _program(command, directory or Path.cwd())
    machine = _machine(on, settings)
    wanted = iterations or settings.iterations
    with open_history(settings.store):
        pass  # a store that cannot be written is better known before the program has run
    measured = measure(
        program,
        iterations=wanted,
        stall_seconds=settings.stall_seconds,
        trace_operations=trace_operations,
        on_progress=on_progress,
        on_output=on_output,
    )
    kept = _keep(program, measured, machine, settings)
    if kept is not None and measured.ending in ("enough", "finished", "interrupted"):
        return kept
    if measured.ending == "interrupted":
        raise ProfilingInterrupted(f"interrupted {_how_far(measured)}; nothing was kept.", None)
    message = _what_happened(program, measured, settings.stall_seconds)
    if kept is not None:
        message += f" The {len(kept.iteration_seconds)} iterations before that are kept as {kept.id}."
    if on_output is None and measured.ending != "finished" and (said := measured.log.last_lines(_LAST_WORDS)):
        message += f" Its last words:\n\n{said}"
    raise ProfilingFailed(message, kept)


def _program(command: Sequence[str], directory: Path) -> Program:
    if not command or not command[0].strip():
        raise AskedWrongly(
            "there is no command to profile. Write it after our own options: trainfare profile -- python train.py"
        )
    return Program(command=tuple(command), directory=str(directory))


def _machine(on: str | None, settings: Settings) -> str | None:
    """The key of this machine: as the user names it; else as one of their own machines has our host's name."""
    catalog = load_catalog(machines=Path(settings.machines), prices=Path(settings.prices))
    if on is not None:
        return catalog.find(on)[0].vm_type.key
    own = f"own/{this_host_name()}"
    return own if any(offer.vm_type.key == own for offer in catalog.offers) else None


def _keep(program: Program, measured: Measured, machine: str | None, settings: Settings) -> Profile | None:
    if _iterations(measured) < FEWEST_ITERATIONS:
        return None
    gpu, gpus = gpu_of(of_leading_process(measured.events))
    host = this_host(vm_type=machine, gpu=gpu, gpus=gpus)
    with open_history(settings.store) as history:
        while True:
            found = profile_of(
                measured.events,
                id=new_id("p"),
                program=program,
                host=host,
                measured_at=datetime.now(UTC),
                ending=measured.ending,
                started=measured.started,
            )
            try:
                history.add_profile(found)
            except AlreadyKept:
                continue
            return found


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
                f"{name} showed no iteration for {format_seconds(stall_seconds)}, {_how_far(measured)}, and was "
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
            "It imported PyTorch, but no optimizer took a step. An iteration is seen at the step of an optimizer that "
            "derives from torch.optim.Optimizer. "
        )
    if seen.frameworks:
        return f"It imported {' and '.join(seen.frameworks)}, which is not listened to yet; PyTorch is. "
    return "It is Python, but imported no framework that is listened to (PyTorch). "

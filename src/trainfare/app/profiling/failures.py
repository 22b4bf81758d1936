"""Errors of a measurement: what happened to the program, what was saved, and what to do."""

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from trainfare.app.profiling.save import MIN_ITERATIONS, count_iterations
from trainfare.errors import ProgramError, Remedy
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.diagnosis import Diagnosis, cpu_option, diagnose
from trainfare.profiler.events import summarize_events
from trainfare.profiler.measure import MeasuredRun
from trainfare.profiler.workspace import Workspace
from trainfare.units import format_duration, plural, write_duration
from trainfare.views.startup import (
    SMALLER_OR_ELSEWHERE,
    format_bytes,
    model_phrase,
    need_phrase,
    seen_sentences,
    too_large_sentence,
)

_SUPPORTED = "PyTorch, Keras, TensorFlow and JAX"
_OUTPUT_LINES = 25
"""The last lines of a program's output that an error repeats, if they were not shown."""
_WORTH_A_REPORT_SECONDS = 30.0
"""A program that was interrupted sooner had hardly begun."""
_KILLED_EXIT_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""The exit codes of a killed process, and of a shell whose command was killed."""
_KILLED_CHILD = re.compile(r"exitcode\s*:\s*-9|Signal 9 \(SIGKILL\)|is killed by signal: Killed")
"""Reports of launchers (`torchrun`) and data loaders that a process of theirs was killed."""


class ProfilingError(ProgramError):
    """The program did not train to the end of the measurement; `profile` is what could be saved of it."""

    def __init__(self, message: str, profile: Profile | None, *, remedies: Sequence[Remedy] = ()) -> None:
        super().__init__(message, remedies=remedies)
        self.profile = profile


class ProfilingInterruptedError(ProfilingError):
    """The user stopped the program before the second iteration ended."""

    exit_code = 130


def profiling_error(
    program: Program,
    measured: MeasuredRun,
    place: Workspace,
    saved: Profile | None,
    *,
    stall_seconds: float,
    max_seconds: float | None,
    output_shown: bool,
) -> ProfilingError:
    """The error of a run without a complete profile: what happened, what was saved, and the last output."""
    if measured.ending == "interrupted":
        seen = "" if measured.startup is None or measured.startup.seconds < _WORTH_A_REPORT_SECONDS else _seen(measured)
        return ProfilingInterruptedError(f"interrupted {_progress_phrase(measured)}; nothing was saved.{seen}", None)
    if measured.ending == "time_limit" and max_seconds is not None:
        return _time_limit_error(program, measured, saved, max_seconds)
    name, diagnosis = f"`{program.command_line}`", None
    if measured.startup is not None and measured.startup.certainly_too_large:
        message = f"{name} does not fit in the memory of this machine. {too_large_sentence(measured.startup)}"
    else:
        diagnosis = diagnose(measured.log.text()) if measured.ending == "failed" else None
        message = _what_happened(program, place, measured, diagnosis, stall_seconds)
    if saved is not None:
        message += f" The {plural(len(saved.iteration_seconds), 'iteration')} before are saved as profile {saved.id}."
    if place.is_copy and str(place.directory) in measured.log.text():
        message += f" It ran in a copy: {place.directory} in its output is your {program.directory}."
    if not output_shown and measured.ending != "finished" and (output := measured.log.last_lines(_OUTPUT_LINES)):
        message += f" The end of its output:\n\n{output}"
    remedies = [Remedy({"stall_seconds": "1h"})] if measured.ending == "stalled" else []
    if diagnosis is not None and diagnosis.cause == "no_gpu" and (option := _cpu_option(program, place, diagnosis)):
        remedies = [Remedy(command="profile", program=f"{program.command_line} {option}")]
    return ProfilingError(message, saved, remedies=remedies)


def _time_limit_error(
    program: Program, measured: MeasuredRun, saved: Profile | None, max_seconds: float
) -> ProfilingError:
    """The error of a program that did not come to a second iteration in the time allowed."""
    message = f"`{program.command_line}` was stopped after {format_duration(max_seconds)}, the time allowed, "
    message += f"{_progress_phrase(measured)}."
    if saved is None:
        summary = summarize_events(measured.events)
        unseen = not summary.inside_python or summary.troubles
        message += f" Nothing was saved. {_why_no_iteration(measured)}".rstrip() if unseen else _seen(measured)
        return ProfilingError(f"{message} Allow it more time.", None, remedies=[_longer(10 * max_seconds)])
    first = saved.iteration_seconds[0]
    message += (
        f" The first iteration took {format_duration(first)} after {format_duration(saved.init_seconds or 0.0)} of "
        f"start-up and is saved as profile {saved.id}; an estimate needs at least {MIN_ITERATIONS} iterations, because "
        "the first one is not typical. Allow it more time."
    )
    return ProfilingError(message, saved, remedies=[_longer((saved.init_seconds or 0.0) + 8 * first)])


def _longer(seconds: float) -> Remedy:
    return Remedy({"max_seconds": write_duration(max(60.0, seconds))})


def _progress_phrase(measured: MeasuredRun) -> str:
    """`before its first iteration`, `after 3 iterations`."""
    count = count_iterations(measured.events)
    return f"after {plural(count, 'iteration')}" if count else "before its first iteration"


def _what_happened(
    program: Program, place: Workspace, measured: MeasuredRun, diagnosis: Diagnosis | None, stall_seconds: float
) -> str:
    name = f"`{program.command_line}`"
    match measured.ending:
        case "stalled":
            made_a_model = measured.startup is not None and measured.startup.model is not None
            why = f"{_seen(measured).lstrip()} " if made_a_model else _why_no_iteration(measured)
            return (
                f"{name} showed no iteration for {format_duration(stall_seconds)}, {_progress_phrase(measured)}, and "
                f"was stopped. {why}If it only needs longer, allow it more time to start."
            )
        case "failed":
            failed = f"{name} failed {_progress_phrase(measured)}"
            if diagnosis is not None:
                return f"{failed}. {_diagnosis_sentence(program, place, measured, diagnosis)}"
            if _was_killed(measured):
                return f"{failed}{_killed_sentence(measured)}"
            own_message = "See its own message." if measured.log.text().strip() else "It printed nothing."
            return f"{failed}{_exit_phrase(measured.exit_code)}. {own_message}"
    if count_iterations(measured.events):
        return (
            f"{name} ended after one training iteration; a profile needs {MIN_ITERATIONS}, because the first one is "
            "not typical. Let it train longer."
        )
    return f"{name} ended without a training iteration. {_why_no_iteration(measured)}".rstrip()


def _was_killed(measured: MeasuredRun) -> bool:
    """The program, or a process that a launcher of it reports, was killed by the kernel or by an administrator."""
    if measured.exit_code in _KILLED_EXIT_CODES:
        return True
    return measured.oom_killed and _KILLED_CHILD.search(measured.log.text()) is not None


def _killed_sentence(measured: MeasuredRun) -> str:
    """The reason of a SIGKILL: the kernel counts those for lack of memory."""
    peaks = [event["host_bytes"] for event in measured.events if event["event"] == "memory" and event.get("host_bytes")]
    peak = max([0 if measured.memory is None else measured.memory.peak_program_bytes, *peaks])
    used = f": it used {format_bytes(peak)}" if peak else ""
    if used and measured.memory is not None:
        used += f" of {format_bytes(measured.memory.total_bytes)}"
    if measured.oom_killed:
        model = None if measured.startup is None else measured.startup.model
        made = "" if model is None else f" It made {model_phrase(model)}, which need {need_phrase(model)}."
        return f": the kernel killed it because memory ran out (SIGKILL){used}.{made} {SMALLER_OR_ELSEWHERE}"
    return f", killed by SIGKILL, perhaps because memory ran out{used}. See its own message."


def _seen(measured: MeasuredRun) -> str:
    """Sentences about a program without an iteration; empty if there was one."""
    return "" if measured.startup is None else f" {seen_sentences(measured.startup)}"


def _exit_phrase(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return f" with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f", killed by {name}"


def _diagnosis_sentence(program: Program, place: Workspace, measured: MeasuredRun, found: Diagnosis) -> str:
    """The cause of the failure, with the line of the user's own program, and what to do."""
    file = None if found.file is None else _original(found.file, program, place)
    where = "" if file is None else f" at {file}:{found.line}"
    match found.cause:
        case "no_gpu":
            return (
                f"The program asks for a GPU{where}, and this machine has none that it can use ({found.message}). Let "
                "it train on the CPU for the profile, or profile it on a machine with a GPU."
            )
        case "gpu_memory":
            return f"The memory of the GPU ran out{where} ({found.message}). {SMALLER_OR_ELSEWHERE}"
        case "host_memory":
            total = measured.memory and f" of {format_bytes(measured.memory.total_bytes)}"
            return f"The memory{total or ''} of this machine ran out{where} ({found.message}). {SMALLER_OR_ELSEWHERE}"


def _original(file: str, program: Program, place: Workspace) -> str:
    """The user's own path of a file that ran in a copy of the folder, relative to the folder where possible."""
    path = Path(file)
    for folder in (place.directory, Path(program.directory)):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return file


def _cpu_option(program: Program, place: Workspace, found: Diagnosis) -> str | None:
    """An option of the program, found in its source, that makes it train on the CPU; None if it is in use already."""
    files = [found.file, *(word for word in program.command if word.endswith(".py"))]
    for file in filter(None, files):
        path = Path(program.directory) / _original(file, program, place)
        try:
            option = cpu_option(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if option is not None:
            return None if option in program.command_line else option
    return None


def _why_no_iteration(measured: MeasuredRun) -> str:
    """The reason why the probe saw no iteration; empty if it saw one, or if it may only need more time."""
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

"""Runs real programs with and without the probe, to compare its profile with what the programs report themselves."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from statistics import median, median_low
from typing import Any

from tests.makers import NOON
from tests.pythons import python_with
from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.events import build_profile, summarize_events
from trainfare.profiler.measure import MeasuredRun, measure

PROGRAMS = Path(__file__).parents[1] / "programs"
BIN = Path(sys.executable).parent
STALL_SECONDS = 240.0
"""Importing a framework on a busy machine takes long."""


@dataclass(frozen=True)
class ProfiledRun:
    """A run under the probe, its profile, and what the program itself reports."""

    measured: MeasuredRun
    profile: Profile
    own: dict[str, Any]
    """The JSON that the program prints about itself."""

    @property
    def notes(self) -> list[str]:
        return [event["text"] for event in self.measured.events if event["event"] == "note"]


def run(command: Sequence[str], *, iterations: int, trace: bool = True, directory: Path = PROGRAMS) -> MeasuredRun:
    return measure(
        Program(command=tuple(command), directory=str(directory)),
        iterations=iterations,
        stall_seconds=STALL_SECONDS,
        trace_operations=trace,
        on_progress=lambda _: None,
        on_output=None,
    )


def run_profiled(
    *arguments: str, backend: str | None = None, iterations: int = 25, trace: bool = True, forked: bool = True
) -> ProfiledRun:
    """Profile a program of tests/programs; `backend` is that of Keras. It runs in a fork of a Python that has imported
    its framework, or in a Python of its own, as at least one program of each framework does."""
    python = python_for(*arguments, backend=backend) if forked else sys.executable
    chosen = ["env", f"KERAS_BACKEND={backend}"] if backend else []
    return run_profiled_command([*chosen, python, *arguments], iterations=iterations, trace=trace)


WITHOUT_COMPILER = "import without_compiler"
"""What a program says that does not load the compiler of PyTorch."""


def python_for(program: str, *options: str, backend: str | None = None) -> str:
    """A Python that has imported what a program of tests/programs imports."""
    match program.partition("_")[0]:
        case "hf":
            models = ("transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2")
            return python_with("transformers.trainer", *models, "torch._dynamo")
        case "jax":
            return python_with("jax", "optax")
        case "keras" if "--two" in options:
            return python_with("tensorflow", "tf_keras", TF_USE_LEGACY_KERAS="1")
        case "keras":
            return python_with("keras", KERAS_BACKEND=backend or "tensorflow")
        case "lightning":
            return python_with("pytorch_lightning" if "--old" in options else "lightning.pytorch", "torch._dynamo")
        case "tf":
            return python_with("tensorflow", "keras")
    if "compiled" not in options and WITHOUT_COMPILER in (PROGRAMS / program).read_text():
        return python_with("torch")
    return python_with("torch", "torch._dynamo")


def run_profiled_command(
    command: Sequence[str], *, iterations: int = 25, trace: bool = True, directory: Path = PROGRAMS
) -> ProfiledRun:
    measured = run(command, iterations=iterations, trace=trace, directory=directory)
    output = measured.log.text()
    assert summarize_events(measured.events).troubles == (), output
    assert any(event["event"] == "iteration" for event in measured.events), output
    return ProfiledRun(measured, profile_from(measured), own_account(output))


def profile_from(measured: MeasuredRun) -> Profile:
    return build_profile(
        measured.events,
        id="p7k2",
        program=Program(command=("python",), directory="/"),
        host=Host(name="here"),
        measured_at=NOON,
        ending=measured.ending,
        started=measured.started,
    )


def run_alone(*arguments: str, backend: str | None = None, forked: bool = True) -> dict[str, Any]:
    """What the program reports about itself without the probe."""
    command = [python_for(*arguments, backend=backend) if forked else sys.executable, *arguments]
    environment = os.environ | ({"KERAS_BACKEND": backend} if backend else {})
    done = subprocess.run(command, cwd=PROGRAMS, env=environment, capture_output=True, text=True, check=True)
    return own_account(done.stdout)


def own_account(output: str) -> dict[str, Any]:
    line = next((line for line in output.splitlines() if line.startswith('{"')), "{}")
    account: dict[str, Any] = json.loads(line)
    return account


def assert_close(ours: Sequence[float], own: Sequence[float], *, seconds: float = 2e-4) -> None:
    """The difference per item is within 3 % or 0.2 ms, by one of two robust estimates of it.

    The median of the differences leaves out items that only one side counts whole, such as the first of an epoch. A
    busy machine interrupts a program between the two clocks, which lengthens one item and shortens the next: then the
    summed differences return to where they were, and their slope, a median over all pairs, leaves that out. A clock
    that is wrong in every item shows in both.
    """
    assert ours
    assert own
    differences = [a - b for a, b in zip(ours, own, strict=False)]
    summed = list(accumulate(differences, initial=0.0))
    slopes = [(later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(enumerate(summed), 2)]
    assert min(abs(median_low(differences)), abs(median(slopes))) < max(0.03 * median(own), seconds)


def within_epochs(found: ProfiledRun) -> tuple[list[float], list[float]]:
    """The iterations that are not the first of an epoch, by the profile and by the program, which reports the ends
    of each epoch after its start."""
    ours: list[float] = []
    own: list[float] = []
    at = 0
    for ends in found.own["ends"]:
        spans = [end - start for start, end in pairwise(ends)]
        ours += found.profile.iteration_seconds[at + 1 : at + len(spans)]
        own += spans[1:]
        at += len(spans)
    return ours, own[: len(ours)]

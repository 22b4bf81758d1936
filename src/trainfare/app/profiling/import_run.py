"""Imports a past run: reads its log and saves it as a Profile, without a rerun."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from trainfare.app.ids import new_id
from trainfare.app.profiling.save import add_to_history, find_machine
from trainfare.app.stated import StatedLength
from trainfare.errors import Remedy, UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs import csv_table, hugging_face, keras_csv, mlflow, spark, tensorboard, wandb
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.csv_table import TimeIs
from trainfare.profiler.past_runs.metric_names import is_validation
from trainfare.profiler.past_runs.run_log import Axis, RunLog, RunOverrides
from trainfare.settings import Settings, read_settings

Kind = Literal["tensorboard", "hf", "keras-csv", "mlflow", "wandb", "csv", "spark"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_MIN_TIMES = 2
"""Every estimate leaves out the first time as not typical."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFact:
    """A fact that estimates use and that the log of a past run does not contain."""

    name: str
    remedies: tuple[Remedy, ...]
    """Arguments of `import_run` that would add it, or the command that would measure it."""
    is_required: bool = False
    """There is no estimate without it, because a past run has no operations that could be moved to other machines."""


def import_run(
    kind: Kind,
    path: str | Path,
    *,
    batch_size: int | None = None,
    samples: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    iterations_per_epoch: int | None = None,
    command: str | None = None,
    on: str | None = None,
    framework: str | None = None,
    loss: str | None = None,
    steps_are: Axis | None = None,
    step_column: str | None = None,
    epoch_column: str | None = None,
    time_column: str | None = None,
    time_is: TimeIs | None = None,
    run: str | None = None,
    on_note: Callable[[str], None] = lambda _: None,
    settings: Settings | None = None,
) -> Profile:
    """Read the log of a past run at `path`, save it as a Profile and return it; arguments override the log.

    The program trains `epochs`, or `steps` iterations in all. `loss` names the training loss in the log, `steps_are`
    the unit of its steps. The columns and `time_is` are for a CSV file, `run` is the id of a run in an MLflow store.
    `on_note` gets sentences that say what was assumed or left out.
    """
    settings = settings or read_settings()
    stated = StatedLength(epochs=epochs, steps=steps)
    for name, number in {
        "batch_size": batch_size,
        "samples": samples,
        "iterations_per_epoch": iterations_per_epoch,
    }.items():
        if number is not None and number < 1:
            raise UsageError(f"must be an integer of at least 1, got {number}.", field=name)
    machine = None if on is None else find_machine(on, settings)
    overrides = RunOverrides(
        batch_size=batch_size,
        samples=samples,
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        loss=loss,
        steps_are=steps_are,
        command=_command_words(command),
        on=machine.key if machine is not None else None,
        gpu=machine.gpu.name if machine is not None and machine.gpu is not None and machine.gpus == 1 else None,
        framework=_framework(framework),
    )
    csv_options = {
        "step_column": step_column,
        "epoch_column": epoch_column,
        "time_column": time_column,
        "time_is": time_is,
    }
    _reject_options_of_another_kind(kind, "csv", csv_options)
    _reject_options_of_another_kind(kind, "mlflow", {"run": run})
    match kind:
        case "csv":
            log = csv_table.read(
                path, step_column=step_column, epoch_column=epoch_column, time_column=time_column, time_is=time_is
            )
        case "mlflow":
            log = mlflow.read(path, run=run)
        case _:
            log = _read(kind, path)
    try:
        profile, notes = profile_from_log(log, overrides, id=new_id("p"))
        (profile,) = stated.apply([profile])
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{log.source} cannot be imported: {error}.", field="path") from error
    profile = add_to_history(profile, settings.store)
    for note in notes:
        on_note(note)
    return profile


def _read(kind: str, path: str | Path) -> RunLog:
    readers = {
        "tensorboard": tensorboard.read,
        "hf": hugging_face.read,
        "keras-csv": keras_csv.read,
        "wandb": wandb.read,
        "spark": spark.read,
    }
    if kind not in readers:
        raise UsageError(f"there are no runs of kind {kind}; there are {', '.join(KINDS)}.", field="kind")
    return readers[kind](path)


def missing_facts(profile: Profile) -> tuple[MissingFact, ...]:
    """The facts that estimates use and that an imported profile lacks, each with the remedies."""
    iterations_per_epoch = (Remedy({"iterations_per_epoch": "N"}), Remedy({"samples": "N"}))
    facts = (
        (
            len(profile.iteration_seconds) >= _MIN_TIMES,
            MissingFact(name="time of an iteration", remedies=(_time_remedy(profile),), is_required=True),
        ),
        (
            profile.host.vm_type,
            MissingFact(name="machine it ran on", remedies=(Remedy({"on": "aws/g5.xlarge"}),), is_required=True),
        ),
        (profile.micro_batch_size, MissingFact(name="batch size", remedies=(Remedy({"batch_size": "N"}),))),
        (
            profile.iterations_per_epoch
            or (profile.samples and profile.micro_batch_size)
            or profile.planned_iterations,  # a training that is counted in iterations needs no epochs
            MissingFact(name="iterations per epoch", remedies=iterations_per_epoch, is_required=True),
        ),
        (
            profile.epochs or profile.planned_iterations,
            MissingFact(name="epochs to train", remedies=(Remedy({"epochs": "N"}),)),
        ),
        (
            len(profile.program.command) > 1,
            MissingFact(name="program", remedies=(Remedy({"command": "python train.py"}),)),
        ),
        (
            profile.framework != "unknown",
            MissingFact(name="framework", remedies=(Remedy({"framework": "pytorch"}),)),
        ),
    )
    return tuple(fact for is_known, fact in facts if not is_known)


def _time_remedy(profile: Profile) -> Remedy:
    """The iterations per epoch, if epochs without a validation were timed; else a measurement."""
    timed = any(epoch.seconds for epoch in profile.curve)
    validated = any(is_validation(name) for epoch in profile.curve for name in epoch.metrics)
    if timed and not validated and not profile.iterations_per_epoch:
        return Remedy({"iterations_per_epoch": "N"})
    return Remedy(command="profile", program="python train.py")


def _command_words(command: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command or ""))
    except ValueError as error:
        raise UsageError(f"{command} cannot be split into words: {error}.", field="command") from error
    if command is not None and not words:
        message = "is empty; give the command that started the program."
        raise UsageError(message, field="command", remedies=[Remedy({"command": "python train.py"})])
    return words


def _framework(framework: str | None) -> str | None:
    if framework is not None and not framework.strip():
        message = "is empty; give the name of the framework."
        raise UsageError(message, field="framework", remedies=[Remedy({"framework": "pytorch"})])
    return framework.strip().lower() if framework else None


def _reject_options_of_another_kind(kind: str, owner: str, options: dict[str, str | None]) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given and kind != owner:
        raise UsageError(f"is only for runs of kind {owner}, not for {kind}.", field=given[0])

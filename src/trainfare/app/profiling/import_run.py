"""A past run is a profile too: read what it left behind and keep it, without a rerun."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from trainfare.app.ids import new_id
from trainfare.app.profiling.save import machine_called
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.profiler.past_runs import csv_table, hf, keras_csv, mlflow, tensorboard, wandb
from trainfare.profiler.past_runs.csv_table import TimeIs
from trainfare.profiler.past_runs.run_log import Axis, Logged, Stated
from trainfare.profiler.past_runs.metric_names import is_validation
from trainfare.profiler.past_runs.build_profile import profile_of
from trainfare.settings import Settings, read_settings
from trainfare.store.history import AlreadyKept
from trainfare.store.open import open_history

Kind = Literal["tensorboard", "hf", "keras-csv", "mlflow", "wandb", "csv"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NEEDED = ("time of an iteration", "machine it ran on", "iterations an epoch")
"""Of what may be unknown: without these there is no estimate, since a past run has no operations to move elsewhere."""

_FEWEST_TIMES = 2
"""The first time is set aside as special by every estimate."""


def import_run(
    kind: Kind,
    path: str | Path,
    *,
    batch_size: int | None = None,
    samples: int | None = None,
    epochs: int | None = None,
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
    """The Profile of what a run left at `path`, kept in the store; what is stated counts more than what is found.

    `loss` names the training loss in the log, `steps_are` says what its steps count. The columns and `time_is` are of
    a CSV file, `run` is the id of a run in an MLflow store. `on_note` hears what was decided or left out.
    """
    settings = settings or read_settings()
    for name, number in {
        "--batch-size": batch_size,
        "--samples": samples,
        "--epochs": epochs,
        "--iterations-per-epoch": iterations_per_epoch,
    }.items():
        if number is not None and number < 1:
            raise UsageError(f"{name} {number} is not a positive number.")
    stated = Stated(
        batch_size=batch_size,
        samples=samples,
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        loss=loss,
        steps_are=steps_are,
        command=_words(command),
        on=machine_called(on, settings).key if on is not None else None,
        framework=_framework(framework),
    )
    of_csv = {
        "step_column": step_column,
        "epoch_column": epoch_column,
        "time_column": time_column,
        "time_is": time_is,
    }
    _refuse_foreign(kind, "csv", of_csv)
    _refuse_foreign(kind, "mlflow", {"run": run})
    match kind:
        case "csv":
            logged = csv_table.read(
                path, step_column=step_column, epoch_column=epoch_column, time_column=time_column, time_is=time_is
            )
        case "mlflow":
            logged = mlflow.read(path, run=run)
        case _:
            logged = _read(kind, path)
    return _keep(logged, stated, settings, on_note)


def _read(kind: str, path: str | Path) -> Logged:
    readers = {"tensorboard": tensorboard.read, "hf": hf.read, "keras-csv": keras_csv.read, "wandb": wandb.read}
    if kind not in readers:
        raise UsageError(f"there are no runs of kind {kind}; there are {', '.join(KINDS)}.")
    return readers[kind](path)


def _keep(logged: Logged, stated: Stated, settings: Settings, on_note: Callable[[str], None]) -> Profile:
    with open_history(settings.store) as history:
        while True:
            try:
                profile, notes = profile_of(logged, stated, id=new_id("p"))
            except (ValueError, OverflowError) as error:
                raise UsageError(f"{logged.source} cannot be imported: {error}.") from error
            try:
                history.add_profile(profile)
            except AlreadyKept:
                continue
            for note in notes:
                on_note(note)
            return profile


def not_known(profile: Profile) -> dict[str, str]:
    """What an estimate would need and the past run did not tell, each with the flag that adds it or what to do."""
    return {
        what: remedy
        for what, remedy, is_known in (
            (
                "time of an iteration",
                _time_remedy(profile),
                len(profile.iteration_seconds) >= _FEWEST_TIMES,
            ),
            ("machine it ran on", "--on aws/g5.xlarge", profile.host.vm_type),
            ("batch size", "--batch-size N", profile.micro_batch_size),
            ("iterations an epoch", "--iterations-per-epoch N, or --samples N", _knows_epoch(profile)),
            ("epochs to train", "--epochs N", profile.epochs),
            ("program", '--command "python train.py"', len(profile.program.command) > 1),
            ("framework", "--framework pytorch", profile.framework != "unknown"),
        )
        if not is_known
    }


def _time_remedy(profile: Profile) -> str:
    """Epochs that were timed and not validated are iterations, once it is known how many."""
    timed = any(epoch.seconds for epoch in profile.curve)
    validated = any(is_validation(name) for epoch in profile.curve for name in epoch.metrics)
    if timed and not validated and not profile.iterations_per_epoch:
        return "--iterations-per-epoch N"
    return "is not in the log: trainfare profile -- python train.py"


def _knows_epoch(profile: Profile) -> bool:
    return bool(profile.iterations_per_epoch or (profile.samples and profile.micro_batch_size))


def _words(command: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command or ""))
    except ValueError as error:
        raise UsageError(f"--command {command} cannot be taken apart: {error}.") from error
    if command is not None and not words:
        raise UsageError('--command is empty; write what starts the program: --command "python train.py".')
    return words


def _framework(framework: str | None) -> str | None:
    if framework is not None and not framework.strip():
        raise UsageError("--framework is empty; write its name, such as pytorch.")
    return framework.strip().lower() if framework else None


def _refuse_foreign(kind: str, owner: str, options: dict[str, str | None]) -> None:
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given and kind != owner:
        raise UsageError(f"{given[0]} is for trainfare import {owner}, not for {kind}.")

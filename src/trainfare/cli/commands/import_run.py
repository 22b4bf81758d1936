"""`trainfare import KIND PATH`: a past run becomes a profile, without a rerun."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from trainfare.app.profiling.import_run import import_run, missing_facts
from trainfare.cli.arguments import spell_remedy
from trainfare.cli.cards.profile import print_card
from trainfare.cli.console import out, print_json, print_note
from trainfare.cli.length_options import parse_whole_amount, whole
from trainfare.cli.options import Json, Store
from trainfare.errors import Remedy
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.units import format_duration, plural
from trainfare.views.profile import profile_record


class Kind(StrEnum):
    tensorboard = "tensorboard"
    hf = "hf"
    keras_csv = "keras-csv"
    mlflow = "mlflow"
    wandb = "wandb"
    csv = "csv"
    spark = "spark"


class StepsAre(StrEnum):
    iterations = "iterations"
    epochs = "epochs"


class TimeIs(StrEnum):
    moment = "moment"
    duration = "duration"


def import_(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="The library that wrote the log.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The log file or folder.")],
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Batch size.")] = None,
    samples: Annotated[int | None, typer.Option(metavar="N", help="Samples in the data set.")] = None,
    epochs: Annotated[float | None, typer.Option(metavar="N", help="Number of epochs the program trains.")] = None,
    steps: Annotated[str | None, typer.Option(metavar="N", help="Iterations the program trains in all.")] = None,
    iterations_per_epoch: Annotated[int | None, typer.Option(metavar="N", help="Iterations in an epoch.")] = None,
    command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help='The command: "python train.py --lr 0.1".')
    ] = None,
    on: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="The machine it ran on, such as aws/p3.2xlarge.")
    ] = None,
    framework: Annotated[str | None, typer.Option(metavar="NAME", help="Such as pytorch.")] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss", "--loss-tag", "--loss-column", metavar="NAME", help="Which tag, metric or column is the loss."
        ),
    ] = None,
    steps_are: Annotated[StepsAre | None, typer.Option(help="What a step in the log counts.")] = None,
    step_column: Annotated[str | None, typer.Option(metavar="NAME", help="csv: the column of the step.")] = None,
    epoch_column: Annotated[str | None, typer.Option(metavar="NAME", help="csv: the column of the epoch.")] = None,
    time_column: Annotated[str | None, typer.Option(metavar="NAME", help="csv: the column of the time.")] = None,
    time_is: Annotated[TimeIs | None, typer.Option(help="csv: a time stamp, or a duration.")] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="mlflow: which run of a store.")] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Make a profile of a past run from its logs, without a rerun.

    What the logs do not say stays unknown; options add it.
    """

    profile = import_run(
        kind.value,
        path,
        batch_size=batch_size,
        samples=samples,
        epochs=whole(epochs),
        steps=parse_whole_amount("steps", steps),
        iterations_per_epoch=iterations_per_epoch,
        command=command,
        on=on,
        framework=framework,
        loss=loss,
        steps_are=steps_are.value if steps_are else None,
        step_column=step_column,
        epoch_column=epoch_column,
        time_column=time_column,
        time_is=time_is.value if time_is else None,
        run=run,
        on_note=lambda note: print_note(f"note: {note}"),
        settings=read_settings({"store": store}),
    )
    if json:
        print_json(profile_record(profile))
    else:
        print_card(profile)
        _print_past(profile)
    _print_next(profile)


def _print_past(profile: Profile) -> None:
    """Print what only a past run has: its total time and its epochs."""

    facts = []
    if profile.run_seconds:
        within = f" for {plural(profile.run_iterations, 'iteration')}" if profile.run_iterations else ""
        facts.append(f"the run took {format_duration(profile.run_seconds)}{within}")
    if profile.curve:
        first, last = profile.curve[0], profile.curve[-1]
        metrics = "".join(f", {name} {value:.3g}" for name, value in list(last.metrics.items())[:3])
        losses = (
            f": loss {first.loss:.3g} → {last.loss:.3g}" if first.loss is not None and last.loss is not None else ""
        )
        facts.append(f"curve of {len(profile.curve)} epochs{losses}{metrics}")
    for fact in facts:
        out().print(Text(fact))


def _print_next(profile: Profile) -> None:
    print_note(
        f"profile {profile.id} stored: {profile.program.name}, {profile.measured_at.astimezone():%Y-%m-%d %H:%M}"
    )
    missing = missing_facts(profile)
    if missing:
        print_note("not known:")
        width = max(len(fact.name) for fact in missing)
        for fact in missing:
            print_note(f"  {fact.name:{width}}  {' or '.join(map(_spell_remedy, fact.remedies))}")
    if required := [fact.name for fact in missing if fact.is_required]:
        print_note(f"trainfare recommend cannot use it without: {', '.join(required)}")
    else:
        print_note(f"next: trainfare recommend {profile.id}")


def _spell_remedy(remedy: Remedy) -> str:
    """A remedy as a person types it; the options of this command have the names of the arguments."""
    return spell_remedy(remedy, {f"--{name.replace('_', '-')}" for name in remedy.arguments})

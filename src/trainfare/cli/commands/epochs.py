"""`trainfare epochs`: how many epochs a program needs, at its batch size or another."""

from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.recommending.epochs import epochs as ask
from trainfare.cli.cards.epochs import print_epochs
from trainfare.cli.cards.epochs_figure import draw, require_format
from trainfare.cli.console import print_json
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Json, Store
from trainfare.settings import read_settings
from trainfare.views.epochs import epochs_record


@expand_options
def epochs(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROFILE",
            help="Profiles of one program at one or more batch sizes; by default the newest.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, metavar="B", help="Answer for another batch size.", show_default=False),
    ] = None,
    length: LengthOptions,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The metric to use.", show_default="that of validation"),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE",
            help="Until the metric reaches this value, instead of until it is stable.",
            show_default=False,
        ),
    ] = None,
    seen: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use only the first N epochs.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the curve: .html, .png, .svg or .json.", show_default=False),
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Estimate how many epochs a program needs: from its schedule, its curve, other batch sizes."""

    if plot is not None:
        require_format(plot)
    report = ask(
        profile or (),
        batch_size=batch,
        **length.keywords,
        metric=metric,
        target=target,
        seen=seen,
        settings=read_settings({"store": store}),
    )
    if plot is not None:
        draw(report, plot)
    if json:
        print_json(epochs_record(report))
        return

    print_epochs(report, notes=[f"drawn as {plot}"] if plot else [])

"""`trainfare predict`: one iteration on a machine that was not measured, and what it is made of."""

from typing import Annotated

import typer

from trainfare.app.recommending import predict as app
from trainfare.cli.cards.prediction import print_prediction
from trainfare.cli.console import print_json
from trainfare.cli.length_options import ProfiledBatch
from trainfare.cli.options import Batch, Gpus, Json, Nodes, Store
from trainfare.settings import read_settings
from trainfare.views.prediction import prediction_report_record


def predict(
    on: Annotated[str, typer.Option(metavar="MACHINE", help="A machine type of the catalog, or a GPU such as H100.")],
    profile: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROFILE", help="By default the newest.", show_default=False),
    ] = None,
    batch: Batch = None,
    batch_size: ProfiledBatch = None,
    gpus: Gpus = None,
    nodes: Nodes = 1,
    server_mbps: Annotated[
        float | None,
        typer.Option(min=1, metavar="MBPS", help="Network of a parameter server, in Mbit/s.", show_default=False),
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Predict one iteration on another machine, and say why."""

    found = app.predict(
        profile or [],
        on=on,
        batch_size=batch,
        profiled_batch_size=batch_size,
        gpus=gpus,
        nodes=nodes,
        server_mbps=server_mbps,
        settings=read_settings({"store": store}),
    )
    if json:
        print_json(prediction_report_record(found))
        return

    print_prediction(found)

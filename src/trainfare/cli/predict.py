"""`trainfare predict`: one iteration on a machine that nobody measured, taken apart."""

from typing import Annotated

import typer

from trainfare.cli.options import Batch, Gpus, Json, Nodes, Store


def predict(
    on: Annotated[str, typer.Option(metavar="MACHINE", help="As `trainfare catalog` names it, or a GPU: H100.")],
    profile: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROFILE]...", help="The newest when none is named.", show_default=False),
    ] = None,
    batch: Batch = None,
    gpus: Gpus = None,
    nodes: Nodes = 1,
    server_mbps: Annotated[
        float | None,
        typer.Option(min=1, metavar="MBPS", help="The network of a parameter server, if any.", show_default=False),
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """How long an iteration takes elsewhere, and why."""
    from trainfare.app.recommending.predict import predict
    from trainfare.settings import read_settings

    found = predict(
        profile or [],
        on=on,
        batch_size=batch,
        gpus=gpus,
        nodes=nodes,
        server_mbps=server_mbps,
        settings=read_settings({"store": store}),
    )
    if json:
        from trainfare.app.records import prediction_report_record
        from trainfare.cli.console import print_json

        print_json(prediction_report_record(found))
        return
    from trainfare.cli.prediction_card import print_prediction

    print_prediction(found)

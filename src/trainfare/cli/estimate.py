"""`trainfare estimate`: how long and how much on one machine, and with --explain every line of the bill."""

from typing import Annotated

import typer

from trainfare.cli.options import (
    Batch,
    Boot,
    DataGib,
    DiskGib,
    Gpus,
    IterationsPerEpoch,
    Json,
    Nodes,
    ResultsGib,
    Setup,
    Store,
)


def estimate(
    on: Annotated[str, typer.Option(metavar="MACHINE", help="As `trainfare catalog list` names it.")],
    profile: Annotated[
        str | None,
        typer.Argument(metavar="[PROFILE]", help="The newest when none is named.", show_default=False),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="REGION", help="The cheapest when none is named.", show_default=False)
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="On the spot market.")] = False,
    reserved: Annotated[
        bool | None,
        typer.Option(
            "--reserved/--no-reserved",
            help="With a commitment, also one to be bought; or without.",
            show_default="one you hold",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many epochs to train.", show_default=False)
    ] = None,
    batch: Batch = None,
    gpus: Gpus = None,
    nodes: Nodes = 1,
    iterations_per_epoch: IterationsPerEpoch = None,
    explain: Annotated[bool, typer.Option("--explain", help="Every line with its formula and numbers.")] = False,
    boot: Boot = None,
    setup: Setup = None,
    disk_gib: DiskGib = None,
    data_gib: DataGib = None,
    results_gib: ResultsGib = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """How long and how much on one machine."""
    from trainfare.app.recommending.estimate import estimate
    from trainfare.model.bill import Overheads
    from trainfare.settings import read_settings

    found = estimate(
        profile,
        on=on,
        region=region,
        spot=spot,
        reserved=reserved,
        nodes=nodes,
        gpus=gpus,
        batch_size=batch,
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        overheads=Overheads(disk_gib=disk_gib, data_gib=data_gib, results_gib=results_gib),
        settings=read_settings({"store": store, "boot_seconds": boot, "setup_seconds": setup}),
    )
    if json:
        from trainfare.app.records import estimation_record
        from trainfare.cli.console import print_json

        print_json(estimation_record(found))
        return
    from trainfare.cli.bill_card import print_estimate

    print_estimate(found.estimate, found.remarks, explain=explain)

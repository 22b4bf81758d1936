"""`trainfare estimate`: how long and how much on one machine, and with --explain every line of the bill."""

from typing import Annotated

import typer

from trainfare.app.recommending import estimate as app
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.bill import print_estimate
from trainfare.cli.console import print_json
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import (
    Batch,
    Boot,
    DataGib,
    DiskGib,
    Gpus,
    Json,
    Nodes,
    ResultsGib,
    Setup,
    Store,
)
from trainfare.model.bill import Overheads
from trainfare.settings import read_settings
from trainfare.views.reasons import sentence
from trainfare.views.recommendation import estimation_record


@expand_options
def estimate(
    *,
    on: Annotated[
        str, typer.Option(metavar="MACHINE", help="A machine type, or a GPU (the cheapest machine with one).")
    ],
    profile: Annotated[
        str | None,
        typer.Argument(metavar="PROFILE", help="By default the newest.", show_default=False),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="REGION", help="By default the cheapest.", show_default=False)
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="On the spot market.")] = False,
    reserved: Annotated[
        bool | None,
        typer.Option(
            "--reserved/--no-reserved",
            help="Use a commitment, even one to buy; or none.",
            show_default="one you hold",
        ),
    ] = None,
    length: LengthOptions,
    batch: Batch = None,
    gpus: Gpus = None,
    nodes: Nodes = 1,
    explain: Annotated[bool, typer.Option("--explain", help="Show every line with its formula and numbers.")] = False,
    boot: Boot = None,
    setup: Setup = None,
    disk_gib: DiskGib = None,
    data_gib: DataGib = None,
    results_gib: ResultsGib = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Estimate time and cost on one machine."""

    found = app.estimate(
        profile,
        on=on,
        region=region,
        spot=spot,
        reserved=reserved,
        nodes=nodes,
        gpus=gpus,
        batch_size=batch,
        **length.keywords,
        overheads=Overheads(disk_gib=disk_gib, data_gib=data_gib, results_gib=results_gib),
        settings=read_settings({"store": store, "boot_seconds": boot, "setup_seconds": setup}),
    )
    if json:
        print_json(estimation_record(found.estimate, found.remarks, spell_arguments))
        return

    remarks = [sentence(remark, spell_arguments) for remark in found.remarks]
    print_estimate(found.estimate, remarks, explain=explain)

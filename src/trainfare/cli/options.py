"""Options that several commands have, worded once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Profiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROFILE",
        help="Profiles of one program; by default the newest.",
        show_default=False,
    ),
]
GoalKind = Annotated[
    Literal["cheapest", "fastest"] | None,
    typer.Option(metavar="cheapest|fastest", help="What to optimise (--budget alone: fastest).", show_default=False),
]
WeightTime = Annotated[
    float | None,
    typer.Option(metavar="W", help="Weigh time by W and cost by 1 - W (0 to 1).", show_default=False),
]
Deadline = Annotated[str | None, typer.Option(metavar="TIME", help="Maximum time: 3h, 90min, 2d.", show_default=False)]
Budget = Annotated[float | None, typer.Option(metavar="USD", help="Maximum cost.", show_default=False)]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT=NAME",
        help="provider, region, gpu, gpu-gib, machine; yours.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Not this machine, provider, GPU, region; here.",
        show_default=False,
    ),
]
Spot = Annotated[bool, typer.Option("--spot", help="Consider spot machines too.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help="Store: a file or a PostgreSQL URL.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
IterationsPerEpoch = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Iterations per epoch, if unknown.", show_default=False),
]
Boot = Annotated[str | None, typer.Option(metavar="TIME", help="Time to boot a machine.", show_default=False)]
Setup = Annotated[str | None, typer.Option(metavar="TIME", help="Time to set up a machine.", show_default=False)]
DiskGib = Annotated[float | None, typer.Option(min=0, metavar="GIB", help="Disk size.", show_default="100")]
DataGib = Annotated[
    float | None, typer.Option(min=0, metavar="GIB", help="Data to download first.", show_default=False)
]
ResultsGib = Annotated[
    float | None,
    typer.Option(min=0, metavar="GIB", help="Results to download (a checkpoint).", show_default=False),
]
Batch = Annotated[
    int | None,
    typer.Option(min=1, metavar="B", help="Effective batch size, over all GPUs.", show_default="as profiled"),
]
Gpus = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="GPUs used per machine.", show_default="1; all on several nodes"),
]
Nodes = Annotated[int, typer.Option(min=1, metavar="N", help="Number of machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no output and no progress.")]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw it: .html, .png, .svg, .json (repeatable).", show_default=False),
]

"""Options that several commands have, worded once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Profiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROFILE]...",
        help="Profiles of one program, one per machine; by default the newest.",
        show_default=False,
    ),
]
GoalKind = Annotated[
    Literal["cheapest", "fastest"] | None,
    typer.Option(
        metavar="cheapest|fastest", help="What to optimise; with --budget alone the fastest.", show_default=False
    ),
]
WeightTime = Annotated[
    float | None,
    typer.Option(metavar="W", help="Weigh time by W and cost by 1 - W (0 to 1).", show_default=False),
]
Deadline = Annotated[
    str | None, typer.Option(metavar="TIME", help="It must end within this time: 3h, 90min, 2d.", show_default=False)
]
Budget = Annotated[
    float | None, typer.Option(metavar="USD", help="It must not cost more than this.", show_default=False)
]
Epochs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of epochs to train.", show_default=False)]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT=NAME",
        help="Only this provider, region, machine, gpu or gpu-gib; or `yours` (repeatable).",
        show_default=False,
    ),
]
Spot = Annotated[bool, typer.Option("--spot", help="Consider spot machines too.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help="Another history: a file or a PostgreSQL URL.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
IterationsPerEpoch = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Iterations per epoch, where the program does not say.", show_default=False),
]
Boot = Annotated[str | None, typer.Option(metavar="TIME", help="Time to boot a machine.", show_default=False)]
Setup = Annotated[str | None, typer.Option(metavar="TIME", help="Time to set it up.", show_default=False)]
DiskGib = Annotated[float | None, typer.Option(min=0, metavar="GIB", help="Disk size.", show_default="100")]
DataGib = Annotated[
    float | None, typer.Option(min=0, metavar="GIB", help="Data to download first.", show_default=False)
]
ResultsGib = Annotated[
    float | None, typer.Option(min=0, metavar="GIB", help="Results to bring home.", show_default="a checkpoint")
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show neither the program's output nor progress.")]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw a figure: .html, .png, .svg or .json (repeatable).", show_default=False),
]

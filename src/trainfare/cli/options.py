"""Options that several commands have, worded once."""

from typing import Annotated, Literal

import typer

Profiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROFILE]...",
        help="Profiles of one program, one a machine; the newest when none is named.",
        show_default=False,
    ),
]
GoalKind = Annotated[
    Literal["cheapest", "fastest"] | None,
    typer.Option(metavar="cheapest|fastest", help="What to look for; in a --budget the fastest.", show_default=False),
]
WeightTime = Annotated[
    float | None, typer.Option(metavar="W", help="Both: W of time and 1 − W of cost.", show_default=False)
]
Deadline = Annotated[
    str | None, typer.Option(metavar="TIME", help="It must end within: 3h, 90min, 2d.", show_default=False)
]
Budget = Annotated[float | None, typer.Option(metavar="USD", help="It must not cost more.", show_default=False)]
Epochs = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many epochs to train.", show_default=False)]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT=NAME",
        help="Of a provider, region, machine, gpu, or gpu-gib; or --only yours. Repeat it.",
        show_default=False,
    ),
]
Spot = Annotated[bool, typer.Option("--spot", help="Spot machines may be chosen too.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help="Another history: a file or a PostgreSQL URL.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
IterationsPerEpoch = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Where the program does not tell.", show_default=False)
]
Boot = Annotated[str | None, typer.Option(metavar="TIME", help="How long a machine boots.", show_default=False)]
Setup = Annotated[str | None, typer.Option(metavar="TIME", help="How long it is set up.", show_default=False)]
DiskGib = Annotated[float | None, typer.Option(min=0, metavar="GIB", help="Its disk.", show_default="100")]
DataGib = Annotated[
    float | None, typer.Option(min=0, metavar="GIB", help="Data to bring there first.", show_default=False)
]
ResultsGib = Annotated[
    float | None, typer.Option(min=0, metavar="GIB", help="Results; else a checkpoint.", show_default=False)
]
Batch = Annotated[
    int | None, typer.Option(min=1, metavar="B", help="Of all GPUs together.", show_default="as profiled")
]
Gpus = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Of each machine.", show_default="1; all on several nodes")
]
Nodes = Annotated[int, typer.Option(min=1, metavar="N", help="How many such machines.")]

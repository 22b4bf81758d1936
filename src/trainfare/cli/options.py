"""Options that several commands have, worded once."""

from typing import Annotated

import typer

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

"""Options that several commands have, worded once."""

from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help="Another history: a file or a PostgreSQL URL.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

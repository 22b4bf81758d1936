"""`trainfare token`: who may use a server."""

import sys
from typing import Annotated, Literal

import typer
from rich.text import Text

from trainfare.app.serving.tokens import create_token, list_tokens, revoke_token
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.cli.parsing import parse_seconds
from trainfare.settings import read_settings
from trainfare.store.server import save_token
from trainfare.units import format_usd
from trainfare.views.access import token_record

app = typer.Typer(help="Who may use a server: create, list, revoke tokens.", no_args_is_help=True)


@app.command()
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")],
    role: Annotated[
        Literal["viewer", "member", "admin"],
        typer.Option(help="A viewer reads, a member spends, an admin gives both."),
    ] = "member",
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Valid for this long: 30d, 12h.", show_default=False)
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="USD", help="The most that their runs may cost a month.", show_default=False),
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Create a token. It is shown once."""
    made = create_token(
        user,
        role,
        seconds=None if expires is None else parse_seconds("expires", expires),
        budget_usd=budget,
        settings=read_settings({"store": store}),
    )
    if json:
        print_json(token_record(made.token) | {"token": made.secret})
        return
    out().print(Text(made.secret), soft_wrap=True)
    print_note(f"This is the token {made.token.id} of {made.token.user}, in the role {role}. It is not shown again.")


@app.command()
def save(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the server.")],
) -> None:
    """Store a token of yours for `trainfare --server URL`, in a file that only you can read."""
    secret = typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    path = save_token(url, secret.strip())
    print_note(f"The token for {url} is stored in {path}.")


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the tokens that are valid."""
    tokens = list_tokens(settings=read_settings({"store": store}))
    if json:
        print_json([token_record(token) for token in tokens])
        return
    if not tokens:
        print_note("There are no tokens yet. Create one: trainfare token create NAME")
        return
    table = new_table()
    for column in ("token", "user", "role", "for", "made", "expires", "budget a month"):
        table.add_column(column)
    for token in tokens:
        table.add_row(
            token.id,
            Text(token.user),
            token.role,
            token.purpose,
            f"{token.made_at:%Y-%m-%d}",
            f"{token.expires_at:%Y-%m-%d %H:%M}" if token.expires_at else "never",
            "–" if token.budget_usd is None else format_usd(token.budget_usd),
        )
    out().print(table)


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The id of the token, as `token list` shows it.")],
    store: Store = None,
) -> None:
    """End a token; whoever has it is refused from now on."""
    revoke_token(token, settings=read_settings({"store": store}))
    print_note(f"{token} is revoked.")

"""The command `trainfare`. Each command is parse → one app call → render, in the file of its name."""

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trainfare import __version__
from trainfare.cli import catalog, plans, profiles, schedule
from trainfare.cli.calibrate import calibrate
from trainfare.cli.cluster import cluster
from trainfare.cli.compare import compare
from trainfare.cli.epochs import epochs
from trainfare.cli.estimate import estimate
from trainfare.cli.past import import_
from trainfare.cli.predict import predict
from trainfare.cli.probe import probe
from trainfare.cli.profile import profile
from trainfare.cli.recommend import recommend
from trainfare.cli.reproduce import reproduce
from trainfare.cli.settings import settings
from trainfare.errors import TrainfareError


class _Commands(TyperGroup):
    """Lists commands alone, so that help fits a screen: the few options stand in the first line, and the manual has
    those for completion."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Here and not as Typer's `options_metavar`, which groups below would inherit without having the option."""
        return ["[--version] [-h]", *super().collect_usage_pieces(ctx)[1:]]


app = typer.Typer(
    name="trainfare",
    cls=_Commands,
    help="Which machine should I train on? Start: trainfare profile -- python train.py",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trainfare {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command(context_settings={"allow_interspersed_args": False})(profile)
app.command("import")(import_)
app.command()(recommend)
app.command()(probe)
app.command()(compare)
app.command()(cluster)
app.command()(estimate)
app.command()(predict)
app.command()(epochs)
app.add_typer(schedule.app, name="schedule")
app.add_typer(profiles.app, name="profiles")
app.add_typer(plans.app, name="plans")
app.add_typer(catalog.app, name="catalog")
app.command()(calibrate)
app.command()(reproduce)
app.command()(settings)


def run() -> None:
    """Entry point: errors the user can act on become one paragraph and an exit code, never a traceback."""
    from trainfare.cli.console import print_error

    try:
        app()
    except TrainfareError as error:
        print_error(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our stdout has gone (`trainfare catalog list | head`): nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()

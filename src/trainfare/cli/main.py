"""The command `trainfare`. Each command is parse → one app call → render, in a file of `commands/`;
`cards/` has what several of them print.

A command's file is imported when that command is run, so `trainfare --help` starts quickly and command files import at
their top what they need.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trainfare import __version__
from trainfare.cli.arguments import spell_error
from trainfare.errors import TrainfareError, UsageError

COMMANDS = {
    "profile": ("trainfare.cli.commands.profile:profile", "Measure a few iterations of a program."),
    "import": ("trainfare.cli.commands.import_run:import_", "Make a profile of a past run, without a rerun."),
    "recommend": ("trainfare.cli.commands.recommend:recommend", "Recommend a machine: time, cost and confidence."),
    "probe": ("trainfare.cli.commands.probe:probe", "Take measurements that save more than they cost."),
    "compare": ("trainfare.cli.commands.compare:compare", "Compare the machines that a program was measured on."),
    "cluster": ("trainfare.cli.commands.cluster:cluster", "Choose the workers of a parameter server."),
    "estimate": ("trainfare.cli.commands.estimate:estimate", "Estimate time and cost on one machine."),
    "predict": ("trainfare.cli.commands.predict:predict", "Predict one iteration on another machine."),
    "epochs": ("trainfare.cli.commands.epochs:epochs", "Estimate how many epochs a program needs."),
    "train": ("trainfare.cli.commands.run:train", "From a program to a receipt: recommend and run it."),
    "run": ("trainfare.cli.commands.run:run", "Run a training on a machine; print its receipt."),
    "watch": ("trainfare.cli.commands.run:watch", "Watch a run."),
    "logs": ("trainfare.cli.commands.run:logs", "Print the output of a run."),
    "stop": ("trainfare.cli.commands.run:stop", "Stop a run, and bring its results home."),
    "move": ("trainfare.cli.commands.run:move", "Move a run to another machine, where it goes on."),
    "receipt": ("trainfare.cli.commands.run:receipt", "Show a run's predicted and real time and cost."),
    "runs": ("trainfare.cli.commands.runs:app", "Runs: list, show."),
    "results": ("trainfare.cli.commands.results:results", "Bring the results of a run to a folder."),
    "export": ("trainfare.cli.commands.export:export", "Write a run or a plan as a file for another tool."),
    "accuracy": ("trainfare.cli.commands.accuracy:accuracy", "Predicted against paid, over all your runs."),
    "costs": ("trainfare.cli.commands.costs:costs", "What your runs have cost, by day, program, machine, user."),
    "reap": ("trainfare.cli.commands.run:reap", "End machines that no run needs."),
    "doors": ("trainfare.cli.commands.doors:app", "Which machines can be reached, and what is missing."),
    "schedule": ("trainfare.cli.commands.schedule:app", "Simulate queues of jobs, and compare policies."),
    "queue": ("trainfare.cli.commands.queue:app", "A team's jobs: submit, list, plan, cancel."),
    "profiles": ("trainfare.cli.commands.profiles:app", "Stored profiles: list, show, remove, import."),
    "plans": ("trainfare.cli.commands.plans:app", "Stored plans: list, show."),
    "catalog": ("trainfare.cli.commands.catalog:app", "Machines and GPUs: list, show, import prices."),
    "hosts": ("trainfare.cli.commands.hosts:app", "What is kept on your servers: list, clean."),
    "calibrate": ("trainfare.cli.commands.calibrate:calibrate", "Fit the prediction to your own measurements."),
    "reproduce": ("trainfare.cli.commands.reproduce:reproduce", "Recompute the published tables."),
    "serve": ("trainfare.cli.commands.serve:serve", "Serve the pages and the REST API."),
    "token": ("trainfare.cli.commands.token:app", "Who may use a server: create, list, revoke tokens."),
    "settings": ("trainfare.cli.commands.settings:settings", "Show the settings and where each was set."),
}
"""Name → where the command is, and its line in the help."""

TOGETHER = {
    ("estimate", "predict"): "One machine: time and cost, or one iteration.",
    ("probe", "epochs"): "Measurements that pay; how many epochs are needed.",
    ("watch", "logs", "stop"): "A run: watch it, print its output, end it.",
    ("receipt", "costs"): "What a run was predicted to cost and did; all runs.",
    ("compare", "cluster"): "Compare measured machines; choose a server's workers.",
    ("run", "move", "export"): "Run a training, move it, write it for other tools.",
    ("results", "runs", "reap"): "A run's results, all runs, leftovers.",
    ("doors", "hosts"): "Machines within reach; what your servers keep.",
    ("profiles", "import"): "Stored profiles; a profile of a past run.",
    ("plans", "accuracy"): "Stored plans; predicted against paid, over all runs.",
    ("calibrate", "reproduce"): "Fit the prediction; recompute published tables.",
    ("serve", "token"): "Serve the pages and the API; who may use them.",
}
"""Commands that share a line in the help, so that it fits a screen."""

CONTEXT = {name: {"allow_interspersed_args": False} for name in ("profile", "train", "run", "cluster")}
"""Settings of single commands: what follows `--` belongs to the program."""


ON_SERVER = {
    **dict.fromkeys(("profile", "recommend", "train", "run", "watch", "logs", "stop", "receipt", "runs", "results")),
    **dict.fromkeys(("export", "accuracy", "costs", "plans", "compare", "epochs", "settings")),
    "profiles": ("list", "show", "rm"),
    "queue": ("submit", "list", "cancel"),
    "token": ("save",),
}
"""Commands that `--server` is for; of groups, the commands in them, None being all."""


class LazyCommand(TyperCommand):
    """A name and a line of help; the command itself is imported by `load`."""

    def __init__(self, name: str, target: str, help_line: str) -> None:
        super().__init__(name=name, help=help_line)
        self.target = target

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            found.rich_markup_mode = None
            group = typer.main.get_group(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(self.name, context_settings=CONTEXT.get(self.name or ""))(found)
        return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """Imports a command when it is run. Its help lists commands alone, so that it fits a screen: the few options stand
    in the first line, and the manual has those for completion."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (target, help_line) in COMMANDS.items():
            self.commands[name] = LazyCommand(name, target, help_line)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 # the signature is Typer's
        found = self.commands.get(cmd_name)
        return found.load() if isinstance(found, LazyCommand) else found

    def invoke(self, ctx: Any) -> Any:
        if (server := ctx.params.get("server")) is not None:
            os.environ["TRAINFARE_SERVER"] = server  # every part of this process reads its settings from there
        refuse_at_server([*ctx._protected_args, *ctx.args])  # noqa: SLF001 # the words that Click has not parsed
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 # the signature is Typer's
        rows = {name: (name, help_line) for name, (_, help_line) in COMMANDS.items()}
        for names, help_line in TOGETHER.items():
            rows[names[0]] = (", ".join(names), help_line)
            for name in names[1:]:
                del rows[name]
        with formatter.section("Commands"):
            formatter.write_dl(list(rows.values()))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Here and not as Typer's `options_metavar`, which groups below would inherit without having the option."""
        return ["[--version] [--server URL] [-h]", *super().collect_usage_pieces(ctx)[1:]]


app = typer.Typer(
    name="trainfare",
    cls=LazyGroup,
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
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Ask this server.", show_default=False)
    ] = None,
) -> None:
    pass


def refuse_at_server(words: Sequence[str]) -> None:
    """Refuse a command that can only be run where the store is, if a server is asked."""
    if not os.environ.get("TRAINFARE_SERVER"):
        return
    if not words:
        return
    name, *rest = words
    below = ON_SERVER.get(name, ())
    shown = name if below is None or name not in ON_SERVER else f"{name} {rest[0] if rest else ''}".strip()
    if below is not None and (not rest or rest[0] not in (*below, "--help", "-h")):
        raise UsageError(f"`trainfare {shown}` does not work with a server; run it on the server's own machine.")


def options_of(words: Sequence[str]) -> frozenset[str]:
    """The options of the command that these words run: those of `queue plan` for `queue plan --nodes 2`."""
    command: Any = typer.main.get_command(app)
    context = typer.Context(command)
    for word in words:
        found = command.get_command(context, word) if isinstance(command, TyperGroup) else None
        if found is None:
            break
        command = found
    return frozenset(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))


def words_of_command(words: Sequence[str]) -> Sequence[str]:
    """The words without the options that stand before the command."""
    while words and words[0].startswith("--server"):
        words = words[1:] if "=" in words[0] else words[2:]
    return words


def run() -> None:
    """Run the command: an error the user can act on becomes one paragraph and an exit code, never a traceback."""
    try:
        app()
    except TrainfareError as error:
        from trainfare.cli.console import print_error  # loads rich, which a command that succeeds may not need

        print_error(spell_error(error, words_of_command(sys.argv[1:]), options_of))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our stdout has gone (`trainfare catalog list | head`): nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()

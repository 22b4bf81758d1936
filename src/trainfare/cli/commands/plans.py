"""`trainfare plans`: the stored plans."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from trainfare.app.recommending.plans import list_plans, show_plan
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.plan import print_plan
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.model.plan import Plan
from trainfare.recommender.names import machine_name
from trainfare.settings import read_settings
from trainfare.units import format_ago, format_duration, format_usd
from trainfare.views.recommendation import plan_record

app = typer.Typer(help="Stored plans: list, show.", no_args_is_help=True)


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the plans, the newest first."""

    stored = list_plans(settings=read_settings({"store": store}))
    for sentence in stored.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([plan_record(plan, spell_arguments) for plan in stored.plans])
    elif stored.plans:
        _print_table(stored.plans)
    elif not stored.damaged:
        print_note("There are no plans yet. Make one: trainfare recommend")


@app.command("show")
def show_command(
    plan_id: Annotated[str, typer.Argument(metavar="ID", help="As `trainfare plans list` shows it.")],
    json: Json = False,
    store: Store = None,
) -> None:
    """Show a plan as it was recommended, with the prices of that day."""

    plan = show_plan(plan_id, settings=read_settings({"store": store}))
    if json:
        print_json(plan_record(plan, spell_arguments))
    else:
        made = f"plan {plan.id} of {plan.made_at:%Y-%m-%d %H:%M} UTC"
        print_plan(plan, (plan.chosen, *plan.runners_up), notes=[made])


def _print_table(plans: tuple[Plan, ...]) -> None:
    table = new_table()
    for name in ("plan", "goal", "profile", "machine"):
        table.add_column(name, overflow="fold")
    for name in ("epochs", "time", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("made", no_wrap=True)
    for plan in plans:
        chosen = plan.chosen
        table.add_row(
            plan.id,
            plan.goal.kind,
            chosen.profile_id,
            machine_name(chosen.candidate.offer),
            str(chosen.epochs),
            format_duration(chosen.seconds.value),
            format_usd(chosen.usd.value),
            format_ago(plan.made_at, datetime.now(UTC)),
        )
    out().print(table)

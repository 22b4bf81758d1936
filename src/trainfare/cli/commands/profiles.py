"""`trainfare profiles`: the stored profiles."""

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from trainfare.app.profiling.profiles import import_profile, list_profiles, remove_profiles, show_profile
from trainfare.cli.cards.profile import iteration_time, print_card
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.cli.use_cases import show_log
from trainfare.errors import UsageError
from trainfare.model.profile import Profile
from trainfare.settings import read_settings
from trainfare.units import format_ago
from trainfare.views.profile import profile_record
from trainfare.views.programs import distinct_names

app = typer.Typer(help="Stored profiles: list, show, remove, import.", no_args_is_help=True)

ProfileId = Annotated[str, typer.Argument(metavar="ID", help="As `trainfare profiles list` shows it.")]


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the profiles, the newest first."""

    stored = list_profiles(settings=read_settings({"store": store}))
    for sentence in stored.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([profile_record(profile) for profile in stored.profiles])
    elif stored.profiles:
        _print_table(stored.profiles)
    elif not stored.damaged:
        print_note("There are no profiles yet. Make one: trainfare profile -- python train.py")


@app.command("show")
def show_command(
    profile_id: ProfileId,
    log: Annotated[bool, typer.Option("--log", help="What the program printed while it was measured.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Show what one profile measured."""

    settings = read_settings({"store": store})
    if log:
        text = show_log(profile_id, settings=settings)
        if json:
            print_json({"profile": profile_id, "log": text})
        else:
            typer.echo(text, nl=not text.endswith("\n"))
        return
    profile = show_profile(profile_id, settings=settings)
    if json:
        print_json(profile_record(profile))
    else:
        _print_profile(profile)


@app.command("rm")
def rm_command(
    profile_ids: Annotated[list[str], typer.Argument(metavar="ID", help="As `trainfare profiles list` shows them.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Remove profiles; plans that are based on them can still be shown."""

    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to confirm the removal; pass --yes. Nothing was removed.")
        typer.confirm(f"Remove {', '.join(profile_ids)}?", abort=True, err=True)
    removed = remove_profiles(profile_ids, settings=read_settings({"store": store}))
    if json:
        print_json({"removed": removed})
    else:
        print_note(f"removed {', '.join(removed)}")


@app.command("import")
def import_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What `trainfare profiles show ID --json` printed; - is stdin.")
    ],
    json: Json = False,
    store: Store = None,
) -> None:
    """Import a profile that was measured on another machine."""

    imported = import_profile(file, settings=read_settings({"store": store}))
    profile = imported.profile
    if json:
        print_json({"imported": profile.id, "is_new": imported.is_new})
        return
    if imported.is_new:
        print_note(f"profile {profile.id} stored: {profile.program.name}, measured on {machine_of(profile)}")
    else:
        print_note(f"profile {profile.id} is already stored")
    print_note(f"next: trainfare recommend {profile.id}")


def machine_of(profile: Profile) -> str:
    return profile.host.vm_type or profile.host.name


def _print_table(profiles: tuple[Profile, ...]) -> None:
    table = new_table()
    for name, justify in (("profile", "left"), ("program", "left"), ("batch", "right"), ("iteration", "right")):
        table.add_column(name, justify=justify, no_wrap=name != "program")  # type: ignore[arg-type] # rich wants a literal, and `justify` is one of its words
    table.add_column("machine", overflow="fold")
    table.add_column("measured", no_wrap=True)
    now = datetime.now(UTC)
    names = distinct_names([profile.program for profile in profiles])
    for profile, name in zip(profiles, names, strict=True):
        table.add_row(
            Text(profile.id, style="bold"),
            Text(name),
            str(profile.effective_batch_size or "–"),
            iteration_time(profile),
            Text(machine_of(profile)),
            format_ago(profile.measured_at, now),
        )
    out().print(table)


def _print_profile(profile: Profile) -> None:
    when = f"{profile.measured_at.astimezone():%Y-%m-%d %H:%M}, {format_ago(profile.measured_at, datetime.now(UTC))}"
    out().print(Text.assemble((profile.id, "bold"), f"  {profile.program.command_line}"))
    out().print(Text(f"measured on {machine_of(profile)}, {when}{_ENDINGS[profile.ending]}"))
    print_card(profile)


_ENDINGS = {
    "enough": "",
    "time_limit": "; the time was up",
    "finished": "; the program ended by itself",
    "interrupted": "; it was interrupted",
    "failed": "; the program failed",
    "stalled": "; the program made no progress and was stopped",
}

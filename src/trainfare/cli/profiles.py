"""`trainfare profiles`: what has been measured and kept."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trainfare.cli.options import Json, Store

if TYPE_CHECKING:
    from trainfare.model.profile import Profile

app = typer.Typer(help="List, look at, remove or import profiles that are kept.", no_args_is_help=True)

ProfileId = Annotated[str, typer.Argument(metavar="ID", help="As `trainfare profiles list` shows it.")]


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the profiles, the newest first."""
    from trainfare.app.profiling.profiles import list_profiles
    from trainfare.app.records import profile_record
    from trainfare.cli.console import print_json, print_note
    from trainfare.settings import read_settings

    kept = list_profiles(settings=read_settings({"store": store}))
    for sentence in kept.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([profile_record(profile) for profile in kept.profiles])
    elif kept.profiles:
        _print_table(kept.profiles)
    elif not kept.damaged:
        print_note("There are no profiles yet. Make one: trainfare profile -- python train.py")


@app.command("show")
def show_command(
    profile_id: ProfileId,
    log: Annotated[bool, typer.Option("--log", help="What the program printed while it was measured.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Show what one profile measured."""
    from trainfare.app.profiling.profiles import show_log, show_profile
    from trainfare.app.records import profile_record
    from trainfare.cli.console import print_json
    from trainfare.settings import read_settings

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
    """Take profiles off the list; estimates that lean on them stay explained."""
    from trainfare.app.profiling.profiles import remove_profiles
    from trainfare.cli.console import print_json, print_note
    from trainfare.errors import UsageError
    from trainfare.settings import read_settings

    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody is here to ask whether to remove profiles; say --yes. None was removed.")
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
    """Keep a profile that was measured on another machine."""
    from trainfare.app.profiling.profiles import import_profile
    from trainfare.cli.console import print_json, print_note
    from trainfare.settings import read_settings

    imported = import_profile(file, settings=read_settings({"store": store}))
    profile = imported.profile
    if json:
        print_json({"imported": profile.id, "is_new": imported.is_new})
        return
    if imported.is_new:
        print_note(f"profile {profile.id} kept: {profile.program.name}, measured on {machine_of(profile)}")
    else:
        print_note(f"profile {profile.id} was here before, and is the same: nothing to do")
    print_note(f"next: trainfare recommend {profile.id}")


def machine_of(profile: "Profile") -> str:
    return profile.host.vm_type or profile.host.name


def _print_table(profiles: "tuple[Profile, ...]") -> None:
    from datetime import UTC, datetime

    from rich.table import Table
    from rich.text import Text

    from trainfare.cli.console import out
    from trainfare.cli.profile_card import ago, iteration_time

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (("profile", "left"), ("program", "left"), ("batch", "right"), ("iteration", "right")):
        table.add_column(name, justify=justify, no_wrap=name != "program")  # type: ignore[arg-type]  # of a literal
    table.add_column("machine", overflow="fold")
    table.add_column("measured", no_wrap=True)
    now = datetime.now(UTC)
    for profile in profiles:
        table.add_row(
            Text(profile.id, style="bold"),
            Text(profile.program.name),
            str(profile.effective_batch_size or "–"),
            iteration_time(profile),
            Text(machine_of(profile)),
            ago(profile.measured_at, now),
        )
    out().print(table)


def _print_profile(profile: "Profile") -> None:
    from datetime import UTC, datetime

    from rich.text import Text

    from trainfare.cli.console import out
    from trainfare.cli.profile_card import ago, print_card

    when = f"{profile.measured_at.astimezone():%Y-%m-%d %H:%M}, {ago(profile.measured_at, datetime.now(UTC))}"
    out().print(Text.assemble((profile.id, "bold"), f"  {profile.program.command_line}"))
    out().print(Text(f"measured on {machine_of(profile)}, {when}{_ENDINGS[profile.ending]}"))
    print_card(profile)


_ENDINGS = {
    "enough": "",
    "finished": "; the program ended by itself",
    "interrupted": "; it was interrupted",
    "failed": "; the program failed",
    "stalled": "; the program stood still and was stopped",
}

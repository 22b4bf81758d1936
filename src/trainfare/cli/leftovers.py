"""The start of every command that deals with runs: what was left behind is ended, and a line says so if there was
anything."""

from trainfare.app.running.leftovers import end_leftovers
from trainfare.cli.console import print_note
from trainfare.settings import Settings, read_settings
from trainfare.store.server import is_server


def read_run_settings(store: str | None) -> Settings:
    """The settings of a command that deals with runs, once leftovers are ended."""
    settings = read_settings({"store": store})
    if is_server(settings.store):
        return settings  # the server looks after its own
    found = end_leftovers(settings)
    if found.ended:
        print_note(f"note: ended what no run needs: {', '.join(found.ended)}")
    for sentence in found.failed:
        print_note(f"note: {sentence} No run needs it; `trainfare reap` tries again.")
    if found.pending:
        print_note(
            f"note: {', '.join(found.pending)}: no answer yet, and no run needs it; `trainfare reap` asks again."
        )
    return settings

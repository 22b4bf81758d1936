"""Use case: install SkyPilot, which rents machines from clouds, and find out which clouds have credentials."""

from collections.abc import Callable, Sequence
from pathlib import Path

from trainfare.clouds.skypilot_launch import CLOUDS
from trainfare.clouds.skypilot_setup import SkyPilotInstallation
from trainfare.errors import UsageError
from trainfare.model.doors import DoorSetup
from trainfare.settings import Settings, read_settings

DEFAULT_CLOUDS = ("aws", "gcp")


def set_up_skypilot(
    clouds: Sequence[str] = DEFAULT_CLOUDS,
    *,
    settings: Settings | None = None,
    on_line: Callable[[str], None] = lambda _line: None,
) -> DoorSetup:
    """Install SkyPilot for some clouds, unless it is there, and have it check their credentials. `UsageError` for a
    cloud that it does not know."""
    settings = settings or read_settings()
    for cloud in clouds:
        if cloud not in CLOUDS:
            known = ", ".join(sorted(CLOUDS))
            raise UsageError(f"SkyPilot does not rent from {cloud!r}: it knows {known}.", field="clouds")
    if not clouds:
        raise UsageError("At least one cloud must be named.", field="clouds")
    skypilot = SkyPilotInstallation(Path(settings.skypilot))
    before = skypilot.installed()
    installed = skypilot.install(clouds, on_line)
    on_line("SkyPilot's API server is started, and checks the credentials of each cloud")
    return DoorSetup(
        version=installed.version,
        folder=settings.skypilot,
        bytes=installed.bytes,
        seconds=installed.seconds,
        was_there=before == installed,
        clouds=installed.clouds,
        enabled=skypilot.check(installed.clouds),
    )

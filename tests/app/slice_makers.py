"""Three slices of this machine, and a program whose time on each is known at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.makers import make_profile, make_program
from trainfare.app.probing import planned as probing
from trainfare.app.profiling.options import ProfileOptions
from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.settings import Settings
from trainfare.store.open import open_history

MACHINES = """
[one]
slice = true
usd_per_hour = 0.10
vcpus = 1

[two]
slice = true
usd_per_hour = {two}
vcpus = 2

[four]
slice = true
usd_per_hour = 0.45
vcpus = 4
"""
LOCAL = Scope(providers=("local",), exclude=("here",))


def slice_settings(folder: Path) -> Settings:
    """The settings of a history, and of three slices to rent, in the folder."""
    machines = folder / "machines.toml"
    machines.write_text(MACHINES.format(two=0.08))
    return Settings(
        store=str(folder / "history.db"), machines=str(machines), logs=str(folder / "logs"), stall_seconds=60
    )


def taken_on(machine: str, iteration: float, directory: Path) -> Profile:
    cores = {"local/one": 1, "local/two": 2, "local/four": 4}[machine]
    return make_profile(
        id=f"p{machine.rpartition('/')[2]}",
        program=make_program(directory=str(directory)),
        host=Host(name="here", cpu="a CPU", vm_type=machine, cores=cores),
        init_seconds=1.0,
        iteration_seconds=(iteration,) * 20,
        validation_seconds=(),
    )


def profile_at_once(monkeypatch: pytest.MonkeyPatch, settings: Settings, directory: Path) -> list[str]:
    """Store a profile of a program and answer its probes without running it; the list of slices that were probed."""
    probed: list[str] = []

    def measured(_command: tuple[str, ...], options: ProfileOptions) -> Profile:
        on = str(options.on)
        probed.append(on)
        kept = taken_on(on, {"local/one": 1.0, "local/two": 1.3, "local/four": 0.9}[on], directory)
        with open_history(settings.store) as history:
            history.profiles.add(kept)
        return kept

    monkeypatch.setattr(probing, "profile_command", measured)
    with open_history(settings.store) as history:
        history.profiles.add(replace(taken_on("local/one", 1.0, directory), id="pfirst"))
    return probed

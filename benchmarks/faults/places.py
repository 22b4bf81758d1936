"""Where faults are tried: a store with a provider that does not exist, and hosts in namespaces."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.app.running.worlds import World, make_world
from tests.rigs.hosts import HostRig, host_rig, missing_requirement
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.clouds.fake import Faults

SAVING = Path(__file__).parents[2] / "tests" / "programs" / "resumes.py"
"""A training that saves and can go on from what it saved."""
LEASE_SECONDS = 3.0
"""Longer than a step takes on a busy machine: otherwise two supervisors take the lease from each other all the time."""
POSTGRES = "TRAINFARE_TEST_POSTGRES"


@contextmanager
def fresh_world(faults: Faults | None = None, *, postgres: bool = False) -> Iterator[World]:
    """A store and a provider in a new folder; nothing of them is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="trainfare-faults-", ignore_cleanup_errors=True) as folder:
        before = os.environ.get(FAKE_FOLDER)
        os.environ[FAKE_FOLDER] = str(Path(folder) / "provider")
        world = make_world(Path(folder), faults)
        with _schema() if postgres else _file(world) as store:
            world = replace(world, settings=replace(world.settings, store=store, lease_seconds=LEASE_SECONDS))
            try:
                yield world
            finally:
                world.door.misbehave(Faults())
                for machine in world.door.machines():
                    world.door.terminate(machine.key)
                os.environ.pop(FAKE_FOLDER)
                os.environ.update({FAKE_FOLDER: before} if before else {})


@contextmanager
def _file(world: World) -> Iterator[str]:
    yield world.settings.store


@contextmanager
def _schema() -> Iterator[str]:
    """The URL of an empty schema of the server that scripts/postgres has started, dropped afterwards."""
    import psycopg

    server, schema = os.environ[POSTGRES], f"faults_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    try:
        yield f"{server}?options=-csearch_path%3D{schema}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


@contextmanager
def fresh_hosts() -> Iterator[HostRig | None]:
    """Hosts in namespaces; None without root."""
    if missing_requirement() is not None:
        yield None
        return
    before = dict(os.environ)
    with host_rig() as rig:
        os.environ.update(rig.environment)
        try:
            yield rig
        finally:
            os.environ.update({name: before.get(name, "") for name in rig.environment})


@cache
def undisturbed_weights() -> str:
    """The weights of the training that saves, when nothing happens to it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(SAVING)], cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "weights.json").read_text()

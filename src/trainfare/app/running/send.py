"""Sends a program to a machine, with what it needs, and starts the agent that runs it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trainfare.app.running.checkpoints import put_back
from trainfare.clouds import driver
from trainfare.clouds.code_files import list_code_files
from trainfare.clouds.door import Shell
from trainfare.clouds.recipes import (
    EnvironmentRecipe,
    command_in_environment,
    read_recipe,
    runs_in_environment,
    uninstalled_definition,
)
from trainfare.errors import UsageError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.program import Program
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Run
from trainfare.model.supplies import DataSource, SendingSummary
from trainfare.runner.life import Life
from trainfare.runner.resuming import resume_command, resume_environment


def check_sending(program: Program, data: Sequence[DataSource] = ()) -> None:
    """`UsageError` if the folder of a program cannot be sent, before anything is launched."""
    folder = Path(program.directory)
    list_code_files(folder, leave_out=_data_in(folder, data))
    read_recipe(folder)


def summarize_sending(run: Run) -> SendingSummary:
    """Everything that the machine of a run will get."""
    machine, folder = run.candidate.offer.vm_type.key, Path(run.program.directory)
    code, recipe = list_code_files(folder, leave_out=_data_in(folder, run.data)), recipe_for(run, machine)
    return SendingSummary(
        folder=str(folder),
        files=len(code.files),
        bytes=code.bytes,
        outside_links=code.outside_links,
        installs=recipe.named_by if recipe and recipe.installs else None,
        not_installed=uninstalled_definition(folder) if _installs(run, machine) and recipe is None else None,
        data=data_for(run, machine),
    )


def data_for(run: Run, machine: str) -> tuple[DataSource, ...]:
    """The data of a run as a machine gets it: on this machine, data at home is there already."""
    if machine.partition("/")[0] != HERE_PROVIDER:
        return run.data
    return tuple(replace(each, kind="there") if each.kind == "sent" else each for each in run.data)


def _data_in(folder: Path, data: Sequence[DataSource]) -> frozenset[str]:
    """Paths below the program's folder that are no code but data."""
    sent = [Path(each.source) for each in data if each.kind == "sent"]
    return frozenset(str(path.relative_to(folder.resolve())) for path in sent if path.is_relative_to(folder.resolve()))


def recipe_for(run: Run, machine: str) -> EnvironmentRecipe | None:
    """The environment that is made on a machine for a run; None if its own Python is used: on this machine, where the
    program has its environment, and where a setup command makes one."""
    return read_recipe(Path(run.program.directory)) if _installs(run, machine) else None


def _installs(run: Run, machine: str) -> bool:
    at_home = machine.partition("/")[0] == HERE_PROVIDER
    install = run.install or ("none" if run.setup or at_home else "auto")
    return install == "auto" and runs_in_environment(run.program.command)


def send_program(
    shell: Shell,
    run: Run,
    life: Life,
    machine: RentedMachine,
    *,
    power_off: bool,
    checkpoints: Path | None = None,
    wrap: Callable[[Sequence[str]], tuple[str, ...]] = tuple,
) -> None:
    """Send code and agent to one node, and start it. Secrets go to the memory of the agent and to no file. With
    `power_off` the agent switches the machine off when its lease ends. `wrap` makes the command that is started from
    that of the program. An attempt that goes on from a checkpoint gets it from the folder `checkpoints`. `UsageError`
    if what is at home cannot be sent: it may have changed since the run was agreed to."""
    if driver.has_started(shell):
        driver.start(shell, secrets={})  # one that runs has its secrets; one that was killed only records that
        return
    folder = Path(run.program.directory)
    code, recipe = list_code_files(folder, leave_out=_data_in(folder, run.data)), recipe_for(run, machine.vm_type)
    secrets = _secrets(run)
    command = resume_command(run, life)
    job = driver.AgentJob(
        key=machine.key,
        node=machine.node,
        nodes=life.candidate.nodes if life.candidate else 1,
        command=wrap(command_in_environment(command, folder) if recipe and recipe.installs else command),
        restored=life.resumed_from.files if life.resumed_from else (),
        lease_ends_at=machine.expires_at,
        environment={**_variables(run, machine), **resume_environment(run, life)},
        setup=run.setup,
        longest_seconds=run.limits.longest_seconds,
        power_off=power_off,
    )
    supplies = driver.Supplies(environment=recipe, data=data_for(run, machine.vm_type))
    bundle = driver.CodeBundle(folder=code.folder, files=code.files)
    driver.prepare(shell, job=job, code=bundle, supplies=supplies)
    if life.resumed_from is not None and checkpoints is not None:
        put_back(shell, checkpoints, life.resumed_from)
    driver.start(shell, secrets=secrets)


def _variables(run: Run, machine: RentedMachine) -> dict[str, str]:
    """The variables of the program. A task of SkyPilot also finds its place among the nodes in some."""
    if "SKYPILOT_NUM_NODES" not in run.variables:
        return dict(run.variables)
    gpus = run.candidate.offer.vm_type.gpus
    place = {"SKYPILOT_NODE_RANK": str(machine.node), "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus)}
    alone = {"SKYPILOT_NODE_IPS": machine.address or "127.0.0.1"} if run.candidate.nodes == 1 else {}
    return {**run.variables, **place, **alone}


def _secrets(run: Run) -> dict[str, str]:
    if missing := [name for name in run.secrets if name not in os.environ]:
        raise UsageError(f"The secret {missing[0]} is not set in the process that sends the program.")
    return {name: os.environ[name] for name in run.secrets}

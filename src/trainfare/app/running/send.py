"""Sends a program to a machine and starts the agent that runs it."""

import os
from pathlib import Path

from trainfare.clouds import driver
from trainfare.clouds.code_files import list_code_files
from trainfare.clouds.door import Shell
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Run
from trainfare.runner.life import Life


def send_program(shell: Shell, run: Run, life: Life, machine: RentedMachine, *, power_off: bool) -> None:
    """Send code and agent to one node, and start it. Secrets go to the memory of the agent and to no file. With
    `power_off` the agent switches the machine off when its lease ends."""
    code = list_code_files(Path(run.program.directory))
    job = driver.AgentJob(
        key=machine.key,
        node=machine.node,
        nodes=life.candidate.nodes if life.candidate else 1,
        command=run.program.command,
        lease_ends_at=machine.expires_at,
        setup=run.setup,
        longest_seconds=run.limits.longest_seconds,
        power_off=power_off,
    )
    driver.prepare(shell, job=job, code=driver.CodeBundle(folder=code.folder, files=code.files))
    driver.start(shell, secrets={name: os.environ[name] for name in run.secrets if name in os.environ})

"""Sends a program to a machine, with what it needs, and starts the agent that runs it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trainfare.app.running.checkpoints import parcels_back
from trainfare.clouds import driver
from trainfare.clouds.code_files import CodeFiles, list_code_files
from trainfare.clouds.door import NoticeService, Shell
from trainfare.clouds.recipes import (
    EnvironmentRecipe,
    command_in_environment,
    read_recipe,
    runs_in_environment,
    uninstalled_definition,
)
from trainfare.clouds.sandbox import sandbox_prefix
from trainfare.clouds.sending import Parcel, Sending
from trainfare.errors import UsageError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.program import Program
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Run
from trainfare.model.supplies import DataSource, SendingSummary
from trainfare.runner.gang import INTERFACE_VARIABLES, Gang, NodeStart, meeting_port, start_of_node
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


@dataclass(slots=True, kw_only=True)
class ProgramSending:
    """A program on its way to one node, with what it needs, in parts of a few seconds. Another process that begins
    anew sends only what is not there yet."""

    run: Run
    life: Life
    machine: RentedMachine
    power_off: bool
    """The agent switches the machine off when its lease ends."""
    notice: NoticeService | None = None
    """Announces that a spot machine is taken back."""
    checkpoints: Path | None = None
    """The folder at home from which an attempt that goes on gets its checkpoint."""
    wrap: Callable[[Sequence[str]], tuple[str, ...]] = tuple
    """Makes the command that is started from that of the program."""
    _sending: Sending | None = None

    @property
    def bytes(self) -> int:
        """Bytes that this process has sent."""
        return self._sending.bytes if self._sending else 0

    @property
    def seconds(self) -> float:
        """The time that they took."""
        return self._sending.seconds if self._sending else 0.0

    def advance(self, shell: Shell, *, seconds: float) -> bool:
        """Send for about so long; True once everything is there. `UsageError` if what is at home cannot be sent: it may
        have changed since the run was agreed to; `CheckpointGoneError` if the checkpoint is not at home any more."""
        if self._sending is None:
            if driver.has_started(shell):
                return True
            _secrets(self.run)
            self._sending = self._begin(shell)
        return self._sending.advance(shell, seconds=seconds)

    def start(self, shell: Shell, machines: Sequence[RentedMachine] = ()) -> None:
        """Start the agent. Secrets go to its memory and to no file. `machines` are all nodes, if there are several."""
        if driver.has_started(shell):
            driver.start(shell, secrets={})  # one that runs has its secrets; one that was killed only records that
            return
        start = self._start_among(len(machines)) if len(machines) > 1 and self.run.launcher else None
        place = _place(self.machine, machines, start) if start else None
        driver.write_job(shell, self._job(start), place)
        driver.start(shell, secrets=_secrets(self.run))

    def _begin(self, shell: Shell) -> Sending:
        run, machine = self.run, self.machine
        code = _code(run)
        checkpoint = self.life.resumed_from
        back: tuple[Parcel, ...] = ()
        if checkpoint is not None and self.checkpoints is not None:
            back = parcels_back(self.checkpoints, checkpoint, machine.node)
        return driver.begin_sending(
            shell,
            code=driver.CodeBundle(folder=code.folder, files=code.files),
            supplies=driver.Supplies(environment=recipe_for(run, machine.vm_type), data=data_for(run, machine.vm_type)),
            others=back,
        )

    def _command(self) -> tuple[str, ...]:
        recipe, command = recipe_for(self.run, self.machine.vm_type), resume_command(self.run, self.life)
        if recipe and recipe.installs:
            return command_in_environment(command, Path(self.run.program.directory))
        return command

    def _confined(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command in a sandbox, if the program was uploaded and the machine is the one at home."""
        if self.run.sandboxed and self.machine.vm_type.startswith(f"{HERE_PROVIDER}/"):
            return (*sandbox_prefix(), *command)
        return command

    def _start_among(self, nodes: int) -> NodeStart:
        """The command of this node, with words for the addresses, which it fills in itself."""
        run = self.run
        candidate = self.life.candidate or run.candidate
        gang = Gang(
            launcher=run.launcher or "env",
            addresses=tuple(driver.address_token(node) for node in range(nodes)),
            port=meeting_port(self.machine.key, run.variables),
            gpus=candidate.working_gpus_per_node,
        )
        return start_of_node(self._command(), gang, self.machine.node)

    def _job(self, start: NodeStart | None = None) -> driver.AgentJob:
        run, life, machine = self.run, self.life, self.machine
        start = start or NodeStart(command=self._command())
        return driver.AgentJob(
            key=machine.key,
            node=machine.node,
            nodes=life.candidate.nodes if life.candidate else 1,
            command=self.wrap(self._confined(start.command)),
            restored=life.resumed_from.files_of(machine.node) if life.resumed_from else (),
            lease_ends_at=_first_lease(run, machine),
            environment={**start.environment, **_variables(run, machine), **resume_environment(run, life)},
            setup=run.setup,
            longest_seconds=run.limits.longest_seconds,
            power_off=self.power_off,
            notice=self.notice.provider if self.notice else None,
            notice_address=self.notice.address if self.notice else None,
        )


def _code(run: Run) -> CodeFiles:
    folder = Path(run.program.directory)
    return list_code_files(folder, leave_out=_data_in(folder, run.data))


def _first_lease(run: Run, machine: RentedMachine) -> datetime:
    """The end of the lease that the agent starts with. With a patience, whoever supervises the run renews it."""
    if run.patience_seconds is None:
        return machine.expires_at
    return min(machine.expires_at, datetime.now(UTC) + timedelta(seconds=run.patience_seconds))


def _variables(run: Run, machine: RentedMachine) -> dict[str, str]:
    """The variables of the program. A task of SkyPilot also finds its place among the nodes in some."""
    if "SKYPILOT_NUM_NODES" not in run.variables:
        return dict(run.variables)
    gpus = run.candidate.offer.vm_type.gpus
    place = {"SKYPILOT_NODE_RANK": str(machine.node), "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus)}
    every = [driver.address_token(node) for node in range(run.candidate.nodes)]
    addresses = every if len(every) > 1 and run.launcher else [machine.address or "127.0.0.1"]
    return {**run.variables, **place, "SKYPILOT_NODE_IPS": "\n".join(addresses)}


def _place(machine: RentedMachine, machines: Sequence[RentedMachine], start: NodeStart) -> driver.NodePlace:
    """`UsageError` if a node cannot be reached by the others."""
    ordered = sorted(machines, key=lambda each: each.node)
    waiting = any(each.state == "queued" for each in ordered)
    for each in () if waiting else ordered:
        if each.address is None:
            raise UsageError(
                f"{each.place} has no address by which the other nodes reach it. State the addresses of the hosts."
            )
    return driver.NodePlace(
        node=machine.node,
        addresses=None if waiting else tuple(each.address for each in ordered),
        ports=start.ports,
        interface_variables=INTERFACE_VARIABLES,
    )


def _secrets(run: Run) -> dict[str, str]:
    if missing := [name for name in run.secrets if name not in os.environ]:
        raise UsageError(f"The secret {missing[0]} is not set in the process that sends the program.")
    return {name: os.environ[name] for name in run.secrets}

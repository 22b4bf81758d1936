"""The door to hosts that the user already has, by ssh.

    ~/.trainfare/<key>/<node>/machine.json      on the host: what was launched
                              host              its name: several hosts may share a home folder
    <folder>/<key>.json                         at home: which host was asked

Nothing boots: a launched machine is a folder on a host. Home remembers each launch before the host is asked, so that
the machines of a host that does not answer are known: they are listed as unreachable until it answers again.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import msgspec

from trainfare.clouds import driver
from trainfare.clouds.answers import Answers
from trainfare.clouds.door import Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.launch_memory import LaunchMemory, RememberedLaunch, safe_key
from trainfare.clouds.ssh_connection import FolderGoneError, SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine

PROVIDER = "ssh"

_PLACE = ".trainfare"
"""The folder of all launches, in the home folder of the host."""
_ANSWER_SECONDS = 20.0
"""The time that hosts have to list their machines, or to make the folders of a launch."""
_NEEDED = 3
_FULL = 4

_LAUNCH = f"""
umask 077
for program in python3 rsync; do
    command -v $program > /dev/null || {{ echo $program; exit {_NEEDED}; }}
done
mkdir -p {_PLACE} && cd {_PLACE} || exit {_FULL}
[ -e "$1" ] && exit 0
fresh=.new-$1-$$ node=0
while IFS= read -r machine; do
    if ! {{ mkdir -p "$fresh/$node" && printf '%s\\n' "$machine" | cat > "$fresh/$node/machine.json" &&
        uname -n > "$fresh/$node/host"; }}; then
        rm -rf "$fresh"; exit {_FULL}
    fi
    node=$((node + 1))
done
[ "$node" -eq "$2" ] && mv -n -T "$fresh" "$1" 2> /dev/null
rm -rf "$fresh"
[ -e "$1" ]
"""
"""All machines of a launch appear at once, with a rename. Input that was cut off makes none."""

_LIST = f"""
date +%s
cd {_PLACE} 2> /dev/null || exit 0
for file in */*/machine.json; do
    folder=${{file%/*}}
    [ "$(cat "$folder/host" 2> /dev/null)" = "$(uname -n)" ] || continue
    lease=$(cat "$folder/lease" 2> /dev/null)
    printf '%s ' "${{lease:--}}"
    cat "$file" 2> /dev/null || echo
done
"""
_REMOVE = f'cd {_PLACE} 2> /dev/null && [ -d "$1" ] || exit 0; mv -T "$1" ".ended-$1-$$" && rm -rf ".ended-$1-$$"'
_NODES = f'cd {_PLACE}/"$1" 2> /dev/null && ls || exit 0'


class SshDoor:
    """A `Door`. `folder` remembers launches. `destinations` is what ssh calls each machine, by the key of its VmType; a
    machine that is not in it has its own name for ssh."""

    name = PROVIDER
    powers_off = False
    appears_within_seconds = 0.0
    boots_within_seconds = 900.0
    extends_leases = True

    def __init__(
        self,
        folder: Path,
        offers: Iterable[Offer],
        destinations: Mapping[str, str],
        *,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._memory = LaunchMemory(folder)
        self._every = offers
        self._destinations = dict(destinations)
        self._connections: dict[str, SshConnection] = {}
        self._answers = Answers()
        self._answer_seconds = answer_seconds

    @cached_property
    def _offers(self) -> tuple[Offer, ...]:
        """Read when they are needed first: most calls do not, and reading all prices takes time."""
        return tuple(offer for offer in self._every if offer.vm_type.provider == PROVIDER)

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, launch: Launch) -> None:
        destination = self._destination(launch)
        with self._memory.asking(launch, destination, self._answers, address=destination):
            self._make_folders(launch, destination)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        remembered = self._memory.all()
        if key in remembered:
            found = self._machines_on(remembered[key].destination, remembered)
            return tuple(machine for machine in sorted(found, key=lambda each: each.id) if machine.key == key)
        every = self._machines_everywhere(remembered)
        return tuple(machine for machine in every if key in (None, machine.key))

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return tuple(machine for launch in self._memory.all().values() for machine in launch.machines)

    def _machines_everywhere(self, remembered: Mapping[str, RememberedLaunch]) -> tuple[RentedMachine, ...]:
        """All hosts are asked at once, so that a silent one delays the answer only by its own time."""
        own = (self._destinations.get(o.vm_type.key, o.vm_type.name) for o in self._offers)
        destinations = sorted({*own, *(launch.destination for launch in remembered.values())})
        if not destinations:
            return ()
        with ThreadPoolExecutor(max_workers=min(32, len(destinations))) as pool:
            listed = pool.map(lambda destination: self._machines_on(destination, remembered), destinations)
            found = {machine.id: machine for machines in listed for machine in machines}
        return tuple(found[name] for name in sorted(found))

    def shell(self, machine: RentedMachine) -> Shell:
        if machine.address is None:
            raise MachineUnreachableError(f"The host of {machine.id} is not known.")
        return SshShell(self._connection(machine.address), f"{_PLACE}/{safe_key(machine.key)}/{machine.node}")

    def terminate(self, key: str) -> None:
        safe_key(key)
        remembered = self._memory.all().get(key)
        destinations = {remembered.destination} if remembered else {m.address for m in self.machines() if m.key == key}
        for destination in destinations:
            if destination is not None:
                self._end(key, destination)
        self._memory.forget(key)

    def _destination(self, launch: Launch) -> str:
        key = launch.candidate.offer.vm_type.key
        offered = [offer.vm_type.key for offer in self._offers]
        if key not in offered:
            raise RefusedError(f"{key} is not one of your hosts: {', '.join(offered) or 'there are none'}.")
        return self._destinations.get(key, launch.candidate.offer.vm_type.name)

    def _make_folders(self, launch: Launch, destination: str) -> None:
        machines = launch.ready_machines(now=datetime.now(UTC), address=destination)
        given = b"".join(msgspec.json.encode(machine) + b"\n" for machine in machines)
        home = SshShell(self._connection(destination), ".")
        words = ("sh", "-c", _LAUNCH, "sh", safe_key(launch.key), str(launch.candidate.nodes))
        done = home.run(words, given=given, timeout_seconds=self._answer_seconds)
        reason = done.error.decode(errors="replace").strip().rpartition("\n")[2]
        if done.exit_code == _NEEDED:
            program = done.output.decode(errors="replace").strip()
            raise RefusedError(f"{program} is not installed on {destination}. On Debian: apt install python3 rsync")
        if done.exit_code == _FULL:
            raise RefusedError(f"No folder can be made in the home folder on {destination}: {reason}.")
        if done.exit_code:
            raise ExternalError(f"The launch on {destination} failed with exit code {done.exit_code}: {reason}.")

    def _machines_on(self, destination: str, remembered: Mapping[str, RememberedLaunch]) -> list[RentedMachine]:
        """The machines on a host; those that are remembered, if it does not answer."""
        mine = {key: launch for key, launch in remembered.items() if launch.destination == destination}
        reason = self._answers.silence_of(destination)
        try:
            if reason is None:
                found = self._list(destination)
        except ExternalError as error:
            reason = str(error)
            self._answers.note_silence(destination, reason)
        if reason is not None:
            known = [machine for launch in mine.values() for machine in launch.machines]
            return [replace(machine, state="unreachable", reason=reason) for machine in known]
        self._memory.forget_ended(mine, {machine.key for machine in found})
        return [machine for machine in found if machine.key in mine or machine.key not in remembered]

    def _list(self, destination: str) -> list[RentedMachine]:
        home = SshShell(self._connection(destination), ".")
        lines = home.run(("sh", "-c", _LIST), timeout_seconds=self._answer_seconds).output.splitlines()
        now, there = datetime.now(UTC), float(lines[0]) if lines else 0.0
        found = []
        for line in lines[1:]:
            lease, _, text = line.partition(b" ")
            try:
                machine = replace(msgspec.json.decode(text, type=RentedMachine), address=destination)
                if lease != b"-":  # by the clock of the host, which may be wrong
                    machine = replace(machine, expires_at=now + timedelta(seconds=float(lease) - there))
            except (msgspec.MsgspecError, ValueError):  # a folder that is being removed, or is not ours
                continue
            found.append(machine)
        return found

    def _end(self, key: str, destination: str) -> None:
        """End everything that runs for a launch on a host, and then remove its folders."""
        home = SshShell(self._connection(destination), ".")
        nodes = home.run(("sh", "-c", _NODES, "sh", key)).output.decode().split()
        for node in nodes:
            try:
                driver.end(SshShell(self._connection(destination), f"{_PLACE}/{key}/{node}"))
            except FolderGoneError:
                continue
        done = home.run(("sh", "-c", _REMOVE, "sh", key), timeout_seconds=300.0)
        if done.exit_code:
            reason = done.error.decode(errors="replace").strip().rpartition("\n")[2]
            raise ExternalError(f"The folder ~/{_PLACE}/{key} on {destination} could not be removed: {reason}.")

    def _connection(self, destination: str) -> SshConnection:
        return self._connections.setdefault(destination, SshConnection(destination))

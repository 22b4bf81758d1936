"""The door to hosts that the user already has, by ssh.

    ~/.trainfare/<key>/<node>/machine.json      on the host: what was launched
                              host              its name: several hosts may share a home folder
                              address           where the other hosts of a group reach it
    <folder>/<key>.json                         at home: which hosts were asked

Nothing boots: a launched machine is a folder on a host. Home remembers each launch before a host is asked, so that
the machines of a host that does not answer are known: they are listed as unreachable until it answers again. A group of
hosts is one machine type, and each of its hosts is a node of a launch.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from trainfare.clouds.ssh_errors import CannotConnectError
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError
from trainfare.model.hosts import HostPlace
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
key=$1; shift
fresh=.new-$key-$$ made=0
address=$(set -- $SSH_CONNECTION; echo "$3")
case $address in ''|127.*|::1) address=$(hostname -I 2> /dev/null | cut -d ' ' -f 1);; esac
for node in "$@"; do
    IFS= read -r machine || break
    if ! {{ mkdir -p "$fresh/$node" && printf '%s\\n' "$machine" | cat > "$fresh/$node/machine.json" &&
        uname -n > "$fresh/$node/host" && printf '%s' "$address" > "$fresh/$node/address"; }}; then
        rm -rf "$fresh"; exit {_FULL}
    fi
    made=$((made + 1))
done
if [ "$made" -eq "$#" ]; then
    mv -n -T "$fresh" "$key" 2> /dev/null
    for node in "$@"; do  # another host of the group, with the same home folder, may have been faster
        [ -e "$key/$node" ] || mv -n -T "$fresh/$node" "$key/$node" 2> /dev/null
    done
fi
rm -rf "$fresh"
for node in "$@"; do [ -e "$key/$node" ] || exit 1; done
"""
"""Its arguments are the key and the nodes of this host. All its machines appear at once, with a rename. Input that was
cut off makes none."""

_LIST = f"""
date +%s
cd {_PLACE} 2> /dev/null || exit 0
for file in */*/machine.json; do
    folder=${{file%/*}}
    [ "$(cat "$folder/host" 2> /dev/null)" = "$(uname -n)" ] || continue
    lease=$(cat "$folder/lease" 2> /dev/null) address=$(cat "$folder/address" 2> /dev/null)
    printf '%s %s ' "${{lease:--}}" "${{address:--}}"
    cat "$file" 2> /dev/null || echo
done
"""
_REMOVE = f"""
cd {_PLACE} 2> /dev/null || exit 0
key=$1; shift
for node in "$@"; do
    [ -d "$key/$node" ] || continue
    mv -T "$key/$node" ".ended-$key-$node-$$" && rm -rf ".ended-$key-$node-$$" || exit 1
done
rmdir "$key" 2> /dev/null
exit 0
"""
_NODES = f"""
cd {_PLACE}/"$1" 2> /dev/null || exit 0
for node in *; do
    [ "$(cat "$node/host" 2> /dev/null || uname -n)" = "$(uname -n)" ] && [ -d "$node" ] && echo "$node"
done
exit 0
"""
"""The nodes of a launch on this host."""


class SshDoor:
    """A `Door`. `folder` remembers launches. `destinations` is what ssh calls each machine, by the key of its VmType; a
    machine that is not in it has its own name for ssh. `groups` are machines of several hosts."""

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
        groups: Mapping[str, Sequence[HostPlace]] | None = None,
        *,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._memory = LaunchMemory(folder)
        self._every = offers
        self._destinations = dict(destinations)
        self._groups = dict(groups or {})
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
        known = self._memory.all().get(launch.key)
        if known is not None:
            machines = known.machines
        else:
            machines = launch.ready_machines(now=datetime.now(UTC), places=self._places_for(launch))
        with self._memory.asking(launch, _destination(machines[0]), machines=machines):
            self._make_everywhere(launch.key, machines, is_first=known is None)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        remembered = self._memory.all()
        if key in remembered:
            destinations = {_destination(machine) for machine in remembered[key].machines}
        else:
            destinations = {*self._own_destinations(), *(d for each in remembered.values() for d in _hosts_of(each))}
        found = self._machines_on_all(sorted(destinations), remembered)
        return tuple(machine for machine in found if key in (None, machine.key))

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return tuple(machine for launch in self._memory.all().values() for machine in launch.machines)

    def shell(self, machine: RentedMachine) -> Shell:
        destination = machine.destination or machine.address
        if destination is None:
            raise MachineUnreachableError(f"The host of {machine.id} is not known.")
        return SshShell(self._connection(destination), f"{_PLACE}/{safe_key(machine.key)}/{machine.node}")

    def terminate(self, key: str) -> None:
        safe_key(key)
        remembered = self._memory.all().get(key)
        machines = remembered.machines if remembered else [m for m in self.machines() if m.key == key]
        failures = []
        for destination in sorted({_destination(machine) for machine in machines}):
            try:
                self._end(key, destination)
            except ExternalError as error:  # the others are ended all the same
                failures.append(error)
        if failures:
            raise failures[0]
        self._memory.forget(key)

    # Launching.

    def _places_for(self, launch: Launch) -> tuple[HostPlace, ...]:
        """The host of each node. `RefusedError` if there are not enough that answer."""
        vm_type, nodes = launch.candidate.offer.vm_type, launch.candidate.nodes
        offered = [offer.vm_type.key for offer in self._offers]
        if vm_type.key not in offered:
            raise RefusedError(f"{vm_type.key} is not one of your hosts: {', '.join(offered) or 'there are none'}.")
        group = self._groups.get(vm_type.key)
        if group is None:
            return (HostPlace(destination=self._destinations.get(vm_type.key, vm_type.name)),) * nodes
        if nodes > len(group):
            raise RefusedError(f"{vm_type.key} has {len(group)} hosts, and {nodes} nodes are asked for.")
        return tuple(group) if nodes == len(group) else self._free_places(vm_type.key, group, nodes)

    def _free_places(self, key: str, group: Sequence[HostPlace], nodes: int) -> tuple[HostPlace, ...]:
        """Hosts of a group that answer: those with the fewest launches first, in the order of the group."""
        taken = [_destination(machine) for machine in self.known_machines()]
        with ThreadPoolExecutor(max_workers=min(32, len(group))) as pool:
            silences = list(pool.map(lambda place: self._silence_of(place.destination), group))
        answering = [place for place, silence in zip(group, silences, strict=True) if silence is None]
        if len(answering) < nodes:
            reasons = "; ".join(silence for silence in silences if silence is not None)
            raise RefusedError(f"{nodes} hosts of {key} are asked for, and {len(answering)} answer. {reasons}")
        chosen = sorted(answering, key=lambda place: taken.count(place.destination))[:nodes]
        return tuple(place for place in group if place in chosen)

    def _silence_of(self, destination: str) -> str | None:
        """Why a host does not answer; None if it does."""
        try:
            with self._answers.asking(destination):
                SshShell(self._connection(destination), ".").run(("true",), timeout_seconds=self._answer_seconds)
        except ExternalError as error:
            return str(error)
        return None

    def _make_everywhere(self, key: str, machines: Sequence[RentedMachine], *, is_first: bool) -> None:
        """Make the folders of a launch on each of its hosts. If it is certain that one has none, and no earlier call
        was made, those on the others are removed."""
        by_host: dict[str, list[RentedMachine]] = {}
        for machine in machines:
            by_host.setdefault(_destination(machine), []).append(machine)
        with ThreadPoolExecutor(max_workers=min(32, len(by_host))) as pool:
            made = {host: pool.submit(self._make_folders, key, host, own) for host, own in by_host.items()}
        errors = {host: error for host, future in made.items() if (error := future.exception()) is not None}
        if not errors:
            return
        if is_first and all(isinstance(error, RefusedError | CannotConnectError) for error in errors.values()):
            for host in by_host.keys() - errors.keys():
                self._end(key, host)
        raise next(iter(errors.values()))

    def _make_folders(self, key: str, destination: str, machines: Sequence[RentedMachine]) -> None:
        given = b"".join(msgspec.json.encode(machine) + b"\n" for machine in machines)
        words = ("sh", "-c", _LAUNCH, "sh", safe_key(key), *(str(machine.node) for machine in machines))
        with self._answers.asking(destination):
            home = SshShell(self._connection(destination), ".")
            done = home.run(words, given=given, timeout_seconds=self._answer_seconds)
        reason = done.error.decode(errors="replace").strip().rpartition("\n")[2]
        if done.exit_code == _NEEDED:
            program = done.output.decode(errors="replace").strip()
            raise RefusedError(f"{program} is not installed on {destination}. On Debian: apt install python3 rsync")
        if done.exit_code == _FULL:
            raise RefusedError(f"No folder can be made in the home folder on {destination}: {reason}.")
        if done.exit_code:
            raise ExternalError(f"The launch on {destination} failed with exit code {done.exit_code}: {reason}.")

    # Listing.

    def _own_destinations(self) -> set[str]:
        alone = {self._destinations.get(o.vm_type.key, o.vm_type.name) for o in self._offers}
        return alone | {place.destination for group in self._groups.values() for place in group}

    def _machines_on_all(
        self, destinations: Sequence[str], remembered: Mapping[str, RememberedLaunch]
    ) -> tuple[RentedMachine, ...]:
        """All hosts are asked at once, so that a silent one delays the answer only by its own time."""
        if not destinations:
            return ()
        with ThreadPoolExecutor(max_workers=min(32, len(destinations))) as pool:
            listed = dict(zip(destinations, pool.map(self._answer_of, destinations), strict=True))
        found: dict[str, RentedMachine] = {}
        for destination, answer in listed.items():
            for machine in answer if isinstance(answer, list) else ():
                own = remembered.get(machine.key)
                if own is None or (machine.id, destination) in {(m.id, _destination(m)) for m in own.machines}:
                    found[machine.id] = machine  # a host cannot claim a node of another
        for launch in remembered.values():
            for machine in launch.machines:
                reason = listed.get(_destination(machine))
                if isinstance(reason, str):
                    found[machine.id] = replace(machine, state="unreachable", reason=reason)
        answered = {destination for destination, answer in listed.items() if isinstance(answer, list)}
        asked = {key: launch for key, launch in remembered.items() if _hosts_of(launch) <= answered}
        self._memory.forget_ended(asked, {machine.key for machine in found.values()})
        return tuple(found[name] for name in sorted(found))

    def _answer_of(self, destination: str) -> list[RentedMachine] | str:
        """The machines on a host; or why it does not answer."""
        reason = self._answers.silence_of(destination)
        if reason is not None:
            return reason
        try:
            return self._list(destination)
        except ExternalError as error:
            self._answers.note_silence(destination, str(error))
            return str(error)

    def _list(self, destination: str) -> list[RentedMachine]:
        home = SshShell(self._connection(destination), ".")
        lines = home.run(("sh", "-c", _LIST), timeout_seconds=self._answer_seconds).output.splitlines()
        now, there = datetime.now(UTC), float(lines[0]) if lines else 0.0
        found = []
        for line in lines[1:]:
            lease, address, text = [*line.split(b" ", 2), b"", b""][:3]
            try:
                machine = msgspec.json.decode(text, type=RentedMachine)
                if machine.destination is None or machine.address is None:
                    machine = replace(machine, address=destination if address == b"-" else address.decode())
                machine = replace(machine, destination=destination)
                if lease != b"-":  # by the clock of the host, which may be wrong
                    machine = replace(machine, expires_at=now + timedelta(seconds=float(lease) - there))
            except (msgspec.MsgspecError, ValueError):  # a folder that is being removed, or is not ours
                continue
            found.append(machine)
        return found

    # Ending.

    def _end(self, key: str, destination: str) -> None:
        """End everything that runs for a launch on a host, and then remove its folders."""
        home = SshShell(self._connection(destination), ".")
        nodes = home.run(("sh", "-c", _NODES, "sh", key)).output.decode().split()
        for node in nodes:
            try:
                driver.end(SshShell(self._connection(destination), f"{_PLACE}/{key}/{node}"))
            except FolderGoneError:
                continue
        done = home.run(("sh", "-c", _REMOVE, "sh", key, *nodes), timeout_seconds=300.0)
        if done.exit_code:
            reason = done.error.decode(errors="replace").strip().rpartition("\n")[2]
            raise ExternalError(f"The folder ~/{_PLACE}/{key} on {destination} could not be removed: {reason}.")

    def _connection(self, destination: str) -> SshConnection:
        return self._connections.setdefault(destination, SshConnection(destination))


def _destination(machine: RentedMachine) -> str:
    """The name by which ssh knows the host of a machine; launches of earlier versions have it as their address."""
    return machine.destination or machine.address or ""


def _hosts_of(launch: RememberedLaunch) -> frozenset[str]:
    return frozenset(_destination(machine) for machine in launch.machines)

"""The doors to clouds that SkyPilot rents from: one for each cloud, all with the same API server.

We choose the machine, SkyPilot makes it: one launch is one cluster of SkyPilot, which goes on in its API server whoever
waits. When the cluster is up, each node is a host that ssh reaches by the name that SkyPilot gives it, and runs the
same agent as any other. Neither exit codes nor one answer alone are trusted: the cluster is looked for by its name.

    <folder>/<key>.json      the launch, remembered before it is asked for
    <folder>/<key>.nodes     the addresses of its nodes, once each has answered
    <folder>/<key>.spot      it is of the spot market
    <folder>/<key>.timer     the minutes of SkyPilot's timer, as it was asked for when the machines were up
    <folder>/<key>.ending    it was terminated
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from trainfare.agent import agent
from trainfare.clouds.answers import Answers
from trainfare.clouds.door import Completed, Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.launch_memory import LaunchMemory, RememberedLaunch, safe_key
from trainfare.clouds.skypilot_api import NO_CAPACITY, ApiRequest, SkyPilotApi, SkyPilotError, SkyPilotSilentError
from trainfare.clouds.skypilot_launch import (
    CLOUDS,
    PREFIX,
    SkyPilotCluster,
    cluster_name,
    in_state,
    key_of,
    lasting,
    launch_body,
    machine_state,
    node_name,
    paid_until,
    parse_clusters,
    rest_timer,
)
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine

SSH_NAMES = ".sky/generated/ssh"
"""The folder in the home folder where SkyPilot writes how ssh reaches each cluster."""

_PLACE = ".trainfare"
_ENTER_SECONDS = 60.0
"""SkyPilot's command that writes the names of ssh is started again after so long without them."""
_REFRESH_SECONDS = 10.0
"""SkyPilot is asked to look at a cluster whose machines do not answer at most so often."""
_TIMER_SECONDS = 120.0
"""SkyPilot is asked for a timer that it does not list at most so often."""
_SEEN_SECONDS = 5.0
"""The cluster of a run is looked at again after so long: each look costs the server a tenth of a second of CPU, which a
launch needs too."""
_FORGOTTEN_SECONDS = 120.0
"""A launch of which the server knows nothing may be under way for so long."""

_POWER_OFF = "sleep 1800; sudo -n shutdown -P now || shutdown -P now"
"""The command of the agent when its lease has ended. On most clouds a machine that switches itself off is stopped, and
its disk is charged on: SkyPilot's timer comes first, and removes all. This is for the case that it could not."""

_ENTER = 'mkdir -p "$1" && hostname -I'


class SkyPilotDoor:
    """A `Door` to one cloud. `folder` remembers launches; `provider` is the cloud's name in the catalog."""

    powers_off = True
    appears_within_seconds = 5.0
    boots_within_seconds = 1800.0
    extends_leases = False

    def __init__(self, folder: Path, provider: str, offers: Iterable[Offer], api: SkyPilotApi) -> None:
        self.name = provider
        self._folder = folder
        self._memory = LaunchMemory(folder)
        self._every = offers
        self._api = api
        self._answers = Answers()
        self._connections: dict[str, SshConnection] = {}
        self._entered_at: dict[str, float] = {}
        self._refreshed_at: dict[str, float] = {}
        self._timed_at: dict[str, float] = {}
        self._seen: dict[str, tuple[float, tuple[SkyPilotCluster, ...]]] = {}
        self._silent: set[str] = set()
        self._failures: dict[str, str] = {}

    @cached_property
    def _offers(self) -> tuple[Offer, ...]:
        """Read when they are needed first: reading all prices takes time."""
        return tuple(
            offer
            for offer in self._every
            if offer.vm_type.provider == self.name
            and offer.market in ("on_demand", "spot")
            and offer.retired_on is None
            and self.name in CLOUDS
        )

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, launch: Launch) -> None:
        key = launch.candidate.offer.vm_type.key
        if key not in {offer.vm_type.key for offer in self._offers}:
            raise RefusedError(f"{key} is not a machine that SkyPilot rents from {self.name}.")
        remembered = self._memory.all().get(launch.key)
        self._seen.pop(launch.key, None)
        try:
            self._api.require_running()
        except SkyPilotSilentError as error:
            if remembered:  # an earlier call may have been heard
                raise
            raise RefusedError(str(error)) from error
        with self._memory.asking(lasting(launch, now=datetime.now(UTC)), self.name):
            since = remembered.asked_at if remembered else datetime.now(UTC)
            if remembered and (self._cluster(launch.key) or self._launch_request(launch.key, since)):
                return
            if launch.candidate.offer.market == "spot":
                self._file(launch.key, "spot").touch()
            try:
                self._api.ask("/launch", launch_body(launch, self._offers, now=datetime.now(UTC)))
            except SkyPilotError as error:  # it has answered, and took nothing on
                raise RefusedError(str(error)) from error

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        remembered = self._memory.all()
        known = {each: launch for each, launch in remembered.items() if key in (None, each)}
        silence = self._answers.silence_of(self.name)
        try:
            if silence is None:
                clusters = self._seen_lately(key) if key else self._clusters(f"{PREFIX}*")
                return self._listed(clusters, known, key)
        except SkyPilotSilentError as error:
            silence = str(error)
            self._answers.note_silence(self.name, silence)
        if not known:
            raise SkyPilotSilentError(silence or "SkyPilot does not answer.")
        found = [machine for launch in known.values() for machine in launch.machines]
        return in_state(found, "unreachable", silence, launched_at=None)

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return tuple(machine for launch in self._memory.all().values() for machine in launch.machines)

    def shell(self, machine: RentedMachine) -> Shell:
        name = node_name(cluster_name(machine.key), machine.node)
        connection = self._connections.setdefault(name, SshConnection(name))
        return _SkyPilotShell(connection, _place(machine), lambda: self._silent.add(machine.key))

    def terminate(self, key: str) -> None:
        name, remembered = cluster_name(key), self._memory.all().get(key)
        self._seen.pop(key, None)
        requests = self._api.requests_of(name)
        if active := [each.id for each in requests if each.name == "sky.launch" and each.is_active]:
            self._api.call("/api/cancel", {"request_ids": active})
        if self._cluster(key) is None:
            self._forget(key)
            return
        if remembered:
            self._file(key, "ending").touch()
        ends = [each for each in requests if each.name == "sky.down"]
        if ends and ends[0].is_active:
            return
        self._api.ask("/down", {"cluster_name": name})
        if ends and ends[0].status == "FAILED":
            raise ExternalError(f"SkyPilot could not end {name}, and is asked again: {self._failure(ends[0])}")

    # Listing.

    def _clusters(self, pattern: str) -> tuple[SkyPilotCluster, ...]:
        """The clusters with a name, or all of ours, by what SkyPilot knows without asking the cloud. It looks there by
        itself every minute, and sooner if machines do not answer."""
        body = {"cluster_names": [pattern], "all_users": True, "include_credentials": False, "include_handle": False}
        return parse_clusters(self._api.call("/status", {**body, "refresh": "NONE"}))

    def _seen_lately(self, key: str) -> tuple[SkyPilotCluster, ...]:
        """The cluster of a launch, as it was a moment ago if its machines answer."""
        seen_at, clusters = self._seen.get(key, (-math.inf, ()))
        if time.monotonic() - seen_at < _SEEN_SECONDS and key not in self._silent:
            return clusters
        clusters = self._clusters(cluster_name(key))
        self._seen[key] = time.monotonic(), clusters
        return clusters

    def _cluster(self, key: str) -> SkyPilotCluster | None:
        return next(iter(self._clusters(cluster_name(key))), None)

    def _listed(
        self, clusters: Sequence[SkyPilotCluster], known: dict[str, RememberedLaunch], key: str | None
    ) -> tuple[RentedMachine, ...]:
        by_key = {key_of(cluster.name): cluster for cluster in clusters}
        found: list[RentedMachine] = []
        for each in sorted({*by_key, *known}):
            cluster, launch = by_key.get(each), known.get(each)
            machines = launch.machines if launch else cluster.note.machines() if cluster and cluster.note else ()
            if machines and machines[0].vm_type.partition("/")[0] == self.name and key in (None, each):
                found += self._in_its_state(each, machines, cluster, launch)
        self._answers.note_answer(self.name)
        return tuple(found)

    def _in_its_state(
        self,
        key: str,
        machines: Sequence[RentedMachine],
        cluster: SkyPilotCluster | None,
        launch: RememberedLaunch | None,
    ) -> tuple[RentedMachine, ...]:
        is_up = cluster is not None and cluster.status == "UP" and cluster.has_timer
        request = None if is_up else self._launch_request(key, _asked_at(launch))
        failure = self._failure(request) if request is not None and request.status == "FAILED" else None
        spot = cluster.note.spot if cluster and cluster.note else self._was_spot(key)
        state, reason = machine_state(cluster, request, spot=spot, failure=failure)
        if cluster is None and self._file(key, "ending").exists() and (request is None or not request.is_active):
            self._forget(key)
            return ()
        if state is None:
            if launch is None or (datetime.now(UTC) - launch.asked_at).total_seconds() < _FORGOTTEN_SECONDS:
                state, reason = "booting", "SkyPilot is asked."
            else:
                state, reason = "failed", "SkyPilot knows nothing of this launch."
        launched_at = cluster.launched_at if cluster else None
        if state != "ready":
            listed = in_state(machines, state, reason, launched_at=launched_at)
            has_none = state == "failed" and (reason or "").startswith(NO_CAPACITY)
            return tuple(replace(each, refused="capacity") for each in listed) if has_none else listed
        self._look_if_silent(key)
        self._set_timer(key, machines[0], cluster, launch)
        addresses = self._addresses(key, machines)
        if addresses is None:
            return in_state(machines, "booting", "ssh to its nodes is set up.", launched_at=launched_at)
        ready = in_state(machines, "ready", None, launched_at=launched_at)
        return tuple(replace(each, address=addresses[each.node]) for each in ready)

    def _launch_request(self, key: str, since: datetime) -> ApiRequest | None:
        """The newest request for a launch that was made since it was remembered."""
        found = self._api.requests_of(cluster_name(key))
        launches = [each for each in found if each.name == "sky.launch"]
        return next((each for each in launches if each.created_at >= since.timestamp() - 1.0), None)

    def _failure(self, request: ApiRequest) -> str:
        """Why a request failed."""
        if request.id not in self._failures:
            try:
                self._api.result(request.id)
                self._failures[request.id] = "no reason is given"
            except SkyPilotError as error:
                self._failures[request.id] = str(error)
        return self._failures[request.id]

    def _was_spot(self, key: str) -> bool:
        return self._file(key, "spot").exists()

    def _look_if_silent(self, key: str) -> None:
        """Have SkyPilot look at a cluster whose machines did not answer. That takes seconds, and is not waited for."""
        if key not in self._silent or not _is_due(self._refreshed_at, key, _REFRESH_SECONDS):
            return
        self._silent.discard(key)
        self._api.ask("/status", {"cluster_names": [cluster_name(key)], "refresh": "FORCE", "all_users": True})

    def _set_timer(
        self, key: str, machine: RentedMachine, cluster: SkyPilotCluster | None, launch: RememberedLaunch | None
    ) -> None:
        """Ask for SkyPilot's timer anew, once the machines are up: that of the launch counts from their boot, and a
        cluster that is up after a launch that failed may have none. It is asked for again until SkyPilot lists it."""
        listed, path = cluster.timer_minutes if cluster else None, self._file(key, "timer")
        if launch is None and listed is not None:  # of another computer, which sets it
            return
        if listed is not None and path.exists() and path.read_text() == str(listed):
            return
        if _is_due(self._timed_at, key, _TIMER_SECONDS):
            until = paid_until(machine.expires_at, asked_at=launch.asked_at if launch else datetime.now(UTC))
            body = rest_timer(until, now=datetime.now(UTC))
            self._api.ask("/autostop", {"cluster_name": cluster_name(key), **body})
            if launch is not None:
                path.write_text(str(body["idle_minutes"]))

    # Entering.

    def _addresses(self, key: str, machines: Sequence[RentedMachine]) -> list[str | None] | None:
        """The addresses of the nodes, among themselves; None until ssh reaches each and has made its folder."""
        path, name = self._file(key, "nodes"), cluster_name(key)
        if path.exists():
            found: list[str | None] = json.loads(path.read_text())
            return found
        if not (Path.home() / SSH_NAMES / name).exists():
            self._write_ssh_names(name)
            return None
        try:
            addresses = [self._enter(machine) for machine in machines]
        except MachineUnreachableError:
            return None
        fresh = path.with_suffix(".new")
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(addresses))
        fresh.replace(path)
        return addresses

    def _write_ssh_names(self, name: str) -> None:
        """Have SkyPilot write how ssh reaches a cluster: its command does when it shows the state."""
        if _is_due(self._entered_at, name, _ENTER_SECONDS):
            self._api.start_command(("status", name), log="status.log")

    def _enter(self, machine: RentedMachine) -> str | None:
        name = node_name(cluster_name(machine.key), machine.node)
        connection = self._connections.setdefault(name, SshConnection(name))
        done = SshShell(connection, ".").run(("sh", "-c", _ENTER, "sh", _place(machine)), timeout_seconds=20.0)
        return next(iter(done.output.decode(errors="replace").split()), None)

    def _forget(self, key: str) -> None:
        for kind in ("nodes", "ending", "spot", "timer"):
            self._file(key, kind).unlink(missing_ok=True)
        self._memory.forget(key)

    def _file(self, key: str, kind: str) -> Path:
        return self._folder / f"{safe_key(key)}.{kind}"


class _SkyPilotShell(SshShell):
    """A host that tells its agent how to switch it off, and the door if it does not answer."""

    def __init__(self, connection: SshConnection, folder: str, on_silence: Callable[[], None]) -> None:
        super().__init__(connection, folder)
        self._on_silence = on_silence

    def run(self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        words = ("env", f"{agent.POWER_OFF}={_POWER_OFF}", *command)
        try:
            return super().run(words, given=given, timeout_seconds=timeout_seconds)
        except MachineUnreachableError:
            self._on_silence()
            raise


def _is_due(times: dict[str, float], key: str, seconds: float) -> bool:
    """True at most every so many seconds for a key."""
    now = time.monotonic()
    if now - times.get(key, -seconds) < seconds:
        return False
    times[key] = now
    return True


def _place(machine: RentedMachine) -> str:
    return f"{_PLACE}/{safe_key(machine.key)}/{machine.node}"


def _asked_at(launch: RememberedLaunch | None) -> datetime:
    return launch.asked_at if launch else datetime.fromtimestamp(0, UTC)

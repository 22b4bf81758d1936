"""The door to clusters that Slurm schedules. One launch is one job, with one machine for each of its nodes.

Slurm's own commands do the work, on the login host by ssh or on this one. The job waits in the queue, and costs nothing
there; its time limit is the lease. Files go through the home folder, which all nodes share, so that a program can be
sent before its job runs, and results can be fetched after it has ended. Neither exit codes nor one command alone are
trusted: the job is looked for by its name, which holds the key of the launch. `slurm_scripts.py` lists the files.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import msgspec

from trainfare.agent import keeper
from trainfare.clouds.answers import Answers
from trainfare.clouds.door import Completed, Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.clouds.launch_memory import LaunchMemory, RememberedLaunch, safe_key
from trainfare.clouds.local_shell import LocalShell
from trainfare.clouds.slurm_answers import SlurmJob, parse_jobs, parse_partitions
from trainfare.clouds.slurm_scripts import (
    DESCRIBE,
    END,
    FULL,
    JOB,
    JOB_PREFIX,
    LAUNCH,
    LIST,
    NEEDED,
    PLACE,
    REFUSED,
    SILENT,
)
from trainfare.clouds.slurm_shell import SlurmShell
from trainfare.clouds.ssh_connection import SshConnection
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer
from trainfare.model.rented import RentedMachine
from trainfare.model.slurm import SlurmCluster, SlurmDescription, SlurmPartition

PROVIDER = "slurm"

_ANSWER_SECONDS = 60.0
"""The time that Slurm has to answer: a busy controller takes long."""
_MARGIN_SECONDS = 120.0
"""The time limit of a job is later than its lease by so much, in which the agent ends the program and lists results."""
_SHORTEST_SECONDS = 60.0


def home_shell(cluster: SlurmCluster, connections: dict[str, SshConnection] | None = None, folder: str = "") -> Shell:
    """A folder in the home folder of the login host, or of this host."""
    if cluster.destination is None:
        return LocalShell(folder=Path.home() / folder)
    known = {} if connections is None else connections
    connection = known.setdefault(cluster.destination, SshConnection(cluster.destination))
    return SshShell(connection, folder or ".")


def describe_cluster(cluster: SlurmCluster, *, timeout_seconds: float = _ANSWER_SECONDS) -> SlurmDescription:
    """Ask a cluster for its version and its partitions."""
    done = home_shell(cluster).run(("sh", "-c", DESCRIBE), timeout_seconds=timeout_seconds)
    if done.exit_code:
        raise ExternalError(_failure(cluster, done))
    version, *lines = done.output.decode(errors="replace").splitlines() or [""]
    partitions = parse_partitions(cluster.name, lines)
    if not partitions:
        raise ExternalError(f"The cluster {cluster.name} has no partition that is up and has nodes.")
    return SlurmDescription(version=version.strip(), partitions=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A machine of a launch, as its folder describes it."""

    machine: RentedMachine
    job: str
    lease: float | None
    """Seconds since 1970, by the clock of the login host."""
    address: str | None
    is_up: bool
    has_results: bool
    is_ending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The answer of a cluster: its clock, the user's jobs, and the folders of launches."""

    clock: float
    jobs: tuple[SlurmJob, ...]
    silence: str | None
    """Why Slurm itself did not answer; None if it did."""
    nodes: tuple[_Node, ...]

    def job_of(self, key: str, number: str) -> SlurmJob | None:
        """The job of a launch: by its number, or by its name if the number was not written down."""
        named = [job for job in self.jobs if job.name == f"{JOB_PREFIX}{key}"]
        return next((job for job in named if job.id == number or (job.is_active and not number)), None)


class SlurmDoor:
    """A `Door`. `folder` remembers launches. `partitions` are those of the offers, by the keys of their VmTypes."""

    name = PROVIDER
    powers_off = False
    appears_within_seconds = 5.0
    boots_within_seconds = 900.0
    extends_leases = False

    def __init__(
        self,
        folder: Path,
        offers: Iterable[Offer],
        clusters: Sequence[SlurmCluster],
        partitions: Mapping[str, SlurmPartition],
    ) -> None:
        self._memory = LaunchMemory(folder)
        self._every = offers
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._partitions = partitions
        self._connections: dict[str, SshConnection] = {}
        self._answers = Answers()

    @cached_property
    def _offers(self) -> tuple[Offer, ...]:
        """Read when they are needed first: most calls do not, and reading all prices takes time."""
        return tuple(offer for offer in self._every if offer.vm_type.provider == PROVIDER)

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def launch(self, launch: Launch) -> None:
        cluster, partition = self._place_of(launch)
        with self._memory.asking(launch, cluster.name), self._answers.asking(cluster.name):
            self._submit(launch, cluster, partition)

    def machines(self, key: str | None = None) -> tuple[RentedMachine, ...]:
        remembered = self._memory.all()
        everywhere = {*self._clusters, *(launch.destination for launch in remembered.values())}
        names = [remembered[key].destination] if key in remembered else sorted(everywhere)
        if not names:
            return ()
        with ThreadPoolExecutor(max_workers=min(8, len(names))) as pool:
            listed = pool.map(lambda name: self._machines_of(name, key, remembered), names)
            return tuple(sorted((machine for found in listed for machine in found), key=lambda each: each.id))

    def known_machines(self) -> tuple[RentedMachine, ...]:
        return tuple(machine for launch in self._memory.all().values() for machine in launch.machines)

    def shell(self, machine: RentedMachine) -> Shell:
        cluster = self._cluster_of(machine)
        folder = f"{PLACE}/{safe_key(machine.key)}/{machine.node}"
        return SlurmShell(home_shell(cluster, self._connections, folder), machine)

    def terminate(self, key: str) -> None:
        safe_key(key)
        remembered = self._memory.all().get(key)
        for cluster in self._clusters.values():
            if remembered is None or remembered.destination == cluster.name:
                self._end(cluster, key)

    # Launching.

    def _place_of(self, launch: Launch) -> tuple[SlurmCluster, SlurmPartition]:
        key, nodes = launch.candidate.offer.vm_type.key, launch.candidate.nodes
        partition = self._partitions.get(key)
        if partition is None or partition.cluster not in self._clusters:
            known = ", ".join(sorted(self._partitions)) or "there are none"
            raise RefusedError(f"{key} is not a partition of your clusters: {known}.")
        if nodes > partition.nodes:
            raise RefusedError(f"{key} has {partition.nodes} nodes, and {nodes} are asked for.")
        return self._clusters[partition.cluster], partition

    def _submit(self, launch: Launch, cluster: SlurmCluster, partition: SlurmPartition) -> None:
        source = Path(keeper.__file__).read_bytes()
        limit = _time_limit(launch, partition)
        lasting = replace(launch, expires_at=datetime.now(UTC) + timedelta(seconds=limit - _MARGIN_SECONDS))
        machines = lasting.ready_machines(now=datetime.now(UTC))
        given = b"".join(msgspec.json.encode(each) + b"\n" for each in machines) + source
        until = str(round(launch.ends_by.timestamp())) if launch.ends_by else ""
        comment = f"{launch.owner} {launch.candidate.offer.vm_type.key}"
        sbatch = ("sbatch", f"--comment={comment}", *_request(launch, partition, limit), *cluster.options)
        words = ("sh", "-c", LAUNCH, "sh", safe_key(launch.key), str(len(machines)), until, JOB, *sbatch)
        done = home_shell(cluster, self._connections).run(words, given=given, timeout_seconds=_ANSWER_SECONDS)
        if done.exit_code in (NEEDED, FULL, REFUSED):
            raise RefusedError(_failure(cluster, done))
        if done.exit_code:
            raise ExternalError(_failure(cluster, done))

    # Listing.

    def _machines_of(
        self, name: str, key: str | None, remembered: Mapping[str, RememberedLaunch]
    ) -> list[RentedMachine]:
        """The machines of a cluster; those that are remembered, if it does not answer."""
        mine = {each: launch for each, launch in remembered.items() if launch.destination == name}
        cluster = self._clusters.get(name, SlurmCluster(name=name))
        reason = self._answers.silence_of(name)
        try:
            if name not in self._clusters:
                reason = f"The cluster {name} is not in machines.toml any more."
            elif reason is None:
                listing = self._list(cluster, key)
        except ExternalError as error:
            reason = str(error)
            self._answers.note_silence(name, reason)
        if reason is not None:
            known = [m for launch in mine.values() for m in launch.machines if key in (None, m.key)]
            return [replace(machine, state="unreachable", reason=reason) for machine in known]
        found = [*self._in_folders(cluster, listing), *_without_folders(listing, key)]
        if key is None and listing.silence is None:
            self._memory.forget_ended(mine, {machine.key for machine in found})
        return found

    def _list(self, cluster: SlurmCluster, key: str | None) -> _Listing:
        words = ("sh", "-c", LIST, "sh", safe_key(key) if key else "*")
        done = home_shell(cluster, self._connections).run(words, timeout_seconds=_ANSWER_SECONDS)
        lines = done.output.decode(errors="replace").splitlines()
        if "machines" not in lines:
            raise ExternalError(_failure(cluster, done))
        at = lines.index("machines")
        silence = None
        if lines[1] != "answers":
            said = lines[2] if at > 2 else "no reason is given"
            silence = f"Slurm does not answer on {_where(cluster)}: {said}"
        return _Listing(
            clock=float(lines[0]),
            jobs=tuple(parse_jobs(lines[2:at])) if silence is None else (),
            silence=silence,
            nodes=tuple(node for line in lines[at + 1 :] if (node := _parse_node(line)) is not None),
        )

    def _in_folders(self, cluster: SlurmCluster, listing: _Listing) -> list[RentedMachine]:
        """The machines of launches that have a folder. One that was to end and whose job has ended is removed."""
        launches: dict[str, list[_Node]] = {}
        for node in listing.nodes:
            launches.setdefault(node.machine.key, []).append(node)
        found = []
        for key, nodes in launches.items():
            job = listing.job_of(key, nodes[0].job)
            is_over = listing.silence is None and (job is None or not job.is_active)
            if nodes[0].is_ending and is_over:
                self._end(cluster, key)
            elif job is not None or nodes[0].job:  # else its submission is under way
                have_ended = all(node.has_results for node in nodes)
                found += [_machine(node, job, listing, have_ended=have_ended) for node in nodes]
        return found

    # Ending.

    def _end(self, cluster: SlurmCluster, key: str) -> None:
        """Cancel the job of a launch, or remove the folder of one whose job has ended."""
        words = ("sh", "-c", END, "sh", key)
        done = home_shell(cluster, self._connections).run(words, timeout_seconds=_ANSWER_SECONDS)
        if done.exit_code:
            raise ExternalError(_failure(cluster, done))
        if not home_shell(cluster, self._connections).read(f"{PLACE}/{key}/keeper.py", limit=1):
            self._memory.forget(key)

    def _cluster_of(self, machine: RentedMachine) -> SlurmCluster:
        partition = self._partitions.get(machine.vm_type)
        remembered = self._memory.all().get(machine.key)
        name = partition.cluster if partition else remembered.destination if remembered else None
        if name not in self._clusters:
            raise MachineUnreachableError(f"The cluster of {machine.id} is not in machines.toml any more.")
        return self._clusters[name]


def _time_limit(launch: Launch, partition: SlurmPartition) -> float:
    """The time limit of the job, in seconds: whole minutes, and not more than the partition allows."""
    lasts = max(_SHORTEST_SECONDS, (launch.expires_at - datetime.now(UTC)).total_seconds()) + _MARGIN_SECONDS
    limit = 60.0 * math.ceil(lasts / 60)
    longest = partition.longest_seconds
    return limit if longest is None else min(limit, max(60.0, 60.0 * math.floor(longest / 60)))


def _request(launch: Launch, partition: SlurmPartition, limit: float) -> tuple[str, ...]:
    """The options of `sbatch`: whole nodes, or the part of each that the offer is."""
    vm_type = launch.candidate.offer.vm_type
    words = [
        f"--partition={partition.partition}",
        f"--nodes={launch.candidate.nodes}",
        "--ntasks-per-node=1",
        f"--time={round(limit / 60)}",
    ]
    gpus = vm_type.gpus or partition.gpus
    if gpus:
        words.append("--gres=" + ":".join(filter(None, ("gpu", partition.gpu, str(gpus)))))
    cpus = math.ceil(vm_type.vcpus or partition.cpus)
    if cpus >= partition.cpus and gpus == partition.gpus:
        return (*words, "--exclusive", "--mem=0")
    memory = f"--mem={round(vm_type.memory_gib * 1024)}M" if vm_type.memory_gib else None
    return (*words, f"--cpus-per-task={cpus}", *((memory,) if memory else ()))


def _parse_node(line: str) -> _Node | None:
    parts = line.split("|", 4)
    if len(parts) != 5:
        return None
    signs, job, lease, place, text = parts
    try:
        machine = msgspec.json.decode(text, type=RentedMachine)
        ends = float(lease) if lease else None
    except (msgspec.MsgspecError, ValueError):  # a folder that is being removed, or is not ours
        return None
    name, _, address = place.partition(" ")
    return _Node(
        machine=machine,
        job=job,
        lease=ends,
        address=address or name or None,
        is_up="u" in signs,
        has_results="r" in signs,
        is_ending="e" in signs,
    )


def _machine(node: _Node, job: SlurmJob | None, listing: _Listing, *, have_ended: bool) -> RentedMachine:
    """A machine in its state. One whose agent is done is ready even if its job is over: its files are there."""
    machine = replace(node.machine, address=node.address, launched_at=None)
    if job is not None and job.started is not None and job.phase != "waits":
        began = _by_our_clock(job.started, listing)
        machine = replace(machine, launched_at=began, expires_at=began + _lasts(node))
    if node.lease is not None:
        machine = replace(machine, expires_at=_by_our_clock(node.lease, listing))
    if have_ended:
        return replace(machine, state="ready")
    if listing.silence is not None:
        return replace(machine, state="unreachable", reason=listing.silence)
    if job is None:
        return replace(machine, state="failed", reason=f"Slurm does not list the job {node.job} any more.")
    match job.phase:
        case "waits":
            return replace(machine, state="queued", reason=job.reason, expires_at=datetime.now(UTC) + _lasts(node))
        case "starts":
            return replace(machine, state="booting")
        case "runs":
            return replace(machine, state="ready" if node.is_up else "booting")
        case "ended":
            return replace(machine, state="preempted" if job.state == "PREEMPTED" else "failed", reason=job.ending)
        case _:
            return replace(machine, state="unreachable", reason=f"The job {job.id} is {job.state.lower()}.")


def _lasts(node: _Node) -> timedelta:
    """The time that the machine may be kept, from the start of its job on."""
    return node.machine.expires_at - (node.machine.launched_at or node.machine.expires_at)


def _without_folders(listing: _Listing, key: str | None) -> list[RentedMachine]:
    """The machines of jobs whose folder is gone, or was never seen here: one for each, so that it can be ended."""
    known = {node.machine.key for node in listing.nodes}
    found = []
    for job in listing.jobs:
        own = job.name.removeprefix(JOB_PREFIX)
        run_id, _, attempt = own.rpartition("-")
        owner, _, vm_type = job.comment.partition(" ")
        wanted = own not in known and key in (None, own) and job.is_active
        if wanted and run_id and attempt.isdigit() and owner and vm_type:
            ends = datetime.now(UTC) if job.ends is None else _by_our_clock(job.ends, listing)
            found.append(
                RentedMachine(
                    id=f"{own}/0",
                    owner=owner,
                    run_id=run_id,
                    attempt=int(attempt),
                    node=0,
                    vm_type=vm_type,
                    state="queued" if job.phase == "waits" else "unreachable",
                    expires_at=ends,
                    reason=f"The folder of the job {job.id} does not exist.",
                )
            )
    return found


def _by_our_clock(moment: float, listing: _Listing) -> datetime:
    """A moment by the clock of the login host, which may be wrong."""
    return datetime.now(UTC) + timedelta(seconds=moment - listing.clock)


def _where(cluster: SlurmCluster) -> str:
    return cluster.destination or "this host"


def _failure(cluster: SlurmCluster, done: Completed) -> str:
    """A sentence about a script that ended with an exit code."""
    lines = done.error.decode(errors="replace").strip().splitlines()
    reason = lines[-1] if lines else f"exit code {done.exit_code}"
    if done.exit_code == NEEDED:
        program = done.output.decode(errors="replace").strip()
        return f"{program} is not installed on {_where(cluster)}, where the cluster {cluster.name} is reached."
    if done.exit_code == FULL:
        return f"No folder can be made in the home folder on {_where(cluster)}: {reason}."
    if done.exit_code == SILENT:
        return f"Slurm does not answer on {_where(cluster)}: {reason}"
    if done.exit_code == REFUSED:
        return f"The cluster {cluster.name} refused the job: {reason.rpartition('failed: ')[2]}."
    return f"The cluster {cluster.name} did not do it: {reason}"

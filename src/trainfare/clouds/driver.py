"""Drives the agent on a machine through its `Shell`: functions without a state of their own.

Each can be repeated by another process after the first was killed at any point. `agent/agent.py` describes the files.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from trainfare.agent import agent, place, supply
from trainfare.clouds.data_files import list_data_files
from trainfare.clouds.door import Completed, Shell, StartsAgent
from trainfare.clouds.recipes import EnvironmentRecipe
from trainfare.clouds.sending import Parcel, Sending
from trainfare.errors import ExternalError
from trainfare.model.supplies import DataSource
from trainfare.probe import boot

_START_SECONDS = 60.0
_AGENT = Path(agent.__file__)
_SUPPLY = Path(supply.__file__)
_PLACE = Path(place.__file__)
_PROBE = Path(boot.__file__).parent
_PYTHON = 'exec "$(command -v python3 || command -v python)" -I "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJob:
    """The task of the agent on one node."""

    key: str
    node: int
    command: tuple[str, ...]
    lease_ends_at: datetime
    nodes: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    setup: str | None = None
    """A shell command that runs before the program, in the same folder."""
    longest_seconds: float | None = None
    """The longest time from the start of the agent on."""
    grace_seconds: float = 20.0
    """The time that the program has to end after SIGTERM."""
    heartbeat_seconds: float = 5.0
    power_off: bool = False
    """The agent switches the machine off when the lease ends."""
    probe: bool = True
    """Iterations, losses and checkpoints are observed."""
    notice: str | None = None
    """The provider whose metadata service announces that a spot machine is taken back: aws, gcp or azure."""
    notice_address: str | None = None
    """The host and port of that service; None means the usual one."""
    restored: tuple[str, ...] = ()
    """Files of an earlier attempt that are put back before the start: results of the program, like those it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """The facts by which a node finds its place among several. Its job names the address of node 1 as `@node1@`."""

    node: int
    addresses: tuple[str | None, ...] | None
    """The addresses of all nodes; None if only the nodes will know them, as in a queue."""
    ports: tuple[int, ...] = ()
    """Ports that must be free on this node."""
    interface_variables: tuple[str, ...] = ()
    """Variables that name the interface by which the node reaches the others, unless they are set."""


def address_token(node: int) -> str:
    """The word in a job that stands for the address of a node."""
    return f"@node{node}@"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBundle:
    """The files of a folder at home that the program needs, by their paths within it."""

    folder: Path
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """Everything that the program needs next to its code."""

    environment: EnvironmentRecipe | None = None
    data: tuple[DataSource, ...] = ()

    def __bool__(self) -> bool:
        return self.environment is not None or bool(self.data)


NO_SUPPLIES = Supplies()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of the journal of the agent."""

    number: int
    time: float
    """Seconds since 1970, by the clock of the machine."""
    kind: str
    values: Mapping[str, Any]
    ends: int
    """The position in the journal after this entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The files that a program created or changed, by their paths within its folder."""

    files: Mapping[str, ResultFile]

    def __post_init__(self) -> None:
        for name in self.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ExternalError(f"the machine names a result {name}, which is not in the program's folder.")


def has_started(shell: Shell) -> bool:
    """An agent was started in the folder of the launch."""
    return bool(shell.read("agent.pid", limit=1))


def prepare(shell: Shell, *, job: AgentJob, code: CodeBundle, supplies: Supplies = NO_SUPPLIES) -> int:
    """Send everything that the agent needs, in one go; returns the bytes. Nothing is sent to an agent that was started:
    its program may have changed the files."""
    if has_started(shell):
        return 0
    sending = begin_sending(shell, code=code, supplies=supplies, probe=job.probe)
    while not sending.advance(shell, seconds=math.inf):
        pass
    return sending.bytes + write_job(shell, job)


def begin_sending(
    shell: Shell,
    *,
    code: CodeBundle,
    supplies: Supplies = NO_SUPPLIES,
    probe: bool = True,
    others: Sequence[Parcel] = (),
) -> Sending:
    """The code, the probe, the data that this host does not have yet, and `others`, which are to be sent. The list of
    supplies is written at once."""
    parcels = [Parcel(folder=code.folder, path="work", files=tuple(code.files))]
    if probe:
        names = tuple(str(path.relative_to(_PROBE)) for path in sorted(_PROBE.rglob("*.py")))
        parcels.append(Parcel(folder=_PROBE, path="probe", files=names))
    if supplies:
        parcels += _missing_supplies(shell, supplies)
    return Sending(parcels=(*parcels, *others))


def write_job(shell: Shell, job: AgentJob, place: NodePlace | None = None) -> int:
    """Write the agent and its job, which is the last thing before it is started; returns the bytes."""
    content = _AGENT.read_bytes()
    if place is not None:
        shell.write("place.py", _PLACE.read_bytes())
        shell.write("place.json", msgspec.json.encode(place))
    shell.write("agent.py", content)
    if not shell.read("lease", limit=1):
        renew(shell, job.lease_ends_at)
    description = json.dumps(
        {name: value for name, value in msgspec.to_builtins(job).items() if name != "lease_ends_at"}
    ).encode()
    shell.write("job.json", description)
    return len(content) + len(description)


def _missing_supplies(shell: Shell, supplies: Supplies) -> list[Parcel]:
    """Write the list of what is needed; returns the data that this host does not have yet."""
    folders = {source.name: Path(source.source).is_dir() for source in supplies.data}
    record = msgspec.to_builtins(supplies)
    record["data"] = [{**source, "folder": folders[source["name"]]} for source in record["data"]]
    shell.write("supply.py", _SUPPLY.read_bytes())
    shell.write("supply.json", json.dumps(record).encode())
    if not any(source.kind == "sent" for source in supplies.data):
        return []
    parcels = []
    for number in json.loads(_run_python(shell, "supply.py", ["missing"]).output):
        files = list_data_files(Path(supplies.data[number].source))
        parcels.append(Parcel(folder=files.folder, path=f"arriving/{number}", files=files.files))
    return parcels


def start(shell: Shell, *, secrets: Mapping[str, str]) -> None:
    """Start the agent, unless it runs or has done its work. An agent that was killed is started again: it records the
    end of the program, which ended with it, and its results."""
    if isinstance(shell, StartsAgent):
        shell.start_agent(secrets)
    else:
        _agent(shell, ["start"], given=json.dumps(dict(secrets)).encode() + b"\n")


def entries(shell: Shell, *, after: int, position: int = 0) -> tuple[JournalEntry, ...]:
    """The next entries after a number, in order: not always all there are, and none only if there is no other.

    `position` is where the entry of that number ends, if it is known: it makes the call cheaper for the machine.
    """
    if position:
        found = _parse(shell.read("journal.jsonl", offset=position), position)
        if not found or found[0].number == after + 1:
            return found
    first, _, text = _agent(shell, ["entries", str(after)]).output.partition(b"\n")
    return _parse(text, int(first or 0))


def output(shell: Shell, *, offset: int) -> bytes:
    """The next part of what setup and program printed; empty if there is no more."""
    return shell.read("output", offset=offset)


def ask_to_stop(shell: Shell, reason: str) -> None:
    shell.write("stop", reason.encode())


def renew(shell: Shell, lease_ends_at: datetime) -> None:
    """Let the lease end at this time. It is written by the clock of the machine, which may be wrong."""
    seconds = (lease_ends_at - datetime.now(UTC)).total_seconds()
    text = f"echo $(($(date +%s) + {round(seconds)})) > lease.new && mv lease.new lease"
    _require_success(shell.run(["sh", "-c", text]), "the lease could not be written")


def results(shell: Shell) -> Results | None:
    """The results; None as long as the program has not ended."""
    text, part = b"", shell.read("results.json")
    while part:
        text += part
        part = shell.read("results.json", offset=len(text))
    return _results(text) if text else None


def fetch(shell: Shell, results: Results, folder: Path) -> int:
    """Copy the results to a folder at home, verified; returns the bytes that were received."""
    return shell.fetch("work", folder, files={name: file.sha256 for name, file in results.files.items()})


def end(shell: Shell) -> None:
    """Kill the program and the agent at once, if there are any."""
    if shell.read("agent.py", limit=1):
        _agent(shell, ["end"])


def _results(text: bytes) -> Results:
    try:
        return msgspec.convert(json.loads(text), Results)
    except (ValueError, msgspec.ValidationError) as error:
        raise ExternalError(f"the list of results on the machine cannot be read: {error}") from error


def _agent(shell: Shell, words: Sequence[str], *, given: bytes = b"") -> Completed:
    return _run_python(shell, "agent.py", words, given=given)


def _run_python(shell: Shell, script: str, words: Sequence[str], *, given: bytes = b"") -> Completed:
    done = shell.run(["sh", "-c", _PYTHON, "sh", script, *words], given=given, timeout_seconds=_START_SECONDS)
    return _require_success(done, f"`{script} {shlex.join(words)}` failed on the machine")


def _require_success(done: Completed, failure: str) -> Completed:
    if done.exit_code:
        lines = done.error.decode(errors="replace").strip().splitlines()
        raise ExternalError(f"{failure} with exit code {done.exit_code}: {lines[-1] if lines else 'no message'}")
    return done


def _parse(text: bytes, position: int) -> tuple[JournalEntry, ...]:
    """The entries of complete lines: the last one may still be being written."""
    found = []
    for line in text[: text.rfind(b"\n") + 1].splitlines(keepends=True):
        position += len(line)
        try:
            fields = json.loads(line)
            number, moment, kind = int(fields.pop("number")), float(fields.pop("time")), str(fields.pop("kind"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ExternalError(f"the journal on the machine cannot be read: {error!r}") from error
        found.append(JournalEntry(number=number, time=moment, kind=kind, values=fields, ends=position))
    return tuple(found)

"""The agent: what Trainfare runs on a machine next to a training program. One file, Python 3.8 or newer, no packages.

    python3 agent.py start        start the program of job.json in the background; secrets come by standard input
    python3 agent.py entries 17   print the entries of the journal after number 17
    python3 agent.py end          end the program and the agent at once

It starts the program, watches it and ends it when its time is over. Whoever reaches the machine reads the files of its
folder, and asks for something by writing one. It opens no connection but, if the job names it, to the metadata service
of the provider, which says when a spot machine will be taken back: the program is then asked to save and to end.

    job.json       what is to be done                          written before the start
    work/          the folder in which the program runs
    probe/         what observes the program from inside
    supply.py      makes the environment and the data of the program ready, if supply.json names any
    place.py       finds the place of this node among several, if there is a place.json; it writes placed.json
    lease          seconds since 1970: everything ends then    rewritten to allow more time
    stop           if it exists, the program is to end         written to ask for the end
    journal.jsonl  what happened, numbered                     written by the agent, like all that follow
    output         what the setup command and the program print
    agent.pid      the process id of the agent and when it started; locked while an agent runs
    agent.log      errors of the agent itself
    events.jsonl   what the probe observes
    before.json    size and time of each file in work/ before the program ran
    results.json   the files that the program created or changed, with their SHA-256
    reserve        room on the disk for the last entries

Two processes run: a guard and, as its child, the agent proper. If the agent is killed, the guard ends the program,
which is not watched any more, and starts the agent again to record that.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Dict  # noqa: UP035 # Python 3.8 has no dict[…] outside of annotations

TICK_SECONDS = 0.5
"""The pause between two looks for a stop, a lease or the end of a limit."""
OUTPUT_SECONDS = 0.1
"""Output is read at most this often: waking up for each line of a program that prints much would cost too much."""
OUTPUT_LIMIT_BYTES = 256 << 20
"""Only the end of a longer text is kept."""
TAIL_BYTES = 64 << 10
EVENT_FILE_BYTES = 8 << 20
RESERVE_BYTES = 1 << 20
WAITING_ENTRIES = 2000
"""Entries that are kept in memory while the disk is full."""
REPLY_BYTES = 4 << 20
NUMBERS_PER_ENTRY = 200
SHARE_OF_TIME = 0.002
"""A reading that takes t seconds of CPU time is repeated after t / SHARE_OF_TIME at the earliest."""
LONGEST_PAUSE_SECONDS = 60.0
SHORTEST_SECRET = 4
KILL_SECONDS = 10.0
RESTARTS = 3
F_SETPIPE_SZ = 1031  # named in `fcntl` since Python 3.10
MARKER = "TRAINFARE_LAUNCH"
"""An environment variable of every process that the agent starts, with the path of its folder."""
POWER_OFF = "TRAINFARE_POWER_OFF"
"""An environment variable with the command that switches the machine off."""
NOTICE_SECONDS = 3.0
"""The pause between two looks for a notice of the provider. That of Google Cloud comes half a minute before the end."""
NOTICE_TIMEOUT_SECONDS = 0.5
CHECKPOINT_SECONDS = 5.0
"""A file that was not written to for so long is complete."""
CHECKPOINT_SUFFIXES = (".pt", ".pth", ".ckpt", ".safetensors", ".keras", ".h5", ".index", ".npz", ".msgpack")

Entry = Dict[str, Any]  # noqa: UP006 # it is evaluated by Python 3.8


def steady_seconds() -> float:
    """A clock that cannot be set and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Files.


def write_file(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old content or the new one."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read_text(path: Path) -> str:
    """The content of a file; empty if it does not exist."""
    try:
        return path.read_text()
    except OSError:
        return ""


def file_stamps(folder: Path) -> dict[str, list[int]]:
    """The size and the modification time of every file, by its path within the folder."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                status = path.stat()
                found[str(path.relative_to(folder))] = [status.st_size, status.st_mtime_ns]
    return found


class Journal:
    """Numbered entries, one JSON object a line. While the disk is full, they wait in memory."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        content = path.read_bytes()
        self._size = content.rfind(b"\n") + 1
        os.ftruncate(self._file, self._size)  # without a last line that was cut off
        self.entries: list[Entry] = [json.loads(line) for line in content[: self._size].splitlines()]
        """The entries of an earlier agent in this folder."""
        self._number = self.entries[-1]["number"] if self.entries else 0
        self.waiting: list[Entry] = []

    def add(self, kind: str, **fields: Any) -> None:
        self.waiting.append({"time": round(time.time(), 3), "kind": kind, **fields})
        if len(self.waiting) > WAITING_ENTRIES:
            dispensable = [entry for entry in self.waiting if entry["kind"] in ("heartbeat", "meter")]
            self.waiting.remove((dispensable or self.waiting)[0])
        self.flush()

    def flush(self) -> None:
        """Append what waits. An entry gets its number only now, so that those that were dropped leave no gap."""
        while self.waiting:
            line = json.dumps({"number": self._number + 1, **self.waiting[0]}) + "\n"
            if not self._append(line.encode()):
                return
            self._number += 1
            del self.waiting[0]

    def _append(self, line: bytes) -> bool:
        written = write_some(self._file, line)
        if written < len(line):
            os.ftruncate(self._file, self._size)
            return False
        self._size += written
        return True


def write_some(file: int, data: bytes) -> int:
    """Write as much as the disk takes; returns the number of bytes."""
    try:
        return os.write(file, data)
    except OSError:
        return 0


class Output:
    """The output of the setup command and the program. Secrets are replaced by stars. Of what exceeds the limit or does
    not fit on the disk, only the end is kept."""

    def __init__(self, path: Path, secrets: list[str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = os.fstat(self._file).st_size
        self._secrets = sorted((s.encode() for s in secrets if len(s) >= SHORTEST_SECRET), key=len, reverse=True)
        self._held = b""
        self._left_out = 0
        self._tail = b""

    def add(self, data: bytes) -> None:
        data = self._held + data
        for secret in self._secrets:
            data = data.replace(secret, b"***")
        shown = len(data) - self._start_of_secret(data)
        data, self._held = data[:shown], data[shown:]
        self._keep(data)

    def catch_up(self) -> None:
        """Write the end of what was left out, once there is room again."""
        if self._left_out and self._size + TAIL_BYTES < OUTPUT_LIMIT_BYTES:
            self._write_tail()

    def close(self) -> None:
        held, self._held = self._held, b""
        self._keep(held)
        if self._left_out:
            self._write_tail()

    def _start_of_secret(self, data: bytes) -> int:
        """The number of bytes at the end that may be the beginning of a secret."""
        longest = min(len(data), max(map(len, self._secrets), default=1) - 1)
        ends = (n for n in range(longest, 0, -1) if any(s.startswith(data[-n:]) for s in self._secrets))
        return next(ends, 0)

    def _keep(self, data: bytes) -> None:
        room = 0 if self._left_out else max(0, OUTPUT_LIMIT_BYTES - self._size)
        written = write_some(self._file, data[:room]) if data and room else 0
        self._size += written
        self._left_out += len(data) - written
        if self._left_out:
            self._tail = (self._tail + data[written:])[-TAIL_BYTES:]

    def _write_tail(self) -> None:
        hidden = self._left_out - len(self._tail)
        note = b"\n[trainfare: %d bytes of output are left out here]\n" % hidden if hidden else b""
        text = note + self._tail
        if write_some(self._file, text) < len(text):
            os.ftruncate(self._file, self._size)
            return
        self._size += len(text)
        self._left_out, self._tail = 0, b""


# Processes.


def all_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def process_tree(root: int) -> list[int]:
    """The running processes that descend from `root`, without it."""
    children: dict[int, list[int]] = {}
    for pid in all_processes():
        fields = process_fields(pid)
        if fields and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(pid)
    found, new = [], [root]
    while new:
        new = [child for parent in new for child in children.get(parent, ())]
        found += new
    return found


def process_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    try:
        return Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def marked_processes(folder: Path) -> list[int]:
    """The processes with the marker of this folder in their environment."""
    wanted, found = f"{MARKER}={folder}".encode(), []
    for pid in all_processes():
        try:
            if wanted in Path("/proc", str(pid), "environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return [pid for pid in found if is_running(pid)]


def is_running(pid: int) -> bool:
    """False also for a zombie, which has ended but was not waited for."""
    return process_fields(pid)[:1] not in ([], ["Z"], ["X"])


def send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(pid, number)


def kill_all(find: Any) -> None:
    """Kill the processes that `find()` returns until there are none."""
    import signal

    give_up = steady_seconds() + KILL_SECONDS
    while steady_seconds() < give_up:
        remaining = find()
        if not remaining:
            return
        send_signal(remaining, signal.SIGKILL)
        time.sleep(0.01)


def adopt_orphans() -> None:
    """Make processes whose parent has ended children of this one, also those that left for a session of their own."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_with_parent() -> None:
    """Called in a new process: it is killed when the agent ends, and before the agent if memory runs out."""
    import ctypes

    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("200")


def power_off() -> None:
    import subprocess

    os.sync()
    subprocess.run(("/bin/sh", "-c", os.environ.get(POWER_OFF, "shutdown -P now")), check=False)


# The lease.


def moment_of(lease: str, *, wall: float, steady: float) -> float | None:
    """The end of a lease on the steady clock, from what the clock on the wall says now. None if it is not a number.

    It is worked out once for each lease: if the wall clock is set later, the lease lasts as long as before.
    """
    try:
        return steady + (float(lease) - wall)
    except ValueError:
        return None


class LeaseClock:
    """The moment at which everything ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""
        self.ends = 0.0
        self.span = 0.0
        """The time that was left when the lease was read."""

    def read(self) -> None:
        text = read_text(self._path).strip()
        if text in ("", self._text):
            return
        steady = steady_seconds()
        ends = moment_of(text, wall=time.time(), steady=steady)
        if ends is not None:
            self._text, self.ends, self.span = text, ends, max(0.0, ends - steady)


def time_to_ask(ends: float, *, span: float, grace: float) -> float:
    """The moment at which a program must be asked to end so that it has ended in time: it gets the grace, but not more
    than a tenth of all its time."""
    return ends - min(grace, span / 10)


# The notice of a provider that will take the machine back.


class NoticeWatch:
    """Looks at the metadata service of a provider, which only the machine itself can ask."""

    def __init__(self, provider: str, address: str | None) -> None:
        self._look = {"aws": self._aws, "gcp": self._gcp, "azure": self._azure}.get(provider)
        self._address = address or ("metadata.google.internal" if provider == "gcp" else "169.254.169.254")
        self._token: str | None = None
        self._next, self._pause = 0.0, NOTICE_SECONDS

    def seconds_left(self) -> float | None:
        """The time until the machine is taken back; None if nothing is known of that, or if it is too early to ask
        again. A service that does not answer is asked less and less often."""
        if self._look is None or steady_seconds() < self._next:
            return None
        import http.client

        try:
            left, self._pause = self._look(), NOTICE_SECONDS
        except (OSError, ValueError, KeyError, TypeError, AttributeError, http.client.HTTPException):
            left, self._pause = None, min(5 * NOTICE_SECONDS, 2 * self._pause)
        self._next = steady_seconds() + self._pause
        return left

    def _aws(self) -> float | None:
        """Instance metadata, version 2: a token first. There is no `instance-action` unless it will be taken back."""
        if self._token is None:
            self._token = self._ask("/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}, "PUT")
        text = self._ask("/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": self._token or ""})
        return None if text is None else seconds_until(json.loads(text)["time"], at_most=120.0)

    def _gcp(self) -> float | None:
        text = self._ask("/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
        return 30.0 if text is not None and text.strip() == "TRUE" else None

    def _azure(self) -> float | None:
        """Scheduled events: those of other machines of the same set are listed too."""
        text = self._ask("/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"})
        events = [event for event in json.loads(text or "{}").get("Events", []) if event.get("EventType") == "Preempt"]
        if not events:
            return None
        place = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        name = (self._ask(place, {"Metadata": "true"}) or "").strip()
        own = [event for event in events if not name or name in event.get("Resources", [name])]
        return seconds_until(own[0].get("NotBefore", ""), at_most=30.0) if own else None

    def _ask(self, path: str, headers: dict[str, str], method: str = "GET") -> str | None:
        """The answer of the service; None if it has none. Proxies are not used."""
        import http.client

        connection = http.client.HTTPConnection(self._address, timeout=NOTICE_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read(1 << 16).decode(errors="replace")
        finally:
            connection.close()
        if answer.status == 401:
            self._token = None  # it has run out
        if answer.status in (200, 404):
            return text if answer.status == 200 else None
        raise ValueError(answer.status)


def seconds_until(moment: str, *, at_most: float) -> float:
    """The time until a moment, as ISO 8601 or as in HTTP. The clock of the machine may be wrong, so it is not believed
    beyond the notice that the provider promises; a moment that cannot be read is as soon as that."""
    import calendar
    import email.utils

    try:
        if moment[:1].isdigit():
            left = calendar.timegm(time.strptime(moment[:19], "%Y-%m-%dT%H:%M:%S")) - time.time()
        else:
            left = email.utils.parsedate_to_datetime(moment).timestamp() - time.time()
    except (ValueError, TypeError, IndexError):
        return at_most
    return max(0.0, min(at_most, left))


# What the probe observes.


class Events:
    """Reads the file that the probe appends to, and puts an empty one in its place when it has become large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""
        path.touch()

    def read(self) -> list[Entry]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = self._rest + file.read()
                self._position = file.tell()
        except OSError:
            return []
        complete = data.rfind(b"\n") + 1
        self._rest = data[complete:]
        return [event for event in map(parse_event, data[:complete].splitlines()) if event]

    def shorten(self) -> None:
        """A process of the program may just be writing to the old file, so it is read once more afterwards."""
        if self._position < EVENT_FILE_BYTES:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        with self._path.open("rb") as old:
            try:
                fresh.touch()
                fresh.replace(self._path)
            except OSError:
                return
            time.sleep(0.01)
            old.seek(self._position)
            self._rest += old.read()
            self._position = 0


def parse_event(line: bytes) -> Entry | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event and "pid" in event else None


def unpack(event: Entry) -> list[float]:
    import array
    import binascii

    return array.array("d", binascii.a2b_base64(event["packed"])).tolist()


class Training:
    """Iterations and losses of one process. If several train at once, it is the one that was seen first;
    when it has ended, the next one continues the count."""

    def __init__(self) -> None:
        self._leader: int | None = None
        self._before_leader = 0
        self._count = 0
        self._first = 1
        self._seconds: list[float] = []
        self._losses: list[tuple[int, float]] = []
        self._pauses: list[tuple[float, float]] = []
        self._parts: dict[str, float] = {}
        self._started = time.monotonic()

    def began(self) -> None:
        """The program is started now; the probe uses the same clock."""
        self._started = time.monotonic()

    def note(self, events: list[Entry]) -> None:
        for event in events:
            if event["event"] == "iterations":
                self._follow(event["pid"])
        mine = [event for event in events if event["pid"] == self._leader]
        self._pauses += [(e["start"], e["end"]) for e in mine if e["event"] in ("window", "checkpoint")]
        for event in mine:
            if event["event"] in ("window", "checkpoint"):
                self._note_part(event)
            elif event["event"] == "iterations":
                self._note_iterations(event)
            elif event["event"] == "losses":
                first = self._before_leader + event["first"]
                self._losses += [(n, v) for n, v in enumerate(unpack(event), first) if abs(v) < float("inf")]

    def _follow(self, pid: int) -> None:
        if self._leader is None or (pid != self._leader and not process_fields(self._leader)):
            self._leader, self._before_leader = pid, self._count

    def _note_part(self, event: Entry) -> None:
        """Add up the number and the time of validations and checkpoints since the last entry."""
        name = "validation" if event["event"] == "window" else "checkpoint"
        for key, value in ((name + "s", 1), (name + "_seconds", max(0.0, event["end"] - event["start"]))):
            self._parts[key] = self._parts.get(key, 0) + value

    def _note_iterations(self, event: Entry) -> None:
        numbers = unpack(event)
        if numbers and not self._count:
            self._parts["init_seconds"] = max(0.0, numbers[0] - self._started)
        for start, end in zip(numbers[0::5], numbers[1::5]):  # noqa: B905 # `strict` is newer than Python 3.8
            pause = sum(max(0.0, min(end, until) - max(start, since)) for since, until in self._pauses)
            self._pauses = [(since, until) for since, until in self._pauses if until > end]
            self._seconds.append(max(0.0, end - start - pause))
        self._count = self._before_leader + event["first"] - 1 + len(numbers) // 5

    def entries(self) -> list[tuple[str, Entry]]:
        """The news, as entries of the journal."""
        seconds, self._seconds = self._seconds, []
        losses, self._losses = self._losses, []
        first, self._first = self._first, self._count + 1
        new: list[tuple[str, Entry]] = []
        if seconds or (self._parts and self._count):
            parts, self._parts = {key: float(f"{value:.6g}") for key, value in self._parts.items()}, {}
            if first == 1 and seconds:
                parts["first_seconds"] = float(f"{seconds[0]:.6g}")
            new.append(("iterations", {"first": first, "count": len(seconds), "seconds": thin(seconds), **parts}))
        if losses:
            count = losses[-1][0] - losses[0][0] + 1
            values = thin([value for _, value in losses])
            new.append(("losses", {"first": losses[0][0], "count": count, "values": values}))
        return new


def thin(numbers: list[float]) -> list[float]:
    """At most `NUMBERS_PER_ENTRY` numbers: means of groups of equal size but for the last."""
    size = max(1, -(-len(numbers) // NUMBERS_PER_ENTRY))
    groups = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return [float(f"{sum(group) / len(group):.6g}") for group in groups]


class CheckpointWatch:
    """The files in which the program saves its state: those that the probe saw it write. If it saw none, files with the
    usual suffixes count once they have not changed for a while."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._known: dict[str, list[int]] = {}
        self._probe_sees_them = False

    def began(self, stamps: dict[str, list[int]]) -> None:
        """These files are there before the program starts."""
        self._known = stamps

    def saved(self, events: list[Entry]) -> list[Entry]:
        """The checkpoints in some events of the probe, without those that were overwritten or deleted since."""
        found = {}
        for event in events:
            if event["event"] == "checkpoint" and event.get("path"):
                seconds, saved = event["end"] - event["start"], time.time() - (time.monotonic() - event["end"])
                path = Path(event["path"])
                path = path if bytes_of(path) else renamed(path, since=saved - seconds, until=saved)
                fields = {"path": self._name(path), "bytes": bytes_of(path), "seconds": round(seconds, 4)}
                known: Entry = {name: int(event[name]) for name in ("iteration", "resumes") if name in event}
                found[path] = {**fields, "saved": round(saved, 3), **known}
        complete = [checkpoint for checkpoint in found.values() if checkpoint["bytes"]]
        self._probe_sees_them = self._probe_sees_them or bool(complete)
        return complete

    def completed(self, *, has_ended: bool = False) -> list[Entry]:
        """Files with the suffix of a checkpoint that are new or changed, and complete, as all are once the program has
        ended."""
        if self._probe_sees_them:
            return []
        found = []
        for name, stamp in file_stamps(self._work).items():
            complete = stamp[0] and (has_ended or time.time() - stamp[1] / 1e9 > CHECKPOINT_SECONDS)
            if name.endswith(CHECKPOINT_SUFFIXES) and complete and self._known.get(name) != stamp:
                self._known[name] = stamp
                found.append({"path": name, "bytes": stamp[0], "saved": round(stamp[1] / 1e9, 3)})
        return found

    def _name(self, path: Path) -> str:
        """The path in the program's folder, if it is there."""
        try:
            return str(path.relative_to(self._work))
        except ValueError:
            return str(path)


def renamed(path: Path, *, since: float, until: float) -> Path:
    """The file that a file has become: many programs save to a temporary name, and rename the file when it is complete.
    It is the newest one in the same folder that was written while the program saved; the path itself if there is none.
    """
    found = []
    with contextlib.suppress(OSError):
        for each in path.parent.iterdir():
            status = each.stat()
            if each.is_file() and status.st_size and since - 0.1 <= status.st_mtime <= until + 0.1:
                found.append((status.st_mtime_ns, each))
    return max(found)[1] if found else path


def bytes_of(path: Path) -> int:
    """The size of a file, of all files in a folder, or of all files whose paths begin like this."""
    if path.is_file():
        return path.stat().st_size
    if path.is_dir():
        return sum(size for size, _ in file_stamps(path).values())
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*") if each.is_file())


# Meters.


class Meter:
    """The resources that the program has used, from /proc and nvidia-smi. What cannot be read is left out."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._peak = 0
        self._cpu = 0.0
        self._io: dict[int, tuple[int, int]] = {}
        self._network_before = network_bytes()
        self.gpu_process: Any = None
        self._gpu: Entry = {}

    def read(self) -> Entry:
        fields = {pid: process_fields(pid) for pid in process_tree(os.getpid()) if pid != self.gpu_pid}
        live = [values for values in fields.values() if len(values) > 21]
        self._note_io(list(fields))
        memory = resident_bytes(list(fields))
        self._peak = max(self._peak, memory)
        ticks = sum(int(value) for values in live for value in values[11:15])
        ended = os.times()
        seconds = ticks / os.sysconf("SC_CLK_TCK") + ended.children_user + ended.children_system
        self._cpu = max(self._cpu, seconds)
        disk = os.statvfs(self._work)
        return {
            "cpu_seconds": round(self._cpu, 2),
            **({"memory_bytes": memory} if live else {}),
            "peak_memory_bytes": self._peak,
            "disk_free_bytes": disk.f_bavail * disk.f_frsize,
            "read_bytes": sum(read for read, _ in self._io.values()),
            "written_bytes": sum(written for _, written in self._io.values()),
            **self._network(),
            **self._read_gpu(),
        }

    def _note_io(self, pids: list[int]) -> None:
        for pid in pids:
            try:
                text = Path("/proc", str(pid), "io").read_text()
            except OSError:
                continue
            values = dict(line.split(": ") for line in text.splitlines())
            self._io[pid] = int(values["read_bytes"]), int(values["write_bytes"])

    def _network(self) -> Entry:
        (received, sent), (received_before, sent_before) = network_bytes(), self._network_before
        return {"received_bytes": received - received_before, "sent_bytes": sent - sent_before}

    @property
    def gpu_pid(self) -> int | None:
        return self.gpu_process.pid if self.gpu_process else None

    def _read_gpu(self) -> Entry:
        """The last reading of nvidia-smi, and start the next: it takes up to a second, which is not waited for."""
        import shutil
        import subprocess

        if self.gpu_process is not None:
            if self.gpu_process.poll() is None:
                return {}
            self._gpu = parse_gpu(self.gpu_process.communicate()[0])
            self.gpu_process = None
        if shutil.which("nvidia-smi"):
            query = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")
            self.gpu_process = subprocess.Popen(
                ("nvidia-smi", *query), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._gpu


def resident_bytes(pids: list[int]) -> int:
    """The memory of the processes. The files and segments that they share are counted once, for the one with most."""
    private, shared = 0, 0
    for pid in pids:
        pages = [int(word) for word in read_text(Path("/proc", str(pid), "statm")).split()]
        if pages:
            private += pages[1] - pages[2]
            shared = max(shared, pages[2])
    return (private + shared) * os.sysconf("SC_PAGE_SIZE")


def parse_gpu(text: bytes) -> Entry:
    """The mean use and the memory of all GPUs."""
    try:
        rows = [[float(cell) for cell in line.split(b",")] for line in text.splitlines()]
        return {
            "gpu_percent": sum(use for use, _ in rows) / len(rows),
            "gpu_memory_bytes": int(sum(mib for _, mib in rows)) << 20,
        }
    except (ValueError, ZeroDivisionError):
        return {}


def network_bytes() -> tuple[int, int]:
    """The bytes that all interfaces but the loopback have received and sent."""
    rows = [line.replace(":", " ").split() for line in read_text(Path("/proc/net/dev")).splitlines()[2:]]
    rows = [row for row in rows if row[0] != "lo"]
    return sum(int(row[1]) for row in rows), sum(int(row[9]) for row in rows)


# The agent proper.


class Agent:
    """Runs the setup command and the program of one job, once."""

    def __init__(self, folder: Path, secrets: dict[str, str]) -> None:
        self._folder = folder
        self._work = folder / "work"
        self._job: Entry = json.loads((folder / "job.json").read_text())
        self._secrets = secrets
        self._began = steady_seconds()
        self._journal = Journal(folder / "journal.jsonl")
        self._output = Output(folder / "output", list(secrets.values()))
        self._lease = LeaseClock(folder / "lease")
        self._meter = Meter(self._work)
        self._training = Training()
        self._checkpoints = CheckpointWatch(self._work)
        self._events = Events(folder / "events.jsonl")
        self._process: Any = None
        self._pipe, self._pipe_end = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._pipe, F_SETPIPE_SZ, 1 << 20)  # the program need not wait for a slow disk
        self._wake, self._wake_end = os.pipe()
        for end in (self._pipe, self._wake, self._wake_end):
            os.set_blocking(end, False)
        self._notice = NoticeWatch(self._job.get("notice") or "", self._job.get("notice_address"))
        self._taken_at: float | None = None
        """The moment at which the provider takes the machine back, on the steady clock."""
        self._terminated = False
        """The agent itself was asked to end, as when the machine is switched off."""
        self._finishing = False
        self._next_heartbeat = self._next_meter = self._next_scan = self._next_report = 0.0

    def run(self) -> None:
        """Do what is still to be done: an earlier agent in this folder may have been killed."""
        self._listen_to_signals()
        self._lease.read()
        if not self._journal.entries:
            self._reserve_room()
            if self._set_up():
                self._train()
        else:
            self._record_interruption()
        self._finish()

    def _listen_to_signals(self) -> None:
        import signal

        def terminate(_number: int, _frame: Any) -> None:
            self._terminated = True

        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, terminate)
        signal.signal(signal.SIGINT, terminate)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    # The phases.

    def _set_up(self) -> bool:
        """Supply the program with what it needs and run the setup command, if there is one; True if it can start."""
        own = [name for name in ("place", "supply") if (self._folder / f"{name}.json").exists()]
        steps = [[sys.executable, "-I", str(self._folder / f"{name}.py")] for name in own]
        steps += [["/bin/sh", "-c", self._job["setup"]]] if self._job.get("setup") else []
        if not steps:
            return True
        self._journal.add("setup", state="started")
        began = steady_seconds()
        for step in steps:
            exit_code, cause = self._run(step, self._environment())
            if exit_code or cause != "own":
                break
        seconds = round(steady_seconds() - began, 3)
        why = {"failure": text} if (text := read_text(self._folder / "failure")) else {}
        self._journal.add("setup", state="ended", exit_code=exit_code, seconds=seconds, cause=cause, **why)
        return exit_code == 0 and cause == "own"

    def _train(self) -> None:
        stamps = file_stamps(self._work)
        self._checkpoints.began(stamps)
        restored = self._job.get("restored", [])  # saved in an earlier attempt: they are results of the program too
        stamps = {name: stamp for name, stamp in stamps.items() if name not in restored}
        write_file(self._folder / "before.json", json.dumps(stamps))
        self._training.began()
        began = steady_seconds()
        environment = {**self._environment(), **self._probe_environment()}
        self._read_meter()
        command: list[str] = self._placed.get("command") or self._job["command"]
        exit_code, cause = self._run(command, environment, kind="program")
        seconds = round(steady_seconds() - began, 3)
        self._end_rest()
        self._report_training()
        self._report_checkpoints(has_ended=exit_code not in (-9, 137))  # one that was killed may just have been saving
        self._read_meter()
        self._journal.add("program", state="ended", exit_code=exit_code, seconds=seconds, cause=cause)

    def _record_interruption(self) -> None:
        """An earlier agent was killed, and with it what it ran."""
        setup, program = self._last_entry("setup"), self._last_entry("program")
        if program.get("state") == "ended" or setup.get("exit_code"):
            return
        interrupted = "setup" if setup.get("state") == "started" else "program"
        began = (program or setup).get("time", time.time())
        self._journal.add("message", text="The agent was killed or the machine was restarted.")
        seconds = round(max(0.0, time.time() - began), 3)
        self._journal.add(interrupted, state="ended", exit_code=-9, seconds=seconds, cause="signal")

    def _last_entry(self, kind: str) -> Entry:
        """The last entry of a kind by an earlier agent; empty if there is none."""
        return next((entry for entry in reversed(self._journal.entries) if entry["kind"] == kind), {})

    def _finish(self) -> None:
        """Record the results; then wait for the end of the lease if the machine is to be switched off."""
        self._end_rest()
        self._finishing = True
        (self._folder / "reserve").unlink(missing_ok=True)
        self._output.close()
        self._journal.flush()  # whoever sees the results also sees that the program has ended
        results = self._folder / "results.json"
        content = None if results.exists() else json.dumps({"files": self._changed_files()})
        while True:
            if content is not None and self._try_to_write(results, content):
                content = None
            self._journal.flush()
            recorded = content is None and not self._journal.waiting
            self._do_what_is_due()
            if self._terminated or (recorded and not self._job.get("power_off")) or self._lease_is_over():
                return
            if not self._folder.exists():
                return
            self._pause()

    def _power_off(self) -> None:
        self._journal.add("message", text="The lease is over: the machine is switched off.")
        power_off()
        os._exit(0)

    def _lease_is_over(self) -> bool:
        self._lease.read()
        return steady_seconds() >= self._lease.ends

    # The program.

    def _environment(self) -> dict[str, str]:
        """The environment of the machine, that of the job, the secrets, and what the program was supplied with."""
        own = {**self._job.get("environment", {}), **self._placed.get("environment", {})}
        environment = {"PYTHONUNBUFFERED": "1", **os.environ, **own, **self._secrets}
        for name, value in json.loads(read_text(self._folder / "supplied.json") or "{}").items():
            if isinstance(value, str):
                environment[name] = value
            elif value:  # folders that come first on a path
                environment[name] = os.pathsep.join([*value, *filter(None, [environment.get(name)])])
        return {**environment, "PWD": str(self._work), MARKER: str(self._folder)}

    @property
    def _placed(self) -> Entry:
        """The command and the variables of this node, if it is one of several."""
        found: Entry = json.loads(read_text(self._folder / "placed.json") or "{}")
        return found

    def _probe_environment(self) -> dict[str, str]:
        """The variables that make Python load the probe when the program starts."""
        if not self._job.get("probe"):
            return {}
        path = self._environment().get("PYTHONPATH")
        return {
            "PYTHONPATH": str(self._folder / "probe" / "site") + (os.pathsep + path if path else ""),
            "TRAINFARE_PROBE_EVENTS": str(self._folder / "events.jsonl"),
            "TRAINFARE_PROBE_ITERATIONS": "0",
            "TRAINFARE_PROBE_OPERATIONS": "0",
            "TRAINFARE_PROBE_BY_LOSS": "1",  # each loss is written as it comes, not all of them at the end
        }

    def _run(self, command: list[str], environment: dict[str, str], kind: str | None = None) -> tuple[int, str]:
        """Run a command to its end; returns its exit code and why it ended."""
        import subprocess

        try:
            self._process = subprocess.Popen(
                command,
                cwd=str(self._work),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._pipe_end,
                stderr=self._pipe_end,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 # the agent has one thread
            )
        except OSError as error:
            self._output.add(f"trainfare: {command[0]} could not be started: {error.strerror}\n".encode())
            self._journal.add("message", text=f"{command[0]} could not be started: {error.strerror}.")
            return 127, "own"
        if kind is not None:
            self._journal.add(kind, state="started", pid=self._process.pid)
        return self._watch()

    def _watch(self) -> tuple[int, str]:
        """Wait until the process has ended, and end it when its time is over."""
        import signal

        cause, kill_at = "own", float("inf")
        grace = self._job.get("grace_seconds", 20)
        while self._process.poll() is None:
            self._pause()
            self._do_what_is_due()
            now = steady_seconds()
            if cause == "own":
                cause = self._reason_to_end(grace)
                if cause != "own":
                    kill_at = now + grace if cause in ("stop", "signal") else min(now + grace, self._last_moment())
                    if self._taken_at is not None:  # the other half is for bringing home what it saved
                        kill_at = min(kill_at, (now + self._taken_at) / 2)
                    send_signal([self._process.pid], signal.SIGTERM)
            if now >= kill_at:
                kill_all(self._remaining)
                self._process.wait()
        return self._process.returncode, cause

    def _end_rest(self) -> None:
        """End what the setup command and the program have started and left behind."""
        import signal

        now = steady_seconds()
        kill_at = min(now + self._job.get("grace_seconds", 20), max(now, self._last_moment()))
        send_signal(self._remaining(), signal.SIGTERM)
        while self._remaining() and steady_seconds() < kill_at:
            self._pause()
            self._do_what_is_due()
        kill_all(self._remaining)
        self._read_output()

    def _remaining(self) -> list[int]:
        self._reap_orphans()
        return [pid for pid in process_tree(os.getpid()) if pid != self._meter.gpu_pid]

    def _reason_to_end(self, grace: float) -> str:
        """Why the program must end now; `own` if it need not."""
        now = steady_seconds()
        self._lease.read()
        longest = self._job.get("longest_seconds")
        if (self._folder / "stop").exists() or not self._folder.exists():  # removed with its launch
            return "stop"
        if self._terminated:
            return "signal"
        if self._is_to_be_taken():
            return "interruption"
        if now >= time_to_ask(self._lease.ends, span=self._lease.span, grace=grace):
            return "lease"
        if longest and now >= time_to_ask(self._began + longest, span=longest, grace=grace):
            return "longest"
        return "own"

    def _is_to_be_taken(self) -> bool:
        """The provider has announced that it takes the machine back, which is recorded once."""
        left = self._notice.seconds_left() if self._taken_at is None else None
        if left is not None:
            self._taken_at = steady_seconds() + left
            taken = round(time.time() + left, 3)
            self._journal.add("interruption", provider=self._job["notice"], seconds=round(left, 1), taken=taken)
        return self._taken_at is not None

    def _last_moment(self) -> float:
        longest = self._job.get("longest_seconds")
        return min(self._lease.ends, self._began + longest if longest else float("inf"))

    # What is done from time to time.

    def _pause(self) -> None:
        """Wait for output, for a signal (a child has ended), or for the next tick; then read the output."""
        import select

        tick = min(TICK_SECONDS, self._job.get("heartbeat_seconds", 5))
        ready = select.select([self._pipe, self._wake], [], [], tick)[0]
        if self._pipe in ready and self._wake not in ready:
            select.select([self._wake], [], [], OUTPUT_SECONDS)
        self._read_output()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 1 << 16)
        self._reap_orphans()

    def _read_output(self) -> None:
        while True:
            try:
                self._output.add(os.read(self._pipe, 1 << 20))
            except BlockingIOError:
                return

    def _reap_orphans(self) -> None:
        """Let processes end whose parent ended before them. Those that we started ourselves are left to `poll`."""
        own = [self._process.pid if self._process else None, self._meter.gpu_pid]
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)

    def _do_what_is_due(self) -> None:
        if self._finishing and self._job.get("power_off") and self._lease_is_over():
            self._power_off()
        now = steady_seconds()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._job.get("heartbeat_seconds", 5)
        self._journal.add("heartbeat", seconds=round(now - self._began, 3))
        self._output.catch_up()
        if now >= self._next_meter:
            self._next_meter = now + self._seconds_until_next(self._read_meter)
        if now >= self._next_scan:
            self._next_scan = now + self._seconds_until_next(self._report_checkpoints)
        if now >= self._next_report:
            self._report_training()
            self._next_report = now + min(LONGEST_PAUSE_SECONDS, (now - self._began) / 100)

    def _seconds_until_next(self, reading: Any) -> float:
        """Take a reading, and the time to wait until the next one."""
        used = time.process_time()
        reading()
        return (time.process_time() - used) / SHARE_OF_TIME

    def _read_meter(self) -> None:
        self._journal.add("meter", **self._meter.read())

    def _report_checkpoints(self, *, has_ended: bool = False) -> None:
        for checkpoint in self._checkpoints.completed(has_ended=has_ended):
            self._journal.add("checkpoint", **checkpoint)

    def _report_training(self) -> None:
        events = self._events.read()
        self._events.shorten()
        self._training.note(events)
        for kind, fields in self._training.entries():
            self._journal.add(kind, **fields)
        for checkpoint in self._checkpoints.saved(events):
            self._journal.add("checkpoint", **checkpoint)

    # Results and room on the disk.

    def _reserve_room(self) -> None:
        """Take some room on the disk, which is freed for the last entries if the program fills the disk."""
        with contextlib.suppress(OSError), (self._folder / "reserve").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)

    def _changed_files(self) -> dict[str, Entry]:
        """The files in work/ that are new or changed since the program started."""
        before = json.loads(read_text(self._folder / "before.json") or "null")
        if before is None:
            return {}  # the program never started
        now = file_stamps(self._work)
        changed = sorted(name for name, stamp in now.items() if before.get(name) != stamp)
        return {name: {"bytes": now[name][0], "sha256": self._sha256(self._work / name)} for name in changed}

    def _sha256(self, path: Path) -> str:
        import hashlib

        digest = hashlib.sha256()
        with path.open("rb") as file:
            for part in iter(lambda: file.read(1 << 22), b""):
                digest.update(part)
                self._do_what_is_due()
        return digest.hexdigest()

    def _try_to_write(self, path: Path, content: str) -> bool:
        try:
            write_file(path, content)
        except OSError:
            return False
        return True


# Commands.


def start(folder: Path, secrets: dict[str, str]) -> None:
    """Start guard and agent in the background, unless one runs here or all is done."""
    lock = (folder / "agent.pid").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    power_off = json.loads((folder / "job.json").read_text()).get("power_off")
    if (folder / "results.json").exists() and not power_off:
        return
    child = os.fork()
    if child:
        lock.truncate(0)
        lock.write(f"{child} {process_fields(child)[19]}\n")
        lock.flush()
        return
    os.setsid()
    errors = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, errors), (2, errors)):
        os.dup2(target, stream)
    guard(folder, secrets)
    os._exit(0)


def guard(folder: Path, secrets: dict[str, str]) -> None:
    """Run the agent as a child. If it is killed, end what it ran and run it again: it records that. If it cannot run at
    all, at least switch the machine off in the end."""
    adopt_orphans()
    for _ in range(RESTARTS):
        kill_all(lambda: marked_processes(folder))
        agent = os.fork()
        if not agent:
            adopt_orphans()
            run_agent(folder, secrets)
        while True:
            pid, status = os.wait()
            if pid == agent:
                break
        if status == 0:
            return
        kill_all(lambda: process_tree(os.getpid()))
    give_up(folder)
    if json.loads((folder / "job.json").read_text()).get("power_off"):
        lease = LeaseClock(folder / "lease")
        lease.read()
        time.sleep(max(0.0, lease.ends - steady_seconds()))
        power_off()


def run_agent(folder: Path, secrets: dict[str, str]) -> None:
    """Run the agent proper and end this process."""
    try:
        Agent(folder, secrets).run()
    except Exception as error:  # noqa: BLE001 # whoever reads the journal must know, whatever it was
        traceback.print_exc()
        with contextlib.suppress(OSError, ValueError):
            Journal(folder / "journal.jsonl").add("message", text=f"The agent failed: {error!r}")
        os._exit(1)
    os._exit(0)


def give_up(folder: Path) -> None:
    """Record that the program has ended, and no results: the agent has failed each time."""
    with contextlib.suppress(OSError, ValueError):
        Journal(folder / "journal.jsonl").add("program", state="ended", exit_code=-9, seconds=0.0, cause="signal")
        if not (folder / "results.json").exists():
            write_file(folder / "results.json", json.dumps({"files": {}}))


def end(folder: Path) -> None:
    """Kill the guard, the agent and everything that they started."""

    def remaining() -> list[int]:
        return [pid for pid in {*known, *process_tree(root), *marked_processes(folder)} if is_running(pid)]

    root, began = [*map(int, read_text(folder / "agent.pid").split()), 0, 0][:2]
    known = set()
    if root and process_fields(root)[19:20] == [str(began)]:
        known = {root, *process_tree(root)}
    else:
        root = -1
    kill_all(remaining)


def print_entries(folder: Path, after: int) -> None:
    """Print the entries after a number, and before them the position of the first in the journal. The journal is read
    from its end, where they mostly are."""
    try:
        file = (folder / "journal.jsonl").open("rb")
    except FileNotFoundError:
        return
    size, window = file.seek(0, os.SEEK_END), 1 << 16
    while True:
        position = file.seek(max(0, size - window))
        lines = file.read(size - position).splitlines(keepends=True)
        if position:
            position += len(lines.pop(0))
        if not position or (lines and is_entry(lines[0]) and json.loads(lines[0])["number"] <= after + 1):
            break
        window *= 4
    while lines and is_entry(lines[0]) and json.loads(lines[0])["number"] <= after:
        position += len(lines.pop(0))
    text = b"".join(line for line in lines if is_entry(line))
    sys.stdout.buffer.write(b"%d\n" % position + text[: text.rfind(b"\n", 0, REPLY_BYTES) + 1])


def is_entry(line: bytes) -> bool:
    """False for a last line that is still being written."""
    return line.endswith(b"\n")


def main(words: list[str]) -> None:
    folder = Path(__file__).resolve().parent
    if words[:1] == ["start"]:
        start(folder, json.loads(sys.stdin.readline() or "{}"))
    elif words[:1] == ["entries"]:
        print_entries(folder, int(words[1]))
    elif words[:1] == ["end"]:
        end(folder)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

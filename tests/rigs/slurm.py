"""A real Slurm cluster on this machine: munged, slurmctld and three slurmd, on the loopback alone, up in half a second.

The daemons, and all that their jobs start, live in a process namespace that ends with the test, whatever happens to it.
Files are in one temporary folder. On a host of `tests/rigs/hosts.py` the daemons are that host's.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.rigs.hosts import LONGEST_SECONDS, SshHost, short_folder, wait_until

NODES = ("n1", "n2", "n3")

CONFIGURATION = """
ClusterName=rig
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
ReturnToService=2
KillWait=5
SlurmctldTimeout=2
MessageTimeout=2
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=4000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.2 Port={ports[2]} CPUs=2 RealMemory=4000
NodeName=n3 NodeHostname=localhost NodeAddr=127.0.0.3 Port={ports[3]} CPUs=2 RealMemory=4000
PartitionName=cpu Nodes=n1,n2,n3 Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=short Nodes=n1,n2,n3 MaxTime=00:05:00 State=UP
"""

UP = """
set -e
cd "$1"
export SLURM_CONF=$1/slurm.conf
munged --force --socket=$1/munge.sock --key-file=$1/munge.key --pid-file=$1/munge.pid --log-file=$1/munge.log \
    --seed-file=$1/munge.seed 2> /dev/null
slurmctld -c
for node in n1 n2 n3; do slurmd -N $node; done
echo ready
timeout $LONGEST cat > /dev/null
"""

KILL_NODE = """
tasks= steps=
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ | grep -q "^SLURMD_NODENAME=$2$"; then
        tasks="$tasks ${process#/proc/}"
        parent=$(cut -d ' ' -f 4 $process/stat)
        case $(cat /proc/$parent/comm) in slurmstepd*) steps="$steps $parent";; esac
    fi
done 2> /dev/null
kill -9 $(cat "$1/slurmd-$2.pid") $steps
kill -9 $tasks 2> /dev/null
scontrol update nodename=$2 state=down reason='it died'
"""
"""What reports the end of a job dies before its tasks, so that nothing is reported."""

STOP_CONTROLLER = """
number=$(cat "$1")
kill "$number"
while grep -q -s '^State:.[^Z]' /proc/$number/status; do sleep 0.02; done
"""


def missing_slurm() -> str | None:
    """The reason why no cluster can be made here; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Slurm cluster needs Linux and root: run it as root, or in a privileged container"
    for program, package in {
        "slurmctld": "slurm-wlm",
        "slurmd": "slurm-wlm",
        "sbatch": "slurm-wlm",
        "munged": "munge",
        "unshare": "util-linux",
        "nsenter": "util-linux",
    }.items():
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            return f"{program} is not installed: on Debian, apt-get install {package}"
    probe = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    made = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"namespaces cannot be created: {made.stderr.strip()}" if made.returncode else None


@dataclass(slots=True)
class SlurmRig:
    """A cluster with the partitions `cpu` and `short`, and three nodes of two CPUs."""

    folder: Path
    enter: tuple[str, ...]
    """The words that run a command where the daemons are."""
    bin: Path
    """A folder of programs that come first on the path: a test may put a Slurm command there that misbehaves."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to be a user of the cluster on this host."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{self.bin}:{os.environ['PATH']}:/usr/sbin"}

    def run(self, *command: str) -> str:
        """Run a command where the daemons are, and return its output."""
        conf = f"SLURM_CONF={self.folder / 'slurm.conf'}"
        done = subprocess.run([*self.enter, "env", conf, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self) -> list[str]:
        """The states of all jobs that are not over."""
        return self.run("squeue", "--noheader", "--format=%T").split()

    def misbehave(self, program: str, script: str) -> None:
        """Replace a Slurm command of the user. `$REAL` is the right one."""
        path = self.bin / program
        path.write_text(f"#!/bin/sh\nREAL={shutil.which(program)}\n{script}\n")
        path.chmod(0o755)

    def behave(self, program: str) -> None:
        (self.bin / program).unlink()

    def block(self) -> str:
        """Submit a job of someone else that takes all nodes; returns its number."""
        words = ("sbatch", "--parsable", "--exclusive", "--nodes=3", "--chdir=/", "--output=/dev/null")
        return self.run(*words, "--wrap=sleep 600").strip()

    def stop_controller(self) -> None:
        self.run("sh", "-c", STOP_CONTROLLER, "sh", f"{self.folder}/slurmctld.pid")

    def start_controller(self) -> None:
        """Start it again, with its state as it was."""
        self.run("sh", "-c", "slurmctld")
        self.wait_until_up()

    def kill_node(self, name: str) -> None:
        """End every process of a node at once, as a power failure does."""
        self.run("sh", "-c", KILL_NODE, "sh", str(self.folder), name)

    def revive_node(self, name: str) -> None:
        self.run("sh", "-c", f"slurmd -N {name}; scontrol update nodename={name} state=resume || true")

    def cancel_all(self) -> None:
        """End every job, and wait until the nodes are free."""
        with suppress(OSError):
            self.run("scancel", "--user=root")
        wait_until(lambda: not self.jobs(), 20.0)

    def wait_until_up(self) -> None:
        wait_until(self._is_up, 20.0)

    def _is_up(self) -> bool:
        try:
            return "idle" in self.run("sinfo", "--noheader", "--format=%T")
        except OSError:
            return False


@contextmanager
def slurm_rig(host: SshHost | None = None) -> Iterator[SlurmRig]:
    """A cluster on this machine, or on a host; everything ends with the block."""
    with ExitStack() as closing:
        folder = closing.enter_context(short_folder())
        enter: tuple[str, ...] = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        if host is not None:
            enter = host.entry()
            host.run("mkdir", "-p", str(folder))
        _write_files(folder, host)
        process = _start([*enter, "bash", "-c", UP, "bash", str(folder)])
        closing.callback(_end, process)
        if host is None:
            first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            enter = ("nsenter", f"--target={first}", "--pid", "--mount", "--")
        rig = SlurmRig(folder, enter, folder / "bin")
        rig.wait_until_up()
        yield rig


def _write_files(folder: Path, host: SshHost | None) -> None:
    files = {
        "munge.key": os.urandom(1024),
        "slurm.conf": CONFIGURATION.format(folder=folder, ports=_free_ports(4)).encode(),
    }
    for name in ("state", "bin", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
        if host is not None:
            host.run("mkdir", "-p", str(folder / name))
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
        if host is not None:
            host.run("sh", "-c", 'umask 077; cat > "$1"', "sh", str(folder / name), given=content)


def _free_ports(count: int) -> Sequence[int]:
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LONGEST": str(LONGEST_SECONDS), "PATH": f"{os.environ['PATH']}:/usr/sbin"},
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        _, error = process.communicate()
        raise OSError(f"the cluster does not start: {error.decode(errors='replace').strip()}")
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()

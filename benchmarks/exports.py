"""What `trainfare export` writes, carried out by the tools that it is for: bash, Slurm and SkyPilot.

    python -m benchmarks.exports [--skypilot PYTHON]

A program with data, a setup command and a variable is run on this machine, exported in each format, and carried out
again. Its results must be those of the run.

    script    bash runs it in a copy of the folder
    slurm     a real Slurm of this machine (slurmctld, slurmd and munged, started for it) accepts it with sbatch and
              runs it to its end; only the name of the partition is filled in
    skypilot  the real SkyPilot reads and checks the task; then bash runs its `setup` and `run` in a copy of the folder,
              with its files where SkyPilot mounts them. PYTHON is that of an environment with skypilot==0.14.1

A tool that is not installed is named and left out. Slurm needs root.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trainfare.views.exports.slurm import PARTITION

PROGRAM = """
import hashlib, os, pathlib
folder = pathlib.Path(os.environ["TRAINFARE_DATA"], "digits")
data = pathlib.Path("digits/values.txt").read_bytes() + (folder / "values.txt").read_bytes()
text = f"{os.environ['NOTE']} {pathlib.Path('made.txt').read_text().strip()} {hashlib.sha256(data).hexdigest()}"
pathlib.Path("model.txt").write_text(text)
"""
NOTE = 'it\'s "quoted" $HOME `id` \\ end'
CHECK = """
import sys, sky
task = sky.Task.from_yaml(sys.argv[1])
task.validate()
mounts = task.file_mounts or list(task.storage_mounts)
print(f"name {task.name}, {task.num_nodes} node, resources {task.resources}, mounts {mounts}")
"""
WAIT_SECONDS = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skypilot", help="the Python of an environment with SkyPilot")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainfare-exports-") as name:
        place = Place(Path(name))
        run_id = place.run()
        print(f"as a run: {place.expected}")
        wrong = [place.by_script(run_id), place.by_slurm(run_id), place.by_skypilot(run_id, arguments.skypilot)]
    sys.exit(any(each is False for each in wrong))


class Place:
    """A folder with a program, its data, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._project = folder / "project"
        (self._project / "src").mkdir(parents=True)
        (self._project / "train.py").write_text(PROGRAM)
        (folder / "digits").mkdir()
        (folder / "digits" / "values.txt").write_text("1 2 3\n")
        (folder / "home").mkdir()
        self._environment = {**os.environ, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment |= {
            f"TRAINFARE_{name.upper()}": str(folder / name) for name in ("store", "runs", "machines", "logs")
        }
        self.expected = ""

    def run(self) -> str:
        """Carry it out by Trainfare, and return its id."""
        options = (
            "--data",
            f"digits={self._folder / 'digits'}",
            "--setup",
            "echo made > made.txt",
            "--env",
            f"NOTE={NOTE}",
        )
        words = ("run", "--on", "local/here", "-y", "--json", "--max-duration", "10min", "--results", "../results")
        done = self._trainfare(*words, *options, "--", sys.executable, "train.py")
        self.expected = (self._folder / "results" / "model.txt").read_text()
        return str(json.loads(done)["id"])

    def by_script(self, run_id: str) -> bool:
        text, copy = self._trainfare("export", "script", run_id), self._copy("script")
        subprocess.run(["bash", "-s", str(copy)], input=text, env=self._environment, text=True, check=True)
        return self._compare("bash", copy)

    def by_slurm(self, run_id: str) -> bool | None:
        programs = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol")
        missing = [name for name in programs if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            print("Slurm: not tried, " + f"{', '.join(missing) or 'root'} is missing (Debian: slurm-wlm)")
            return None
        text = self._trainfare("export", "slurm", run_id)
        with slurm(self._folder / "slurm") as variables:
            text = text.replace(PARTITION, "all")
            environment = {**self._environment, **variables}
            started = subprocess.run(
                ["sbatch", "--parsable"],
                cwd=self._folder,
                input=text,
                env=environment,
                text=True,
                capture_output=True,
                check=False,
            )
            if started.returncode:
                print(f"sbatch refused it: {started.stderr}{text}")
                return False
            job, state = started.stdout.strip(), ""
            give_up = time.monotonic() + WAIT_SECONDS
            while state not in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT") and time.monotonic() < give_up:
                time.sleep(0.2)
                shown = subprocess.run(
                    ["scontrol", "show", "job", job], env=environment, text=True, capture_output=True, check=True
                ).stdout
                state = shown.partition("JobState=")[2].split()[0]
            limit = shown.partition("TimeLimit=")[2].split()[0]
            print(f"Slurm: sbatch accepted it as job {job}, time limit {limit}, state {state}")
        for output in self._folder.glob("*.out"):
            print(output.read_text())
        return state == "COMPLETED" and self._compare("Slurm", self._project)

    def by_skypilot(self, run_id: str, python: str | None) -> bool | None:
        import yaml

        path = self._folder / "task.yaml"
        path.write_text(self._trainfare("export", "skypilot", run_id))
        task = yaml.safe_load(path.read_text())
        if python is None:
            print("SkyPilot: not tried, no Python of an environment with it was given")
            return None
        variables = {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "AWS_EC2_METADATA_DISABLED": "true"}
        environment = {**self._environment, **variables}
        done = subprocess.run(
            [python, "-c", CHECK, str(path)], env=environment, text=True, capture_output=True, check=False
        )
        if done.returncode:
            print(f"SkyPilot refused it: {done.stderr}")
            return False
        print(f"SkyPilot accepted it: {done.stdout.strip()}")
        copy = self._copy("skypilot")
        for place, source in task.get("file_mounts", {}).items():
            target = Path(place.replace("~", str(self._folder / "home")))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target)
        for part in ("setup", "run"):
            words = {**self._environment, **{name: str(value) for name, value in task.get("envs", {}).items()}}
            subprocess.run(["bash", "-c", task.get(part, "")], cwd=copy, env=words, check=True)
        return self._compare("SkyPilot's setup and run", copy)

    def _copy(self, name: str) -> Path:
        copy = self._folder / name
        shutil.copytree(self._project, copy)
        return copy

    def _compare(self, tool: str, folder: Path) -> bool:
        found = folder / "model.txt"
        same = found.exists() and found.read_text() == self.expected
        print(f"{tool}: {'the same results' if same else 'OTHER RESULTS'}")
        found.unlink(missing_ok=True)
        return same

    def _trainfare(self, *words: str) -> str:
        command = (sys.executable, "-m", "trainfare.cli.main", *words)
        done = subprocess.run(
            command, cwd=self._project, env=self._environment, text=True, capture_output=True, check=False
        )
        if done.returncode:
            sys.exit(f"trainfare {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout


SLURM = """
ClusterName=trainfare
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs=256 RealMemory=4000000
PartitionName=all Nodes=n1 Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """A cluster of one node on this machine, with its own ports and files; yields variables that its clients need."""
    folder.mkdir()
    (folder / "state").mkdir()
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    ports = [_free_port(), _free_port()]
    text = SLURM.format(folder=folder, host=socket.gethostname(), controller=ports[0], node=ports[1])
    (folder / "slurm.conf").write_text(text)
    variables = {"SLURM_CONF": str(folder / "slurm.conf")}
    files = {
        "socket": "munge.sock",
        "key-file": "key",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "seed",
    }
    munge = ["munged", "-F", "--force", *(f"--{option}={folder / name}" for option, name in files.items())]
    commands = (munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", "n1"])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            time.sleep(0.5)
        _wait_until_idle(variables)
        yield variables
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _wait_until_idle(variables: Mapping[str, str]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < give_up:
        done = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], env={**os.environ, **variables}, text=True, capture_output=True, check=False
        )
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    sys.exit(f"Slurm did not start: {done.stdout}{done.stderr}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()

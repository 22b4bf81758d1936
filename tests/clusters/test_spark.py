"""Spark's MLlib, profiled by its jobs and run on two hosts that are reached by a real ssh."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.app.running.test_gangs import hosts, project, settings, train
from tests.clusters.conftest import SPARK
from tests.rigs.fixtures import needs_hosts, rig, user_of_rig
from tests.rigs.hosts import SshHost
from trainfare.app.profiling.import_run import import_run
from trainfare.app.running.status import read_output
from trainfare.settings import Settings

__all__ = ["hosts", "project", "rig", "settings", "user_of_rig"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_mllib.py"
SUBMIT = Path(os.environ[SPARK]) / "bin" / "spark-submit"
EVENTS = ("--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false")


@pytest.fixture
def program(project: Path) -> Path:
    shutil.copy(EXAMPLE, project)
    (project / "events").mkdir()
    (project / "events" / ".keep").touch()  # Spark writes its log only into a folder that is there
    return project


def logged(*options: str) -> list[str]:
    """The example, with the log of its events in the folder where it runs."""
    return [str(SUBMIT), *EVENTS, "--conf", "spark.eventLog.dir=events", *options, EXAMPLE.name, "20000"]


def event_log(folder: Path) -> Path:
    (found,) = [path for path in (folder / "events").iterdir() if path.name != ".keep"]
    return found


def solver_iterations(output: str) -> int:
    (found,) = re.findall(r"^(\d+) iterations, accuracy 0\.7", output, re.MULTILINE)
    return int(found)


def test_a_local_cluster_is_profiled_by_its_jobs(program: Path, settings: Settings) -> None:
    command = logged("--master", "local-cluster[2,1,1024]", "--executor-memory", "1g")
    began = time.monotonic()
    variables = {**os.environ, "PYSPARK_PYTHON": str(SUBMIT.with_name("python3"))}  # as in an activated environment
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=600, env=variables)
    lasted = time.monotonic() - began
    assert done.returncode == 0, done.stderr[-2000:]
    profile = import_run("spark", event_log(program), settings=settings)
    jobs, solver = len(profile.iteration_seconds), solver_iterations(done.stdout)
    print(f"\nlocal cluster: {lasted:.0f} s; {solver} iterations of the solver, {jobs} jobs")
    assert solver < jobs < solver + 10, "some jobs prepare the data, or summarise"
    assert 0 < sum(profile.iteration_seconds) < lasted


@needs_hosts
@pytest.mark.usefixtures("user_of_rig")
def test_mllib_on_two_hosts_is_one_run_with_one_receipt(
    hosts: list[SshHost], program: Path, settings: Settings, tmp_path: Path
) -> None:
    ended = train(settings, logged(), nodes=2)
    output = read_output(ended.run.id, settings=settings).decode(errors="replace")
    assert ended.life.outcome == "succeeded", output[-3000:]
    assert ended.run.launcher == "spark"
    jobs, solver = (
        len(import_run("spark", event_log(tmp_path / "results"), settings=settings).iteration_seconds),
        solver_iterations(output),
    )
    seconds, usd = ended.receipt.total.seconds, ended.receipt.total.paid_usd
    print(f"\ntwo hosts: {seconds:.0f} s, ${usd:.4f}; {solver} iterations of the solver, {jobs} jobs")
    assert solver < jobs < solver + 10
    for line in ended.receipt.lines:
        assert line.paid_usd == pytest.approx(2 * 0.36 * line.seconds / 3600), "both nodes are paid for"
    log = event_log(tmp_path / "results")
    texts = [log.read_text()] if log.is_file() else [part.read_text() for part in log.iterdir()]
    added = [json.loads(line) for text in texts for line in text.splitlines() if "SparkListenerExecutorAdded" in line]
    assert {each["Executor Info"]["Host"] for each in added} == {hosts[1].address}, "it computed on the other host"
    for host in hosts[:2]:
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""
        assert b"org.apache.spark" not in host.run("ps", "-eo", "args")

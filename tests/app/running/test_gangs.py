"""Programs on several hosts that are reached by a real ssh: each node finds its place, and they are one run."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.needs import need_installed
from tests.rigs.fixtures import fresh_rig, needs_hosts, rig, user_of_rig
from tests.rigs.hosts import HostRig, SshHost
from trainfare.app.running import supervise
from trainfare.app.running.doors import open_door
from trainfare.app.running.measure_cluster import measure_cluster
from trainfare.app.running.run import RunOptions, agree, attend, start_run
from trainfare.app.running.status import read_output
from trainfare.clouds import driver
from trainfare.errors import UsageError
from trainfare.model.run import Launcher
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings

__all__ = ["fresh_rig", "rig", "user_of_rig"]

pytestmark = needs_hosts

PROGRAMS = Path(__file__).parents[2] / "programs"
BIN = Path(sys.executable).parent
MEETS = """
import json, os, pathlib, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("", address[1]))
    peers = [server.accept()[0] for _ in range(world - 1)]
    for peer in peers:
        peer.sendall(b"together")
else:
    for _ in range(200):
        try:
            peer = socket.create_connection(address, timeout=30)
            break
        except OSError:
            time.sleep(0.1)
    assert peer.recv(8) == b"together"
"""
"""All nodes have met when it ends."""


@pytest.fixture(scope="module")
def hosts(rig: HostRig) -> list[SshHost]:
    return [rig.add(f"h{number}") for number in (1, 2, 3)]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.3))
    monkeypatch.setattr(supervise, "SILENT_SECONDS", 1.0)
    (tmp_path / "machines.toml").write_text('[lab]\nhosts = ["h1", "h2", "h3"]\nusd_per_hour = 0.36\n')
    return Settings(
        store=str(tmp_path / "h.db"),
        machines=str(tmp_path / "machines.toml"),
        prices=str(tmp_path / "prices"),
        runs=str(tmp_path / "runs"),
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def train(
    settings: Settings,
    command: list[str],
    *,
    nodes: int,
    launcher: Launcher | None = None,
    poll_seconds: float = 0.1,
    on_status: Any = lambda _status: None,
    **options: Any,
) -> RunStatus:
    results = Path(settings.runs).parent / "results"
    wanted = RunOptions(on="ssh/lab", nodes=nodes, launcher=launcher, results=results, install="none", **options)
    run = agree(command, wanted, settings=settings)
    start_run(run, settings=settings)
    return attend(run.id, settings=settings, poll_seconds=poll_seconds, on_status=on_status)


def told(tmp_path: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((tmp_path / "results").glob("*.json"))}


@pytest.mark.usefixtures("user_of_rig")
def test_torchrun_on_three_hosts_is_one_training(
    hosts: list[SshHost], settings: Settings, project: Path, tmp_path: Path
) -> None:
    need_installed("torch")
    shutil.copy(PROGRAMS / "gang_torch.py", project)
    command = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "1", "gang_torch.py"]
    ended = train(settings, command, nodes=3)
    assert ended.life.outcome == "succeeded", read_output(ended.run.id, settings=settings).decode()
    assert ended.run.launcher == "torchrun"
    found = told(tmp_path)
    assert list(found) == ["rank0", "rank1", "rank2"]
    assert {each["sum"] for each in found.values()} == {found["rank0"]["sum"]}, "the gradients were averaged"
    assert {(each["world"], each["MASTER_ADDR"]) for each in found.values()} == {(3, hosts[0].address)}
    assert {(each["GLOO_SOCKET_IFNAME"], each["NCCL_SOCKET_IFNAME"]) for each in found.values()} == {("eth0", "eth0")}
    assert ended.progress.iterations == 12
    assert [(each.node, each.host, each.iterations) for each in ended.traffic] == [
        (n, f"h{n + 1}", 12) for n in range(3)
    ]
    least = 12 * 4 / 3 * 400_000  # what a ring of three sends of a gradient, in all iterations
    assert all(each.sent_bytes > least and each.received_bytes > least and each.mbps > 0 for each in ended.traffic)
    for line in ended.receipt.lines:
        assert line.paid_usd == pytest.approx(3 * 0.36 * line.seconds / 3600), "every node is paid for"
    for host in hosts:
        assert host.run("ls", "-A", "/srv/home/.trainfare") == b""


@pytest.mark.heavy
@pytest.mark.usefixtures("user_of_rig", "hosts")
def test_accelerate_on_two_hosts_is_one_training(settings: Settings, project: Path, tmp_path: Path) -> None:
    need_installed("accelerate")
    shutil.copy(PROGRAMS / "gang_torch.py", project)
    ended = train(settings, [str(BIN / "accelerate"), "launch", "--cpu", "gang_torch.py"], nodes=2)
    assert ended.life.outcome == "succeeded", read_output(ended.run.id, settings=settings).decode()
    assert ended.run.launcher == "accelerate"
    found = told(tmp_path)
    assert {name: each["world"] for name, each in found.items()} == {"rank0": 2, "rank1": 2}
    assert found["rank0"]["sum"] == found["rank1"]["sum"], "the gradients were averaged"


@pytest.mark.usefixtures("user_of_rig", "hosts")
def test_jax_joins_two_hosts_without_arguments(settings: Settings, project: Path, tmp_path: Path) -> None:
    need_installed("jax")
    shutil.copy(PROGRAMS / "gang_jax.py", project)
    ended = train(settings, [sys.executable, "gang_jax.py"], nodes=2, launcher="jax")
    assert ended.life.outcome == "succeeded", read_output(ended.run.id, settings=settings).decode()
    assert told(tmp_path) == {f"process{n}": {"processes": 2, "sum": 3} for n in (0, 1)}


@pytest.mark.heavy
@pytest.mark.usefixtures("user_of_rig", "hosts")
def test_a_parameter_server_of_tensorflow_ends_with_its_chief(
    settings: Settings, project: Path, tmp_path: Path
) -> None:
    need_installed("tensorflow")
    shutil.copy(PROGRAMS / "gang_tf_server.py", project)
    ended = train(settings, [sys.executable, "gang_tf_server.py"], nodes=2, launcher="tf-server")
    assert ended.life.outcome == "succeeded", read_output(ended.run.id, settings=settings).decode()
    assert told(tmp_path)["chief"]["steps"] == 20
    assert told(tmp_path)["chief"]["workers"] == 1
    assert "/job:ps" in told(tmp_path)["chief"]["device"]


@pytest.mark.usefixtures("user_of_rig", "hosts")
def test_a_node_that_fails_ends_the_others_and_is_named(settings: Settings, project: Path) -> None:
    (project / "train.py").write_text(MEETS + "sys.exit(3) if rank == 1 else time.sleep(600)")
    ended = train(settings, [sys.executable, "train.py"], nodes=3)
    assert (ended.life.outcome, ended.life.exit_code, ended.life.attempt) == ("failed", 3, 1)
    message = "The program ended with exit code 3. It failed on node 1 (h2), and was stopped on the others."
    assert ended.life.message == message


@pytest.mark.usefixtures("user_of_rig")
def test_the_loss_of_a_node_restarts_all_from_the_last_checkpoint(
    hosts: list[SshHost], settings: Settings, project: Path, tmp_path: Path
) -> None:
    (project / "train.py").write_text(
        MEETS
        + """
place = pathlib.Path("state", f"{rank}.ckpt")
place.parent.mkdir(exist_ok=True)
step = json.loads(place.read_text()) if "--resume" in sys.argv else 0
resumed = step
while step < 40:
    step += 1
    if step % 10 == 0:
        place.write_text(json.dumps(step))
        os.utime(place, (time.time() - 10, time.time() - 10))
    while step == 23 and not resumed:
        time.sleep(0.1)
pathlib.Path(f"weights{rank}.json").write_text(json.dumps({"resumed": resumed}))
"""
    )
    lost: list[int] = []

    def lose_a_host(status: RunStatus) -> None:
        if status.life.checkpoint is not None and not lost:
            lost.append(status.life.attempt)
            hosts[2].reboot()

    command = [sys.executable, "train.py"]
    ended = train(settings, command, nodes=3, resume_flag="--resume {}", on_status=lose_a_host)
    assert (ended.life.outcome, ended.life.attempt, ended.receipt.attempts) == ("succeeded", 2, 2)
    assert told(tmp_path) == {f"weights{rank}": {"resumed": 20} for rank in (0, 1, 2)}


@pytest.mark.usefixtures("user_of_rig")
def test_a_port_that_is_taken_is_said_before_the_program_starts(
    hosts: list[SshHost], settings: Settings, project: Path
) -> None:
    (project / "train.py").write_text(MEETS)
    listener = "import socket, time; s = socket.create_server(('', 29555)); time.sleep(60)"
    hosts[0].run("sh", "-c", f'{sys.executable} -c "{listener}" > /dev/null 2>&1 & sleep 0.5')
    try:
        ended = train(settings, [sys.executable, "train.py"], nodes=2, variables={"MASTER_PORT": "29555"})
    finally:
        hosts[0].run("sh", "-c", "kill $(ss -Hltnp 'sport = :29555' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')")
    assert ended.life.outcome == "failed"
    assert "Port 29555 is taken on h1, where the nodes were to meet." in (ended.life.message or "")


@pytest.mark.usefixtures("user_of_rig")
def test_a_short_run_measures_the_network_and_what_a_worker_sends(
    hosts: list[SshHost], settings: Settings, project: Path
) -> None:
    (project / "train.py").write_text(
        MEETS
        + """
peer = peers[0] if rank == 0 else peer
while True:
    if rank:
        time.sleep(0.2)
        peer.sendall(bytes(500_000))
    else:
        peer.recv(1 << 20)
"""
    )
    command = [sys.executable, "train.py"]
    for host in hosts:
        host.limit(100)
    try:
        found = measure_cluster(command, on="ssh/lab", workers=[1], launcher="env", seconds=6, settings=settings)
    finally:
        for host in hosts:
            host.limit(None)
    assert found.link_mbps == pytest.approx(95, abs=8)
    (one,) = found.tried
    assert 2 < one.worker_mbps < 21, "half a megabyte every fifth of a second, or less often"
    assert one.server_mbps == pytest.approx(one.worker_mbps, rel=0.5)
    assert one.step_seconds is None, "it has no iterations that could be counted"


@pytest.mark.usefixtures("user_of_rig", "hosts", "project")
def test_more_nodes_than_hosts_are_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="ssh/lab has 3 nodes, and 4 are asked for"):
        agree([sys.executable, "train.py"], RunOptions(on="ssh/lab", nodes=4), settings=settings)
    with pytest.raises(UsageError, match="ssh/h1 is one machine, and 2 are asked for"):
        agree([sys.executable, "train.py"], RunOptions(on="ssh/h1", nodes=2), settings=settings)


@pytest.mark.usefixtures("user_of_rig")
def test_a_host_that_does_not_answer_is_replaced_by_another_of_its_group(
    hosts: list[SshHost], settings: Settings, project: Path
) -> None:
    (project / "train.py").write_text(MEETS)
    door = open_door(settings, "ssh/lab")
    assert [offer.most_nodes for offer in door.offers()] == [3]
    hosts[1].power_off()
    try:
        ended = train(settings, [sys.executable, "train.py"], nodes=2)
    finally:
        hosts[1].power_on()
    assert ended.life.outcome == "succeeded"
    seen = next(fact.machines for fact in ended.facts if fact.kind == "machines ready")
    assert [(m.destination, m.address) for m in seen] == [("h1", hosts[0].address), ("h3", hosts[2].address)]

"""From a program to its receipt on two hosts with different links, by the commands that a user types.

The programs are real, and what they compute must be what they compute when they are run by hand. Frameworks are started
as rarely as possible: the probes on both hosts are also the first profiles of the Keras program.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import read_json, succeed
from tests.needs import need_installed
from tests.rigs.fixtures import needs_hosts, rig, user_of_rig
from tests.rigs.hosts import HostRig

__all__ = ["rig", "user_of_rig"]

pytestmark = needs_hosts

TORCH = """
import json, pathlib, sys
sys.path.insert(0, {programs!r})
import torch, without_compiler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
torch.set_num_threads(1)
values = torch.frombuffer(bytearray(pathlib.Path("data/values.bin").read_bytes()), dtype=torch.uint8).float() / 255
images, labels = values[:80_000].reshape(400, 200), torch.arange(400) % 5
loader = DataLoader(TensorDataset(images, labels), batch_size=10, shuffle=True)
model = nn.Sequential(nn.Linear(200, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for epoch in range(6):
    for image, label in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
    print("epoch", epoch, losses[-1], flush=True)
pathlib.Path("weights.bin").write_bytes(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
pathlib.Path("losses.json").write_text(json.dumps(losses))
"""

KERAS = """
import json, os, pathlib
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np

keras.utils.set_random_seed(7)
values = np.frombuffer(pathlib.Path("data/values.bin").read_bytes(), dtype="uint8").astype("float32") / 255
images, labels = values[:80_000].reshape(400, 200), np.arange(400) % 5
model = keras.Sequential([keras.layers.Input((200,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(5)])
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
losses = model.fit(images, labels, batch_size=10, epochs=4, verbose=2).history["loss"]
pathlib.Path("weights.bin").write_bytes(b"".join(np.asarray(w).tobytes() for w in model.get_weights()))
pathlib.Path("losses.json").write_text(json.dumps(losses))
"""

PROGRAMS = str(Path(__file__).parents[2] / "programs")
SOURCES = {"torch": TORCH.format(programs=PROGRAMS), "tensorflow": KERAS}
RESULTS = ("weights.bin", "losses.json")


@pytest.fixture(scope="module")
def hosts(rig: HostRig) -> HostRig:
    rig.add("near", mbps=200)
    rig.add("far", mbps=8)
    return rig


@pytest.fixture(params=SOURCES)
def project(
    request: pytest.FixtureRequest, hosts: HostRig, user_of_rig: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with a program and its data, of a user whose machines.toml names the two hosts."""
    need_installed(request.param)
    folder = tmp_path / str(request.param)
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text(SOURCES[request.param])
    (folder / "data" / "values.bin").write_bytes(bytes(n * n % 251 for n in range(100_000)))
    machines = tmp_path / "machines.toml"
    machines.write_text('[near]\nssh = "near"\nusd_per_hour = 0.72\n[far]\nssh = "far"\nusd_per_hour = 0.36\n')
    for name in ("runs", "logs"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    monkeypatch.chdir(folder)
    return folder


def test_a_program_is_profiled_recommended_probed_run_and_paid_for(project: Path, hosts: HostRig) -> None:
    command = ("--", sys.executable, "train.py")
    if project.name == "torch":
        profiled = json.loads(succeed("profile", "-n", "30", "--json", "-q", *command).stdout)
        offered = read_json("recommend", "--epochs", "6")
        assert offered["profiles"] == [profiled["id"]]
        assert offered["chosen_is_here"]
    names = ("near", "far")
    on = ",".join(f"ssh/{name}" for name in names)
    probe = ("probe", "--on", on, "-n", "30", "--budget", "0.5", "--only", "provider=ssh", "--json")
    probed = json.loads(succeed(*probe, *command).stdout)
    assert [(probe["machine"], probe["failure"]) for probe in probed["probes"]] == [(f"ssh/{n}", None) for n in names]
    assert {probe["after"]["basis"] for probe in probed["probes"]} == {"measured"}
    assert (probed["chosen_before"] is not None) == (project.name == "torch")
    assert 0 < probed["usd"] < 0.5
    profiles = [read_json("profiles", "show", probe["profile"]) for probe in probed["probes"]]
    assert [profile["host"]["name"] for profile in profiles] == list(names)
    assert all(len(profile["iteration_seconds"]) == 30 and profile["operations"] for profile in profiles)
    assert not any((project / name).exists() for name in RESULTS)  # probes bring nothing home

    succeed("run", "--plan", probed["plan"], "--max-duration", "20min", "-y", "-d", "--results", "home", *command)
    run_id = read_json("runs", "list")[0]["id"]
    watched = read_json("watch", run_id)
    assert (watched["state"], watched["outcome"]) == ("ended", "succeeded")
    assert "epoch" in succeed("logs", run_id).stdout.lower()
    receipt = read_json("receipt", run_id)
    assert receipt["total"]["paid_usd"] > 0
    assert receipt["total"]["predicted_usd"] is not None

    by_hand = project.parent / "by-hand"
    subprocess.run(["cp", "-r", str(project), str(by_hand)], check=True)
    subprocess.run([sys.executable, "train.py"], cwd=by_hand, check=True, capture_output=True)
    for name in RESULTS:
        assert (project / "home" / name).read_bytes() == (by_hand / name).read_bytes()
    assert len(json.loads((by_hand / "losses.json").read_text())) > 1
    for host in hosts.hosts.values():
        assert host.run("sh", "-c", "ls -A /srv/home/.trainfare | grep -v '^env' || true") == b""
        assert [line for line in host.processes() if "agent" in line or "train.py" in line] == []

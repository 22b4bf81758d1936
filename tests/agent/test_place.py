"""A node finds its place among several: addresses, the interface, and ports that are free."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trainfare.agent import place

pytestmark = pytest.mark.loopback


def placed(
    folder: Path, *, addresses: list[str | None] | None, ports: tuple[int, ...] = (), **environment: str
) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(exist_ok=True)
    shutil.copy(place.__file__, folder)
    variables = ["GLOO_SOCKET_IFNAME"]
    described = {"node": 1, "addresses": addresses, "ports": ports, "interface_variables": variables}
    (folder / "place.json").write_text(json.dumps(described))
    job = {"command": ["run", "--at=@node0@", "@node1@:5"], "environment": {"MASTER_ADDR": "@node0@", **environment}}
    (folder / "job.json").write_text(json.dumps(job))
    return subprocess.run(
        [sys.executable, "-I", "place.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_addresses_and_the_interface_are_filled_in(tmp_path: Path) -> None:
    done = placed(tmp_path / "1", addresses=["127.0.0.1", "127.0.0.2"])
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "1" / "placed.json").read_text()) == {
        "command": ["run", "--at=127.0.0.1", "127.0.0.2:5"],
        "environment": {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"},
    }


def test_an_interface_that_the_user_has_set_stays(tmp_path: Path) -> None:
    placed(tmp_path / "1", addresses=["127.0.0.1", "127.0.0.2"], GLOO_SOCKET_IFNAME="ib0")
    assert json.loads((tmp_path / "1" / "placed.json").read_text())["environment"]["GLOO_SOCKET_IFNAME"] == "ib0"


def test_the_nodes_of_a_job_are_read_when_it_runs(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n1 127.0.0.1\nn2 127.0.0.3\n")
    placed(tmp_path / "1", addresses=None)
    assert json.loads((tmp_path / "1" / "placed.json").read_text())["command"][2] == "127.0.0.3:5"


def test_a_node_without_an_address_is_named(tmp_path: Path) -> None:
    done = placed(tmp_path / "1", addresses=["127.0.0.1", None])
    assert done.returncode == 1
    assert (tmp_path / "1" / "failure").read_text().startswith("The address of node 1 is not known")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        done = placed(tmp_path / "1", addresses=["127.0.0.1", "127.0.0.1"], ports=(port,))
    assert f"Port {port} is taken on {socket.gethostname()}" in done.stderr
    assert not (tmp_path / "1" / "placed.json").exists()

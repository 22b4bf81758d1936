"""Hosts in network namespaces, and a parameter server behind a limited cable."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.saturation.hosts import NAMED, PREFIX, hosts, missing_requirement

ROOT = Path(__file__).parents[2]
REASON = missing_requirement()
needs_hosts = pytest.mark.skipif(REASON is not None, reason=REASON or "")
COMMAND = [sys.executable, "-m", "benchmarks.saturation", "--json", "--ring", "0", "--seconds", "1"]


def namespaces_of(pid: int) -> list[str]:
    return [path.name for path in NAMED.iterdir() if path.name.startswith(f"{PREFIX}{pid}")] if NAMED.is_dir() else []


@needs_hosts
def test_hosts_have_addresses_and_are_removed_afterwards() -> None:
    with hosts(2) as (first, second):
        assert len(namespaces_of(os.getpid())) == 3
        shown = subprocess.run(
            ["ip", "netns", "exec", second.namespace, "ip", "-4", "address", "show", "eth0"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert second.address in shown.stdout
        assert first.address != second.address
    assert namespaces_of(os.getpid()) == []


def buckets(namespace: str) -> str:
    command = ["ip", "netns", "exec", namespace, "tc", "qdisc", "show"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@needs_hosts
def test_cable_is_limited_at_both_ends_until_the_limit_is_removed() -> None:
    with hosts(1) as (host,):
        host.limit(50)
        assert "tbf" in buckets(host.namespace)
        assert "rate 50Mbit" in buckets(host.hub)
        host.limit(None)
        assert "tbf" not in buckets(host.namespace) + buckets(host.hub)


@needs_hosts
def test_hosts_are_removed_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="inside"), hosts(1):
        raise RuntimeError("inside")
    assert namespaces_of(os.getpid()) == []


@needs_hosts
@pytest.mark.heavy
def test_three_workers_are_faster_behind_a_wide_cable_and_hardly_behind_a_narrow_one() -> None:
    command = [*COMMAND, "--mbps", "2000,100", "--workers", "1,3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=True)
    synchronous = {table["mbps"]: table for table in json.loads(done.stdout)["server"] if table["synchronous"]}
    gains = {
        mbps: table["rows"][1]["samples_per_second"] / table["rows"][0]["samples_per_second"]
        for mbps, table in synchronous.items()
    }
    assert gains[2000] > 1.7 > 1.6 > gains[100]
    narrow = synchronous[100]["rows"][1]
    assert narrow["received_share"] < 0.65, "a synchronous server alternates between directions"
    assert narrow["predicted_seconds"] == pytest.approx(narrow["seconds"], rel=0.3)


@needs_hosts
@pytest.mark.heavy
def test_interrupted_benchmark_removes_its_hosts() -> None:
    with subprocess.Popen(
        [*COMMAND, "--mbps", "20", "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as running:
        assert running.stderr is not None
        assert "2 synchronous workers" in running.stderr.readline()
        assert namespaces_of(running.pid)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=300)
    assert running.returncode != 0
    assert namespaces_of(running.pid) == []


def test_missing_requirement_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in (missing_requirement() or "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert "apt-get install iproute2" in (missing_requirement() or "")

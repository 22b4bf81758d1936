"""Hosts that are reached by ssh describe themselves, and become offers."""

from pathlib import Path

import msgspec
import pytest

from tests.rigs.fixtures import fresh_rig, needs_hosts
from tests.rigs.hosts import HostRig
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_hosts import describe_host, is_known, learn_host
from trainfare.clouds.door import Completed, MachineUnreachableError
from trainfare.clouds.local_shell import LocalShell
from trainfare.errors import NotFoundError
from trainfare.model.machine import Host
from trainfare.profiler.host import this_host
from trainfare.settings import Settings

__all__ = ["fresh_rig"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(machines=str(tmp_path / "machines.toml"), prices=str(tmp_path / "p"), runs=str(tmp_path / "runs"))


def remember(settings: Settings, name: str, host: Host) -> None:
    folder = Path(settings.runs) / "hosts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(host))


def test_a_host_tells_what_this_machine_tells_of_itself(tmp_path: Path) -> None:
    here = this_host(vm_type="ssh/x", gpu=None, gpus=0)
    there = describe_host(LocalShell(folder=tmp_path), vm_type="ssh/x")
    assert (there.name, there.cpu, there.cores) == (here.name, here.cpu, here.cores)
    assert (there.physical_cores, there.simd_bits) == (here.physical_cores, here.simd_bits)
    assert there.memory_gib == pytest.approx(here.memory_gib, rel=0.01)


class Shown(LocalShell):
    """A machine with the output of two boards."""

    def run(self, command: object, *, given: bytes = b"", timeout_seconds: float = 60.0) -> Completed:
        del command, given, timeout_seconds
        text = "box\n16\n65842112\nNVIDIA GeForce RTX 3090|NVIDIA GeForce RTX 3090|\nprocessor : 0\nmodel name : X\n"
        return Completed(exit_code=0, output=text.encode(), error=b"")


def test_boards_of_one_name_are_counted(tmp_path: Path) -> None:
    host = describe_host(Shown(folder=tmp_path))
    assert (host.gpu, host.gpus, host.cores, host.memory_gib) == ("NVIDIA GeForce RTX 3090", 2, 16, 62.79)


def test_what_the_host_tells_completes_what_the_file_states(settings: Settings) -> None:
    Path(settings.machines).write_text('[box]\nssh = "ada@box"\nmemory_gib = 8\n')
    remember(settings, "box", Host(name="box", cores=16, memory_gib=64.0, gpu="NVIDIA GeForce RTX 3090", gpus=2))
    (offer,) = open_catalog(settings).find("ssh/box")
    assert (offer.vm_type.vcpus, offer.vm_type.memory_gib, offer.usd_per_hour) == (16, 8, 0.0)
    assert offer.vm_type.gpu is not None
    assert (offer.vm_type.gpu.name, offer.vm_type.gpus) == ("RTX 3090", 2)


def test_a_host_in_no_file_is_found_by_its_name_and_not_listed(settings: Settings) -> None:
    remember(settings, "ada@lab", Host(name="box", cores=4))
    catalog = open_catalog(settings)
    (offer,) = catalog.find("ssh/ada@lab")
    assert (offer.market, offer.usd_per_hour, offer.vm_type.vcpus) == ("own", 0.0, 4)
    assert offer not in catalog.offers


def test_a_damaged_description_is_ignored(settings: Settings) -> None:
    remember(settings, "x", Host(name="box"))
    (Path(settings.runs) / "hosts" / "x.json").write_text("{")
    with pytest.raises(NotFoundError):
        open_catalog(settings).find("ssh/x")


@needs_hosts
def test_a_host_is_asked_once_and_remembered(fresh_rig: HostRig, settings: Settings) -> None:
    host = fresh_rig.add("h1")
    smi = '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: Tesla T4 (UUID: GPU-$i)"; done\n'
    host.add_program("nvidia-smi", smi)
    Path(settings.machines).write_text('[box]\nssh = "root@h1"\nusd_per_hour = 0.1\n')
    learned = learn_host(settings, "ssh/box")
    assert (learned.name, learned.gpu, learned.gpus, learned.vm_type) == ("h1", "Tesla T4", 2, "ssh/box")
    assert is_known(settings, "ssh/box")
    (offer,) = open_catalog(settings).find("ssh/box")
    assert offer.vm_type.gpu is not None
    assert (offer.vm_type.gpu.name, offer.vm_type.gpus, offer.usd_per_hour) == ("T4", 2, 0.1)


@needs_hosts
def test_a_host_that_does_not_exist_is_not_remembered(fresh_rig: HostRig, settings: Settings) -> None:
    with pytest.raises(MachineUnreachableError, match="no host of that name"):
        learn_host(settings, "ssh/nowhere")
    assert not is_known(settings, "ssh/nowhere")

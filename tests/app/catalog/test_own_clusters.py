"""Partitions of the user's clusters become offers, at the price and in the part that machines.toml states."""

from pathlib import Path

import msgspec
import pytest

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_clusters import learn_cluster_of
from trainfare.app.running.doors import open_door
from trainfare.catalog.own_machines import read_destinations
from trainfare.errors import UsageError
from trainfare.model.slurm import SlurmDescription, SlurmPartition
from trainfare.settings import Settings

TEXT = """
[lab]
slurm = true
ssh = "ada@login.lab"
usd_per_hour = 0.1
options = ["--account=p1"]
[lab.partitions.gpu]
usd_per_hour = 1.2
gpus = 1
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "machines.toml").write_text(TEXT)
    found = Settings(machines=str(tmp_path / "machines.toml"), prices=str(tmp_path / "p"), runs=str(tmp_path / "runs"))
    partitions = (
        SlurmPartition(cluster="lab", partition="cpu", nodes=3, cpus=64, memory_mib=262144, longest_seconds=3600.0),
        SlurmPartition(cluster="lab", partition="gpu", nodes=2, cpus=64, memory_mib=524288, gpu="a100", gpus=4),
        SlurmPartition(cluster="lab", partition="odd", nodes=1, cpus=8, memory_mib=1, gpu="mystery", gpus=2),
    )
    (tmp_path / "runs" / "clusters").mkdir(parents=True)
    described = msgspec.json.encode(SlurmDescription(version="slurm 23.11", partitions=partitions))
    (tmp_path / "runs" / "clusters" / "lab.json").write_bytes(described)
    return found


def test_each_partition_is_an_offer_at_the_users_price(settings: Settings) -> None:
    catalog = open_catalog(settings)
    cpu, gpu, odd = (catalog.find(f"slurm/lab-{name}")[0] for name in ("cpu", "gpu", "odd"))
    assert (cpu.usd_per_hour, cpu.market, cpu.most_nodes, cpu.vm_type.vcpus) == (0.1, "own", 3, 64)
    assert cpu.vm_type.memory_gib == 256
    assert (gpu.usd_per_hour, gpu.vm_type.gpus, gpu.most_nodes) == (1.2, 1, 2)
    assert gpu.vm_type.gpu is not None
    assert gpu.vm_type.gpu.name.startswith("A100")
    assert (gpu.vm_type.vcpus, gpu.vm_type.memory_gib) == (16, 128), "a quarter of a node"
    assert (odd.vm_type.gpu, odd.vm_type.gpus, odd.vm_type.memory_gib) == (None, 0, None)


def test_a_login_host_is_no_host_to_train_on(settings: Settings) -> None:
    assert read_destinations(Path(settings.machines)) == {}
    assert [o.vm_type.key for o in open_door(settings, "slurm/lab-cpu").offers()] == [
        "slurm/lab-cpu",
        "slurm/lab-gpu",
        "slurm/lab-odd",
    ]


def test_a_machine_of_no_cluster_says_what_to_add(settings: Settings) -> None:
    with pytest.raises(UsageError, match=r"slurm/mill-cpu is in no cluster of .*: add a section with slurm = true"):
        learn_cluster_of(settings, "slurm/mill-cpu")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[lab]\nslurm = false", "slurm must be true, or left out"),
        ("[lab]\nslurm = true\nssh = ''", "ssh must name the login host"),
        ("[lab]\nslurm = true\noptions = 'x'", "options must be a list"),
        ("[lab]\nslurm = true\nparitions = {}", "Did you mean partitions"),
        ("[lab]\nslurm = true\n[lab.partitions.gpu]\ngpus = 0", r"\[lab.partitions.gpu\]: gpus must be positive"),
        ("[here]\nslurm = true", "give the cluster another name"),
    ],
)
def test_mistakes_in_the_file_are_named(settings: Settings, text: str, problem: str) -> None:
    Path(settings.machines).write_text(text)
    with pytest.raises(UsageError, match=problem):
        open_catalog(settings)

"""Fixtures of hosts: `from tests.rigs.fixtures import rig, user_of_rig` in a test file that needs them."""

from collections.abc import Iterator

import pytest

from tests.rigs.hosts import HostRig, host_rig, missing_requirement
from tests.rigs.slurm import SlurmRig, missing_slurm, slurm_rig

REASON = missing_requirement()
needs_hosts = pytest.mark.skipif(REASON is not None, reason=REASON or "")
NO_SLURM = missing_slurm()
needs_slurm = pytest.mark.skipif(NO_SLURM is not None, reason=NO_SLURM or "")


@pytest.fixture(scope="module")
def rig() -> Iterator[HostRig]:
    """A rig without hosts, for the tests of one file."""
    with host_rig() as made:
        yield made


@pytest.fixture
def fresh_rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostRig]:
    """A rig for one test that damages it; this process is its user."""
    with host_rig() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def user_of_rig(rig: HostRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process and its children are the user of the rig: `ssh` knows its hosts."""
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmRig]:
    """A Slurm cluster for the tests of one file."""
    with slurm_rig() as made:
        yield made


@pytest.fixture
def user_of_cluster(cluster: SlurmRig, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process and its children are a user of the cluster, whose jobs end with the test."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield
    for program in cluster.bin.iterdir():
        program.unlink()
    cluster.cancel_all()

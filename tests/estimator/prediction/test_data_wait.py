"""The wait for data on another machine."""

from dataclasses import replace

import pytest

from tests.makers import make_profile, make_vm_type
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.cpu.machine import GENERIC_CPU
from trainfare.estimator.prediction.data_wait import LoaderHost, ProfiledWait, add_data_wait, data_wait
from trainfare.estimator.prediction.host import HOST_FACTOR
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.prediction.profile_index import ProfileIndex
from trainfare.model.evidence import DataWait
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Profile

LAPTOP, SERVER = LoaderHost(cores=2, clock_ghz=2.0), LoaderHost(cores=16, clock_ghz=4.0)


def waited(profile: Profile, wait: float, source: LoaderHost = LAPTOP) -> ProfiledWait:
    """A wait on a host with these cores and this clock."""
    cores = None if source.cores is None else int(source.cores)
    host = Host(name="laptop", cores=cores, physical_cores=cores, clock_ghz=source.clock_ghz)
    there = replace(profile, host=host)
    return ProfiledWait.of(there, wait, ProfileIndex.build([there], gpus={}, slice_cores={}))


def wait_of(
    profile: Profile,
    wait: float = 0.1,
    *,
    device: float = 0.01,
    growth: float = 1.0,
    source: LoaderHost = LAPTOP,
    target: LoaderHost = SERVER,
) -> Interval:
    return data_wait(waited(profile, wait, source), device_seconds=device, growth=growth, target=target)


def test_one_thread_is_faster_with_a_faster_clock_and_not_with_more_cores() -> None:
    profile = make_profile(loader_workers=0)
    assert wait_of(profile).value == pytest.approx(0.05)
    assert wait_of(profile, target=LoaderHost(cores=64, clock_ghz=4.0)) == wait_of(profile)


def test_an_unknown_clock_is_taken_to_be_the_same() -> None:
    assert wait_of(make_profile(loader_workers=0), target=LoaderHost(cores=8)).value == pytest.approx(0.1)


def test_wait_of_a_busy_laptop_is_not_carried_over() -> None:
    idle, busy = (wait_of(make_profile(loader_workers=0, cpu_queue_share=share)) for share in (0.0, 0.8))
    assert busy.value == pytest.approx(idle.value * 0.2)
    assert busy.high == idle.high
    assert busy.low < idle.low


def test_workers_share_the_work_on_more_cores() -> None:
    profile = make_profile(loader_workers=8, loader_cpu_seconds=0.8)
    few, many = (wait_of(profile, target=LoaderHost(cores=cores, clock_ghz=2.0)) for cores in (2, 16))
    assert few.value == pytest.approx(0.8 / 2 - 0.01)
    assert many.value == pytest.approx(0.8 / 8 - 0.01)


def test_workers_are_hidden_behind_a_long_computation() -> None:
    profile = make_profile(loader_workers=8, loader_cpu_seconds=0.08)
    assert wait_of(profile, device=0.5).high == 0


def test_the_wait_is_never_more_than_the_pipeline_needs() -> None:
    """A wait of a second on a busy host, for a loader that needs 20 ms of CPU time."""
    profile = make_profile(loader_workers=2, loader_cpu_seconds=0.02)
    assert wait_of(profile, wait=1.0).high <= HOST_FACTOR * 0.02


def test_workers_without_measured_time_were_busy_if_the_iteration_waited() -> None:
    profile = make_profile(loader_workers=2, iteration_seconds=(1.0, *[0.4] * 8), loss=())
    assert wait_of(profile, wait=0.3, device=0.1, target=LoaderHost(cores=16)).value == pytest.approx(0.3)
    assert wait_of(profile, wait=0.3, device=0.1, source=LoaderHost(cores=1)).value == pytest.approx(0.1)


def test_more_samples_take_longer() -> None:
    assert wait_of(make_profile(loader_workers=0), growth=2.0).value == pytest.approx(0.1)


def test_interval_is_wide() -> None:
    found = wait_of(make_profile(loader_workers=0))
    assert (found.low, found.high) == pytest.approx((0.05 / HOST_FACTOR, 0.05 * HOST_FACTOR))


def test_evidence_names_a_long_wait_and_a_busy_host() -> None:
    iteration = PredictedIteration(seconds=Interval.exactly(0.01), basis="extrapolated", profile=make_profile())
    profile = make_profile(loader_workers=0, cpu_queue_share=0.5)
    found = add_data_wait(iteration, waited(profile, 0.1), growth=1.0, target=SERVER)
    evidence = found.evidence[-1]
    assert isinstance(evidence, DataWait)
    assert (evidence.workers, evidence.busy_share) == (0, 0.5)
    assert evidence.share == pytest.approx(0.025 / 0.035)
    assert found.limited_by == "data"


def test_a_short_wait_is_not_named() -> None:
    iteration = PredictedIteration(seconds=Interval.exactly(1.0), basis="extrapolated", profile=make_profile())
    found = add_data_wait(iteration, waited(make_profile(), 0.01), growth=1.0, target=SERVER)
    assert found.evidence == ()


def test_a_machine_with_a_gpu_has_all_its_cores_for_the_loader() -> None:
    with_gpu = make_vm_type(gpu=load_gpus()["T4"], gpus=1, vcpus=16, cpu=GENERIC_CPU)
    without = make_vm_type(gpu=None, gpus=0, vcpus=16, cpu=GENERIC_CPU)
    assert LoaderHost.of_type(with_gpu).cores == pytest.approx(8 * 1.3)
    assert LoaderHost.of_type(without).cores == pytest.approx(4 * 1.3)
    assert LoaderHost.of_type(with_gpu, processes=4).cores == pytest.approx(2 * 1.3)


def test_computing_leaves_the_loader_the_other_cores_of_the_profiled_host() -> None:
    host = Host(name="h", cores=4, physical_cores=4, clock_ghz=3.1)
    assert LoaderHost.of_profile(make_profile(host=host, cpu_use=1.5), None) == LoaderHost(cores=2.5, clock_ghz=3.1)
    assert LoaderHost.of_profile(make_profile(host=host, cpu_use=1.5, device="cuda"), None).cores == 4

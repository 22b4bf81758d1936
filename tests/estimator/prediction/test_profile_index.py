"""Profiles indexed as evidence."""

from tests.estimator.prediction.test_predictor import GPUS, machine, on_gpu
from tests.makers import make_profile
from trainfare.estimator.prediction.profile_index import ProfileIndex, same_setting, samples_per_pass
from trainfare.model.machine import Host
from trainfare.model.profile import Profile


def indexed(*profiles: Profile) -> ProfileIndex:
    return ProfileIndex.build(profiles, gpus=GPUS, slice_cores={})


def test_profiles_are_found_by_machine_type() -> None:
    there, elsewhere = on_gpu("T4"), on_gpu("V100")
    assert indexed(there, elsewhere).on_machine(machine("T4")) == (there,)
    assert indexed(elsewhere).on_machine(machine("T4")) == ()


def test_profile_of_one_iteration_is_no_measurement() -> None:
    index = indexed(on_gpu(iteration_seconds=(1.0,)))
    assert (index.on_gpus, dict(index.by_machine), dict(index.times)) == ((), {}, {})
    assert len(index.traced) == 1


def test_only_single_gpu_profiles_of_known_gpus_are_gpu_measurements() -> None:
    unknown = on_gpu(host=Host(name="h", gpu="Voodoo 2", gpus=1))
    index = indexed(make_profile(), on_gpu(world_size=4), unknown, on_gpu("V100"))
    assert [one.gpu.name for one in index.on_gpus] == ["V100"]


def test_nearest_batch_size_of_each_gpu_comes_first() -> None:
    index = indexed(on_gpu("T4", batch=16), on_gpu("T4", batch=64), on_gpu("V100", batch=128))
    found = index.nearest_per_gpu(GPUS["A100"], 100)
    assert [(one.gpu.name, one.profile.micro_batch_size) for one in found] == [("V100", 128), ("T4", 64)]


def test_measurement_of_the_target_gpu_excludes_others() -> None:
    index = indexed(on_gpu("T4"), on_gpu("V100"))
    assert [one.gpu.name for one in index.nearest_per_gpu(GPUS["V100"], 64)] == ["V100"]


def test_wait_for_data_is_not_device_time() -> None:
    (waiting,) = indexed(on_gpu(seconds=0.1, data_wait_seconds=(0.0, *[0.04] * 9))).on_gpus
    assert round(waiting.device_seconds, 9) == 0.06
    (stuck,) = indexed(on_gpu(seconds=0.1, data_wait_seconds=(0.0, *[0.1] * 9))).on_gpus
    assert stuck.device_seconds > 0


def test_setting_is_batch_size_and_processes() -> None:
    assert same_setting(on_gpu("T4"), on_gpu("V100"))
    assert not same_setting(on_gpu(batch=32), on_gpu(batch=64))
    assert not same_setting(on_gpu(), on_gpu(world_size=2))


def test_samples_per_pass_count_all_processes() -> None:
    assert samples_per_pass(on_gpu(batch=16, world_size=4)) == 64
    assert samples_per_pass(on_gpu(micro_batch_size=None)) is None

"""The memory of an iteration by batch size, with and without accumulation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu, make_profile, make_vm_type
from trainfare.estimator.memory import (
    CONTEXT_GIB,
    accumulation,
    largest_batch,
    memory_fit,
    memory_need,
)
from trainfare.model.profile import Profile

GIB = 2**30


def profiled(**changes: Any) -> Profile:
    """64 samples of 1/64 GiB each, and weights of 0.1 GiB with two moments."""
    fields = {
        "activation_bytes": GIB,
        "parameters": 26_843_545,
        "gradient_bytes": GIB // 10,
        "optimizer_bytes": GIB // 5,
    }
    return make_profile(**(fields | changes))


def test_needed_memory_is_the_sum_of_its_parts() -> None:
    need = memory_need(profiled())
    assert need is not None
    parts = need.weights_gib + need.gradients_gib + need.optimizer_gib + need.activations_gib + need.temporary_gib
    assert need.tensors_gib == parts
    assert need.needed_gib.value == pytest.approx(parts + need.context_gib + need.margin_gib)


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    small, large = memory_need(profiled()), memory_need(profiled(), micro_batch_size=256)
    assert small is not None
    assert large is not None
    assert large.activations_gib == pytest.approx(4 * small.activations_gib)
    assert large.weights_gib == small.weights_gib == pytest.approx(0.1)
    assert large.optimizer_gib == small.optimizer_gib


def test_two_profiles_determine_the_fixed_part_of_activations() -> None:
    """A line of 0.5 GiB and 1/128 GiB a sample: at 256 it is 2.5 GiB; in proportion it would be 4."""
    other = profiled(micro_batch_size=192, activation_bytes=2 * GIB)
    need = memory_need(profiled(), micro_batch_size=256, others=[other])
    assert need is not None
    assert need.activations_gib == pytest.approx(2.5)


def test_adam_needs_a_copy_of_the_weights_where_activations_are_small() -> None:
    plain = memory_need(profiled(activation_bytes=0, optimizer_bytes=0))
    adam = memory_need(profiled(activation_bytes=0))
    assert plain is not None
    assert adam is not None
    assert plain.temporary_gib == 0
    assert adam.temporary_gib == pytest.approx(adam.weights_gib)


def test_several_gpus_have_a_second_copy_of_the_gradients() -> None:
    single, one_of_four = memory_need(profiled()), memory_need(profiled(), micro_batch_size=64, gpus=4)
    assert single is not None
    assert one_of_four is not None
    assert one_of_four.micro_batch_size == 64
    assert one_of_four.activations_gib == single.activations_gib
    assert one_of_four.gradients_gib == 2 * single.gradients_gib


def test_several_gpus_divide_the_effective_batch() -> None:
    fit = memory_fit(profiled(), make_vm_type(gpus=4), batch_size=256, gpus=4)
    need = memory_need(profiled(), micro_batch_size=64, gpus=4)
    assert fit is not None
    assert need is not None
    assert fit.needed_gib == need.needed_gib


def test_accumulated_passes_need_the_memory_of_one_pass() -> None:
    """Four passes of 64 samples need as much as one, and an effective batch of 512 is four passes of 128."""
    once, accumulated = profiled(), profiled(accumulation_steps=4)
    assert accumulated.effective_batch_size == 256
    assert memory_fit(accumulated, make_vm_type(), batch_size=256) == memory_fit(once, make_vm_type(), batch_size=64)
    assert memory_fit(accumulated, make_vm_type(), batch_size=512) == memory_fit(once, make_vm_type(), batch_size=128)
    assert memory_fit(accumulated, make_vm_type()) == memory_fit(once, make_vm_type())


@given(st.integers(1, 8), st.integers(1, 8))
def test_largest_batch_counts_effective_samples(steps: int, gpus: int) -> None:
    vm_type = make_vm_type(gpus=gpus)
    once = largest_batch([profiled()], vm_type, gpus=gpus)
    accumulated = largest_batch([profiled(accumulation_steps=steps)], vm_type, gpus=gpus)
    assert once is not None
    assert accumulated is not None
    assert (accumulated.fits, accumulated.at_most) == (steps * once.fits, steps * once.at_most)


def test_accumulation_does_not_depend_on_that_of_the_profile() -> None:
    plans = [accumulation([profiled(accumulation_steps=steps)], make_vm_type(), 4096) for steps in (1, 4)]
    assert plans[0] is not None
    assert plans[0] == plans[1]


def test_measured_peak_is_used_at_its_batch_size() -> None:
    fit = memory_fit(profiled(peak_device_bytes=3 * GIB), make_vm_type())
    assert fit is not None
    assert fit.needed_gib.low == pytest.approx(3)
    assert 3 + CONTEXT_GIB <= fit.needed_gib.value <= 4


def test_measured_peak_grows_by_its_activations() -> None:
    profile = profiled(peak_device_bytes=int(1.4 * GIB))
    need = memory_need(profile, micro_batch_size=128)
    assert need is not None
    assert need.activations_gib == pytest.approx(2, rel=1e-6)
    low = memory_need(profiled(peak_device_bytes=GIB // 4), micro_batch_size=128)
    assert low is not None
    assert low.activations_gib == 0
    assert low.tensors_gib == pytest.approx(0.25)


def test_memory_without_a_trace_is_unknown() -> None:
    assert memory_fit(make_profile(), make_vm_type()) is None
    assert largest_batch([make_profile()], make_vm_type()) is None
    assert largest_batch([], make_vm_type()) is None
    assert largest_batch([profiled(micro_batch_size=None)], make_vm_type()) is None


def test_machine_without_gpu_needs_the_memory_of_the_host() -> None:
    host = make_vm_type(gpu=None, gpus=0, memory_gib=8.0)
    profile = profiled(peak_host_bytes=4 * GIB)
    fit, larger = memory_fit(profile, host), memory_fit(profile, host, batch_size=256)
    assert fit is not None
    assert larger is not None
    assert fit.verdict == "fits"
    assert larger.needed_gib.value == pytest.approx(4 + 1.2 * 3)


@given(st.integers(1, 4096), st.integers(1, 4096), st.floats(0, 1e10), st.floats(0, 1e10), st.floats(0, 2e10))
def test_memory_grows_with_the_batch(b: int, other: int, weights: float, state: float, activations: float) -> None:
    profile = profiled(gradient_bytes=int(weights), optimizer_bytes=int(state), activation_bytes=int(activations))
    small, large = (memory_need(profile, micro_batch_size=batch) for batch in sorted((b, other)))
    assert small is not None
    assert large is not None
    assert small.needed_gib.value <= large.needed_gib.value * (1 + 1e-12)


@given(st.floats(1, 80), st.integers(1, 8))
def test_largest_batch_fits_and_a_larger_one_does_not(memory_gib: float, gpus: int) -> None:
    vm_type = make_vm_type(gpu=make_gpu(memory_gib=memory_gib), gpus=gpus)
    largest = largest_batch([profiled()], vm_type, gpus=gpus)
    assert largest is not None
    for batch, inside in ((largest.fits, {"fits"}), (largest.at_most, {"fits", "tight"})):
        below = memory_fit(profiled(), vm_type, batch_size=batch or gpus, gpus=gpus)
        above = memory_fit(profiled(), vm_type, batch_size=batch + gpus, gpus=gpus)
        assert below is not None
        assert above is not None
        assert batch == 0 or below.verdict in inside
        assert above.verdict not in inside


@given(st.integers(1, 100_000), st.integers(1, 8))
def test_accumulated_passes_cover_the_batch_and_each_fits(batch: int, gpus: int) -> None:
    vm_type = make_vm_type(gpus=gpus)
    advice = accumulation([profiled()], vm_type, batch, gpus=gpus)
    assert advice is not None
    assert batch <= advice.effective_batch_size < batch + advice.steps * gpus
    step = memory_fit(profiled(), vm_type, batch_size=advice.micro_batch_size * gpus, gpus=gpus)
    assert step is not None
    assert step.verdict == "fits"


def test_accumulation_divides_the_batch_where_it_can() -> None:
    advice = accumulation([profiled()], make_vm_type(), 4096)
    assert advice is not None
    assert advice.effective_batch_size == 4096


def test_model_that_never_fits_has_no_accumulation() -> None:
    tiny = make_vm_type(gpu=make_gpu(memory_gib=1.0))
    assert accumulation([profiled()], tiny, 64) is None
    largest = largest_batch([profiled()], tiny)
    assert largest is not None
    assert largest.fits == 0


# ---- compared with PyTorch's memory tracker


def tracked(make: Any, batch_size: int) -> tuple[float, Profile]:
    """The peak by PyTorch's memory tracker on fake tensors, and the profile of the same iteration."""
    torch = pytest.importorskip("torch")
    tracker = pytest.importorskip("torch.distributed._tools.mem_tracker").MemTracker()
    from torch._subclasses.fake_tensor import FakeTensorMode  # as in PyTorch's own examples of the tracker

    from trainfare.probe.torch_operations import Tracer

    loss_of = torch.nn.functional.cross_entropy
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, inputs, labels = make(torch, batch_size)
        optimizer = torch.optim.Adam(model.parameters())
        tracker.track_external(model, optimizer, inputs, labels)
        with tracker:
            for _ in range(2):
                tracker.reset_mod_stats()
                optimizer.zero_grad()
                loss_of(model(inputs), labels).backward()
                optimizer.step()
        (peak,) = tracker.get_tracker_snapshot("peak").values()
    model, inputs, labels = make(torch, batch_size)
    counting = Tracer(torch, lambda: True)
    counting.enter()
    loss = loss_of(model(inputs.clone()), labels)
    counting.backward_started()
    loss.backward()
    counting.backward_ended()
    kept = counting.leave()["activation_bytes"]
    parameters = sum(p.numel() for p in model.parameters())
    profile = profiled(
        micro_batch_size=batch_size,
        activation_bytes=kept,
        parameters=parameters,
        gradient_bytes=4 * parameters,
        optimizer_bytes=8 * parameters,
    )
    return float(peak["Total"]), profile


def wide_mlp(torch: Any, b: int) -> Any:
    nn = torch.nn
    layers = (nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return nn.Sequential(*layers), torch.randn(b, 256), torch.randint(0, 10, (b,))


def deep_cnn(torch: Any, b: int) -> Any:
    nn = torch.nn
    blocks = [
        part
        for i, o in ((3, 16), (16, 16), (16, 32), (32, 32))
        for part in (nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    ]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return model, torch.randn(b, 3, 16, 16), torch.randint(0, 10, (b,))


@pytest.mark.parametrize("make", [wide_mlp, deep_cnn])
def test_predicted_peak_is_near_that_of_pytorchs_tracker(make: Any) -> None:
    peak, profile = tracked(make, 32)
    need = memory_need(profile)
    assert need is not None
    assert need.tensors_gib == pytest.approx(peak / GIB, rel=0.15)

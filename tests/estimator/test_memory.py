"""What must be held at once, by batch size."""

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


def test_the_parts_add_up_to_what_is_needed() -> None:
    need = memory_need(profiled())
    assert need is not None
    parts = need.weights_gib + need.gradients_gib + need.optimizer_gib + need.activations_gib + need.moment_gib
    assert need.tensors_gib == parts
    assert need.needed_gib.value == pytest.approx(parts + need.context_gib + need.margin_gib)


def test_weights_stay_and_activations_grow_with_the_batch() -> None:
    small, large = memory_need(profiled()), memory_need(profiled(), batch_size=256)
    assert small is not None
    assert large is not None
    assert large.activations_gib == pytest.approx(4 * small.activations_gib)
    assert large.weights_gib == small.weights_gib == pytest.approx(0.1)
    assert large.optimizer_gib == small.optimizer_gib


def test_two_profiles_tell_what_no_sample_takes() -> None:
    """A line of 0.5 GiB and 1/128 GiB a sample: at 256 it is 2.5 GiB, in proportion it would be 4."""
    other = profiled(micro_batch_size=192, activation_bytes=2 * GIB)
    need = memory_need(profiled(), batch_size=256, others=[other])
    assert need is not None
    assert need.activations_gib == pytest.approx(2.5)


def test_a_step_of_adam_holds_a_copy_of_the_weights_where_activations_are_small() -> None:
    plain = memory_need(profiled(activation_bytes=0, optimizer_bytes=0))
    adam = memory_need(profiled(activation_bytes=0))
    assert plain is not None
    assert adam is not None
    assert plain.moment_gib == 0
    assert adam.moment_gib == pytest.approx(adam.weights_gib)


def test_several_gpus_share_the_batch_and_copy_the_gradients() -> None:
    alone, shared = memory_need(profiled()), memory_need(profiled(), batch_size=256, gpus=4)
    assert alone is not None
    assert shared is not None
    assert shared.batch_size == 64
    assert shared.activations_gib == alone.activations_gib
    assert shared.gradients_gib == 2 * alone.gradients_gib


def test_a_measured_peak_is_believed_at_its_batch() -> None:
    fit = memory_fit(profiled(peak_device_bytes=3 * GIB), make_vm_type())
    assert fit is not None
    assert fit.needed_gib.low == pytest.approx(3)
    assert 3 + CONTEXT_GIB <= fit.needed_gib.value <= 4


def test_a_measured_peak_grows_by_what_is_not_weights() -> None:
    profile = profiled(peak_device_bytes=int(1.4 * GIB))
    need = memory_need(profile, batch_size=128)
    assert need is not None
    assert need.activations_gib == pytest.approx(2, rel=1e-6)
    low = memory_need(profiled(peak_device_bytes=GIB // 4), batch_size=128)
    assert low is not None
    assert low.activations_gib == 0
    assert low.tensors_gib == pytest.approx(0.25)


def test_without_a_trace_nobody_can_tell() -> None:
    assert memory_fit(make_profile(), make_vm_type()) is None
    assert largest_batch([make_profile()], make_vm_type()) is None
    assert largest_batch([], make_vm_type()) is None
    assert largest_batch([profiled(micro_batch_size=None)], make_vm_type()) is None


def test_a_machine_without_gpu_asks_for_the_memory_of_the_host() -> None:
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
    small, large = (memory_need(profile, batch_size=batch) for batch in sorted((b, other)))
    assert small is not None
    assert large is not None
    assert small.needed_gib.value <= large.needed_gib.value * (1 + 1e-12)


@given(st.floats(1, 80), st.integers(1, 8))
def test_the_largest_batch_fits_and_one_more_does_not(memory_gib: float, gpus: int) -> None:
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
def test_accumulated_steps_make_up_the_batch_and_each_fits(batch: int, gpus: int) -> None:
    vm_type = make_vm_type(gpus=gpus)
    advice = accumulation([profiled()], vm_type, batch, gpus=gpus)
    assert advice is not None
    assert batch <= advice.batch_size < batch + advice.steps * gpus
    step = memory_fit(profiled(), vm_type, batch_size=advice.per_gpu * gpus, gpus=gpus)
    assert step is not None
    assert step.verdict == "fits"


def test_accumulation_divides_the_batch_where_it_can() -> None:
    advice = accumulation([profiled()], make_vm_type(), 4096)
    assert advice is not None
    assert advice.batch_size == 4096


def test_what_never_fits_is_not_accumulated() -> None:
    tiny = make_vm_type(gpu=make_gpu(memory_gib=1.0))
    assert accumulation([profiled()], tiny, 64) is None
    largest = largest_batch([profiled()], tiny)
    assert largest is not None
    assert largest.fits == 0


# ---- against PyTorch's own tracker


def tracked(make: Any, batch_size: int) -> tuple[float, Profile]:
    """The peak as PyTorch's memory tracker finds it without computing, and the profile of the same iteration."""
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
def test_the_peak_is_what_pytorch_tracks(make: Any) -> None:
    peak, profile = tracked(make, 32)
    need = memory_need(profile)
    assert need is not None
    assert need.tensors_gib == pytest.approx(peak / GIB, rel=0.15)

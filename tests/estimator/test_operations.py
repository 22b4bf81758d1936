import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_gpu
from trainfare.estimator.operations import SHIPPED, device_time
from trainfare.model.machine import Gpu
from trainfare.model.profile import Operation

operations = st.lists(
    st.builds(
        Operation,
        dtype=st.sampled_from(["float32", "float16", "int64"]),
        flops=st.floats(0, 1e14),
        bytes=st.floats(0, 1e11),
        count=st.integers(1, 100),
    ),
    min_size=1,
    max_size=8,
)


def matmul(**changes: object) -> Operation:
    return Operation(**({"kind": "matmul", "dtype": "float32", "flops": 8.1e12, "bytes": 1.0} | changes))  # type: ignore[arg-type]  # a mixed dict


def test_arithmetic_that_fills_a_second_takes_a_second_times_the_factor() -> None:
    time = device_time([matmul()], make_gpu(fp32_tflops=8.1))
    assert time.compute == pytest.approx(SHIPPED.roofline_factor)
    assert time.limited_by == "compute"


def test_traffic_decides_where_it_is_the_longer_part() -> None:
    time = device_time([matmul(flops=1.0, bytes=320e9)], make_gpu(memory_gb_per_second=320))
    assert time.memory == pytest.approx(SHIPPED.roofline_factor)
    assert time.limited_by == "memory bandwidth"


def test_many_tiny_kernels_are_limited_by_launching_them() -> None:
    time = device_time([matmul(flops=1.0, count=100)], make_gpu())
    assert time.launches == pytest.approx(100 * SHIPPED.launch_seconds)
    assert time.limited_by == "launches"


def test_half_precision_uses_tensor_cores() -> None:
    gpu = make_gpu(fp32_tflops=8.1, fp16_tensor_tflops=65.0)
    single, half = (device_time([matmul(dtype=dtype)], gpu).compute for dtype in ("float32", "float16"))
    assert single / half == pytest.approx(65.0 / 8.1)


def test_convolutions_of_float32_use_tf32_and_matrix_products_do_not() -> None:
    gpu = make_gpu(tf32_tensor_tflops=156.0, fp32_tflops=19.5)
    product, convolution = (device_time([matmul(kind=kind)], gpu).compute for kind in ("matmul", "convolution"))
    assert product / convolution == pytest.approx(156.0 / 19.5)


@given(operations, st.floats(1, 100), st.floats(1, 100))
def test_a_gpu_that_is_better_in_everything_is_never_slower(
    work: list[Operation], more_flops: float, more_bandwidth: float
) -> None:
    def gpu(compute: float, bandwidth: float) -> Gpu:
        return make_gpu(
            fp32_tflops=8.1 * compute, fp16_tensor_tflops=65 * compute, memory_gb_per_second=320 * bandwidth
        )

    slow, fast = device_time(work, gpu(1, 1)), device_time(work, gpu(more_flops, more_bandwidth))
    assert fast.seconds <= slow.seconds * (1 + 1e-9)


@given(operations)
def test_never_faster_than_the_roofline(work: list[Operation]) -> None:
    gpu = make_gpu()
    roofline = sum(
        o.count * max(o.flops / gpu.peak_flops_per_second(o.dtype), o.bytes / (gpu.memory_gb_per_second * 1e9))
        for o in work
    )
    assert device_time(work, gpu).seconds >= roofline

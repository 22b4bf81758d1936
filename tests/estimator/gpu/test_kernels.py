"""Features of kernels: seconds at a GPU's nominal figures."""

from dataclasses import replace

import numpy as np
import pytest

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.kernels import (
    FEATURES,
    PRIORS,
    GpuRates,
    features,
    iteration_work,
    reached_bandwidth,
    roofline,
)
from trainfare.model.profile import Convolution, Operation

GPUS = load_gpus()
T4 = GPUS["T4"]
P4 = GPUS["P4"]


def column(operation: Operation, name: str, gpu: str = "T4") -> float:
    x = features(iteration_work([operation]), GpuRates.of([GPUS[gpu]]))
    return float(x[0, [feature.name for feature in FEATURES].index(name)])


def product(**changes: object) -> Operation:
    fields: dict[str, object] = {"kind": "matmul", "dtype": "float16", "flops": 65e9, "bytes": 3.2e8, **changes}
    return Operation(**fields)  # type: ignore[arg-type] # fields by name, of several types; the noun checks them


def convolution(**changes: int) -> Operation:
    shape = {"channels_in": 64, "channels_out": 64, "kernel": 3, "stride": 1, "side": 28, "groups": 1} | changes
    return Operation(
        kind="convolution",
        dtype="float16",
        flops=1e9,
        bytes=1e7,
        part="forward",
        convolution=Convolution(
            channels_in=shape["channels_in"],
            channels_out=shape["channels_out"],
            kernel=(shape["kernel"],) * 2,
            stride=(shape["stride"],) * 2,
            plane=(shape["side"],) * 2,
            groups=shape["groups"],
        ),
    )


def test_arithmetic_takes_peak_and_bytes_take_bandwidth() -> None:
    assert column(product(), "matmul") == pytest.approx(1e-3)
    assert column(product(), "matmul bytes") == pytest.approx(3.2e8 / reached_bandwidth(T4))


def test_bandwidth_reached_falls_behind_the_nominal_as_it_grows() -> None:
    shares = [reached_bandwidth(GPUS[n]) / (GPUS[n].memory_gb_per_second * 1e9) for n in ("T4", "A100", "H100", "B200")]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.95
    assert shares[-1] < 0.65


def test_more_nominal_bandwidth_is_never_slower() -> None:
    speeds = [
        reached_bandwidth(replace(GPUS["H100"], memory_gb_per_second=float(gb))) for gb in range(500, 20_000, 500)
    ]
    assert speeds == sorted(speeds)


def test_gpu_without_its_number_of_multiprocessors_resembles_one_of_equal_arithmetic() -> None:
    h100 = GPUS["H100"]
    assert reached_bandwidth(replace(h100, multiprocessors=None)) == pytest.approx(reached_bandwidth(h100), rel=0.05)


def test_accelerator_that_is_no_gpu_reaches_its_nominal_bandwidth() -> None:
    assert reached_bandwidth(GPUS["TPUv3"]) == GPUS["TPUv3"].memory_gb_per_second * 1e9


@pytest.mark.parametrize(("gpu", "name"), [("A100", "matmul"), ("V100", "matmul on ordinary cores")])
def test_tf32_uses_its_units_where_a_gpu_has_them(gpu: str, name: str) -> None:
    assert column(product(dtype="tf32"), name, gpu) == pytest.approx(
        65e9 / (GPUS[gpu].tf32_tensor_tflops or GPUS[gpu].fp32_tflops) / 1e12
    )


def test_float32_does_not_use_tf32_units() -> None:
    assert column(product(dtype="float32"), "matmul", "A100") == 0
    assert column(replace(convolution(), dtype="float32"), "convolution", "A100") == 0


def test_tf32_is_float32_on_amd() -> None:
    assert column(product(dtype="tf32"), "matmul", "MI300X") == 0


def test_half_precision_without_tensor_cores_runs_on_ordinary_cores() -> None:
    assert column(product(), "matmul", "P4") == 0
    assert column(product(), "matmul on ordinary cores", "P4") == pytest.approx(65e9 / (P4.fp32_tflops * 1e12))


def test_convolution_of_few_channels_pays_for_full_tiles() -> None:
    full, few = (column(convolution(channels_out=n), "convolution in tiles") for n in (64, 16))
    assert few == pytest.approx(4 * full)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ({"channels_in": 3}, "first convolution"),
        ({"kernel": 1}, "1x1 in tiles"),
        ({"groups": 64}, "depthwise"),
        ({"groups": 64, "kernel": 7}, "depthwise, native"),
        ({"groups": 8}, "grouped"),
    ],
)
def test_each_sort_of_convolution_has_its_own_column(shape: dict[str, int], name: str) -> None:
    assert column(convolution(**shape), name) > 0


def test_small_pointwise_operations_stay_in_the_cache() -> None:
    small, large = (product(kind="pointwise", flops=0.0, bytes=size) for size in (1e6, 1e9))
    assert column(small, "pointwise in cache") > 0 == column(small, "pointwise")
    assert column(large, "pointwise") > 0 == column(large, "pointwise in cache")


def test_in_place_output_counts_once() -> None:
    apart = product(kind="pointwise", flops=0.0, bytes=1e9, name="aten.relu", inputs=((8, 8),))
    in_place = product(kind="pointwise", flops=0.0, bytes=1e9, name="aten.relu_", inputs=((8, 8),))
    assert column(in_place, "pointwise") == pytest.approx(column(apart, "pointwise") / 2)


def test_features_are_finite_for_every_kind_of_operation_and_for_none() -> None:
    kinds = ("convolution", "matmul", "attention", "norm", "pointwise", "reduction", "embedding", "rnn", "optimizer")
    operations = [product(kind=kind, flops=0.0, bytes=0.0) for kind in (*kinds, "copy")]
    for some in (operations, []):
        x = features(iteration_work(some), GpuRates.of(list(GPUS.values())))
        assert np.isfinite(x @ PRIORS).all()
        assert np.isfinite(roofline(iteration_work(some), GpuRates.of(list(GPUS.values())))).all()


def test_traffic_that_stays_in_the_cache_never_rounds_to_less_than_nothing() -> None:
    """Sums in different orders differ by rounding: their difference had a negative share of time, and its root is not a
    number."""
    for seed in range(20):
        sizes = np.random.default_rng(seed).uniform(1, 1e5, 60)
        some = [product(kind="pointwise", flops=0.0, bytes=float(size)) for size in sizes]
        x = features(iteration_work(some), GpuRates.of(list(GPUS.values())))
        assert (x >= 0).all()


def test_communication_is_no_work_of_the_gpu() -> None:
    alone = [product()]
    with_collective = [*alone, product(kind="communication", flops=0.0, bytes=1e12, name="c10d._allgather_base_")]
    rates = GpuRates.of(list(GPUS.values()))
    assert (features(iteration_work(alone), rates) == features(iteration_work(with_collective), rates)).all()
    assert (roofline(iteration_work(alone), rates) == roofline(iteration_work(with_collective), rates)).all()

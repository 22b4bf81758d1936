"""Programs predicted from their times: physical properties, and fits to times made up by the law itself."""

from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.by_times import (
    ProgramsFit,
    ReferenceRun,
    TimedRun,
    effective_rates,
    fit_programs,
    predict_by_times,
    with_reference_runs,
)
from trainfare.model.measurement import MeasuredIteration

GPUS = load_gpus()
MEASURED = ("V100", "A100", "A100-80GB", "RTX 3090", "RTX A6000", "A10", "H100")
SLOW_A10 = 1.3


def made_up() -> list[MeasuredIteration]:
    """Six programs between all traffic and all arithmetic; the A10 takes 30 % more than its figures say."""
    rows = []
    for number in range(6):
        for name in MEASURED:
            gpu = GPUS[name]
            traffic, arithmetic = 1e3 / gpu.memory_gb_per_second, 1e14 / gpu.peak_flops_per_second("float16")
            seconds = 0.1 * (traffic + number / 3 * arithmetic) * (SLOW_A10 if name == "A10" else 1)
            row = MeasuredIteration(
                source="made up",
                program=f"program {number}",
                family=f"program {number}",
                gpu=name,
                dtype="float16",
                batch_size=32,
                seconds=seconds,
            )
            rows.append(row)
    return rows


@cache
def made_up_fit() -> ProgramsFit:
    return fit_programs(made_up(), GPUS)


def known(program: int, *names: str) -> list[TimedRun]:
    return [
        TimedRun(gpu=GPUS[row.gpu], seconds=row.seconds, batch_size=row.batch_size)
        for row in made_up()
        if row.program == f"program {program}" and row.gpu in names
    ]


@settings(max_examples=40, deadline=None)
@given(
    factor=st.floats(1.0, 3.0),
    seconds=st.floats(1e-3, 10.0),
    there=st.sampled_from(["A40", "L40S", "T4", "H200", "RTX A5000"]),
)
def test_gpu_better_by_every_figure_is_never_slower(factor: float, seconds: float, there: str) -> None:
    gpu = replace(GPUS[there], name="without measurements")
    faster = replace(
        gpu,
        memory_gb_per_second=gpu.memory_gb_per_second * factor,
        fp32_tflops=gpu.fp32_tflops * factor,
        fp16_tensor_tflops=(gpu.fp16_tensor_tflops or 1) * factor,
    )
    fit = replace(made_up_fit(), gpus={})  # without GPU effects: the two GPUs resemble different ones
    times = [TimedRun(gpu=GPUS["A100"], seconds=seconds, batch_size=32)]
    assert predict_by_times(times, faster, "float16", fit).value <= predict_by_times(
        times, gpu, "float16", fit
    ).value * (1 + 1e-6)


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.01, 100.0))
def test_prediction_scales_with_the_known_times(factor: float) -> None:
    times = known(2, "V100", "A100")
    longer = [replace(time, seconds=time.seconds * factor) for time in times]
    here, there = (predict_by_times(t, GPUS["H100"], "float16", made_up_fit()) for t in (times, longer))
    assert there.value == pytest.approx(here.value * factor, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 8.0))
def test_larger_batch_never_takes_less_time(times_larger: float) -> None:
    times = known(2, "V100", "A100")
    small = predict_by_times(times, GPUS["T4"], "float16", replace(made_up_fit(), gpus={}), batch_size=256)
    large = predict_by_times(
        times, GPUS["T4"], "float16", replace(made_up_fit(), gpus={}), batch_size=256 * times_larger
    )
    assert large.value >= small.value * (1 - 1e-6)


def test_program_measured_on_the_gpu_gets_its_measured_time() -> None:
    times = known(3, *MEASURED)
    here = next(time for time in times if time.gpu.name == "RTX 3090")
    assert predict_by_times(times, here.gpu, "float16", made_up_fit()).value == pytest.approx(here.seconds, rel=0.05)


def test_held_out_gpu_is_predicted_within_twenty_percent() -> None:
    rows = [row for row in made_up() if row.gpu != "RTX A6000"]
    fit = fit_programs(rows, GPUS)
    for number in range(6):
        truth = known(number, "RTX A6000")[0].seconds
        found = predict_by_times(known(number, *(set(MEASURED) - {"RTX A6000"})), GPUS["RTX A6000"], "float16", fit)
        assert found.value == pytest.approx(truth, rel=0.2)
        assert found.low < found.value < found.high


def test_more_known_times_narrow_the_interval() -> None:
    one = predict_by_times(known(4, "V100"), GPUS["H100"], "float16", made_up_fit())
    many = predict_by_times(known(4, *MEASURED[:-1]), GPUS["H100"], "float16", made_up_fit())
    assert many.high / many.low < one.high / one.low


def test_reference_runs_halve_the_error_on_a_slow_gpu() -> None:
    others = tuple(name for name in MEASURED if name != "A10")
    fit = fit_programs([row for row in made_up() if row.gpu != "A10"], GPUS)
    runs = [
        ReferenceRun(elsewhere=tuple(known(number, *others)), measured=known(number, "A10")[0], dtype="float16")
        for number in (0, 3, 5)
    ]
    after = with_reference_runs(fit, GPUS["A10"], runs)
    truth = np.log(known(2, "A10")[0].seconds)
    errors = [
        abs(np.log(predict_by_times(known(2, *others), GPUS["A10"], "float16", one).value) - truth)
        for one in (fit, after)
    ]
    assert errors[1] < errors[0] / 2
    assert after.gpus["A10"].deviation < 0.12


def test_slow_gpu_has_lower_effective_rates() -> None:
    fit = made_up_fit()
    assert (
        effective_rates(GPUS["A10"], "float16", fit).bandwidth
        < 0.95 * effective_rates(GPUS["RTX A6000"], "float16", fit).bandwidth
    )
    assert (
        effective_rates(GPUS["A10"], "float16", fit).deviation < effective_rates(GPUS["T4"], "float16", fit).deviation
    )


def test_unmeasured_gpu_resembles_its_sibling() -> None:
    fit = made_up_fit()
    sibling, a10 = (effective_rates(GPUS[name], "float16", fit) for name in ("A10G", "A10"))
    unrelated = effective_rates(replace(GPUS["A10G"], name="x", architecture="other"), "float16", replace(fit, gpus={}))
    assert abs(np.log(sibling.bandwidth / a10.bandwidth)) < abs(np.log(unrelated.bandwidth / a10.bandwidth))


def test_fit_round_trips_through_json() -> None:
    fit = made_up_fit()
    encoded = msgspec.json.encode(fit)
    assert len(encoded) < 30_000
    assert msgspec.json.decode(encoded, type=ProgramsFit) == fit


def test_rows_of_several_or_unknown_gpus_are_ignored() -> None:
    rows = [replace(made_up()[0], gpus=4), replace(made_up()[0], gpu="unknown")]
    assert fit_programs(rows, GPUS).gpus == {}
    assert predict_by_times(known(1, "V100"), GPUS["T4"], "float16", fit_programs([], GPUS)).value > 0


def test_no_known_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one GPU"):
        predict_by_times([], GPUS["T4"], "float16", made_up_fit())


def test_nearer_gpu_outweighs_an_odd_time_on_a_distant_one() -> None:
    volta = TimedRun(gpu=GPUS["V100"], seconds=0.1, batch_size=32)
    kepler = predict_by_times([volta], GPUS["K80"], "float32", made_up_fit(), batch_size=32).value
    plain = predict_by_times([volta], GPUS["P100"], "float32", made_up_fit(), batch_size=32).value
    odd = [replace(volta, gpu=GPUS["K80"], seconds=4 * kepler), volta]
    assert predict_by_times(odd, GPUS["P100"], "float32", made_up_fit(), batch_size=32).value < 2 * plain


def test_larger_host_share_widens_the_interval() -> None:
    def width(host_seconds: float) -> float:
        times = [TimedRun(gpu=GPUS["V100"], seconds=host_seconds + 0.01 * b, batch_size=b) for b in (1.0, 4.0, 16.0)]
        found = predict_by_times(times, GPUS["A100"], "float16", made_up_fit(), batch_size=1)
        return found.high / found.low

    assert width(1.0) > width(0.0)

"""Programs moved by their times: physics by property, and what a fit finds in times made up by its own law."""

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
from trainfare.estimator.gpu.similarity import (
    chip_family,
    collect_chip_facts,
    facts,
    generations_apart,
    gpu_coordinates,
    gpu_similarity,
    wide_gpu_similarity,
)
from trainfare.model.machine import Gpu
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
def test_a_gpu_that_is_faster_by_every_figure_is_never_slower(factor: float, seconds: float, there: str) -> None:
    gpu = replace(GPUS[there], name="nobody measured")
    faster = replace(
        gpu,
        memory_gb_per_second=gpu.memory_gb_per_second * factor,
        fp32_tflops=gpu.fp32_tflops * factor,
        fp16_tensor_tflops=(gpu.fp16_tensor_tflops or 1) * factor,
    )
    fit = replace(made_up_fit(), gpus={})  # of which GPUs either takes after is another matter
    times = [TimedRun(gpu=GPUS["A100"], seconds=seconds, batch_size=32)]
    assert predict_by_times(times, faster, "float16", fit).seconds <= predict_by_times(times, gpu, "float16", fit).seconds * (1 + 1e-6)


@settings(max_examples=25, deadline=None)
@given(factor=st.floats(0.01, 100.0))
def test_a_program_that_takes_twice_as_long_takes_twice_as_long_everywhere(factor: float) -> None:
    times = known(2, "V100", "A100")
    longer = [replace(time, seconds=time.seconds * factor) for time in times]
    here, there = (predict_by_times(t, GPUS["H100"], "float16", made_up_fit()) for t in (times, longer))
    assert there.seconds == pytest.approx(here.seconds * factor, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 8.0))
def test_a_larger_batch_never_takes_less_time(times_larger: float) -> None:
    times = known(2, "V100", "A100")
    small = predict_by_times(times, GPUS["T4"], "float16", replace(made_up_fit(), gpus={}), batch_size=256)
    large = predict_by_times(times, GPUS["T4"], "float16", replace(made_up_fit(), gpus={}), batch_size=256 * times_larger)
    assert large.seconds >= small.seconds * (1 - 1e-6)


def test_a_program_measured_there_is_told_what_was_measured() -> None:
    times = known(3, *MEASURED)
    here = next(time for time in times if time.gpu.name == "RTX 3090")
    assert predict_by_times(times, here.gpu, "float16", made_up_fit()).seconds == pytest.approx(here.seconds, rel=0.05)


def test_an_unmeasured_gpu_is_found_from_the_times_on_others() -> None:
    rows = [row for row in made_up() if row.gpu != "RTX A6000"]
    fit = fit_programs(rows, GPUS)
    for number in range(6):
        truth = known(number, "RTX A6000")[0].seconds
        found = predict_by_times(known(number, *(set(MEASURED) - {"RTX A6000"})), GPUS["RTX A6000"], "float16", fit)
        assert found.seconds == pytest.approx(truth, rel=0.2)
        assert found.low < found.seconds < found.high


def test_more_known_times_narrow_the_interval() -> None:
    one = predict_by_times(known(4, "V100"), GPUS["H100"], "float16", made_up_fit())
    many = predict_by_times(known(4, *MEASURED[:-1]), GPUS["H100"], "float16", made_up_fit())
    assert many.high / many.low < one.high / one.low


def test_a_run_of_another_program_tells_what_the_gpu_loses() -> None:
    others = tuple(name for name in MEASURED if name != "A10")
    fit = fit_programs([row for row in made_up() if row.gpu != "A10"], GPUS)
    runs = [
        ReferenceRun(known=tuple(known(number, *others)), there=known(number, "A10")[0], dtype="float16") for number in (0, 3, 5)
    ]
    after = with_reference_runs(fit, GPUS["A10"], runs)
    truth = np.log(known(2, "A10")[0].seconds)
    errors = [
        abs(np.log(predict_by_times(known(2, *others), GPUS["A10"], "float16", one).seconds) - truth) for one in (fit, after)
    ]
    assert errors[1] < errors[0] / 2
    assert after.gpus["A10"].deviation < 0.12


def test_a_gpu_that_loses_much_reaches_less() -> None:
    fit = made_up_fit()
    assert effective_rates(GPUS["A10"], "float16", fit).bandwidth < 0.95 * effective_rates(GPUS["RTX A6000"], "float16", fit).bandwidth
    assert effective_rates(GPUS["A10"], "float16", fit).deviation < effective_rates(GPUS["T4"], "float16", fit).deviation


def test_an_unmeasured_gpu_takes_after_its_sibling() -> None:
    fit = made_up_fit()
    sibling, a10 = (effective_rates(GPUS[name], "float16", fit) for name in ("A10G", "A10"))
    stranger = effective_rates(replace(GPUS["A10G"], name="x", architecture="other"), "float16", replace(fit, gpus={}))
    assert abs(np.log(sibling.bandwidth / a10.bandwidth)) < abs(np.log(stranger.bandwidth / a10.bandwidth))


def test_a_fit_survives_json() -> None:
    fit = made_up_fit()
    encoded = msgspec.json.encode(fit)
    assert len(encoded) < 30_000
    assert msgspec.json.decode(encoded, type=ProgramsFit) == fit


def test_rows_of_several_or_unknown_gpus_are_passed_over() -> None:
    rows = [replace(made_up()[0], gpus=4), replace(made_up()[0], gpu="of nobody")]
    assert fit_programs(rows, GPUS).gpus == {}
    assert predict_by_times(known(1, "V100"), GPUS["T4"], "float16", fit_programs([], GPUS)).seconds > 0


def test_nothing_known_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one GPU"):
        predict_by_times([], GPUS["T4"], "float16", made_up_fit())


@pytest.mark.parametrize(
    ("name", "chip"),
    [("A100", "Ampere/computing"), ("RTX 3090", "Ampere/graphics"), ("K80", "Kepler/computing")],
)
def test_chips_for_computing_and_for_graphics_differ(name: str, chip: str) -> None:
    assert chip_family(GPUS[name]) == chip


def test_boards_with_one_chip_have_its_rate_whatever_they_are_sold_at() -> None:
    chips = collect_chip_facts(GPUS)
    game, work = (facts(GPUS[name], "float16", chips) for name in ("RTX 4090", "RTX 6000 Ada"))
    assert work[1] - game[1] == pytest.approx(np.log(91.1 / 82.6))
    assert game[2] < work[2]


def test_a_gpu_is_like_itself_and_more_like_its_sibling_than_like_another() -> None:
    chips = collect_chip_facts(GPUS)

    def alike(a: Gpu, b: Gpu) -> float:
        return float(gpu_similarity([gpu_coordinates(a, chips)], [chip_family(a)], [gpu_coordinates(b, chips)], [chip_family(b)])[0, 0])

    assert alike(GPUS["A100"], GPUS["A100"]) == 1
    assert alike(GPUS["A100"], GPUS["A100-PCIe"]) > alike(GPUS["A100"], GPUS["V100"]) > alike(GPUS["A100"], GPUS["K80"])


def test_tensor_cores_that_a_program_in_float32_never_sees_do_not_set_gpus_apart() -> None:
    chips = collect_chip_facts(GPUS)

    def alike(dtype: str) -> float:
        pascal, volta = (gpu_coordinates(GPUS[name], chips, dtype) for name in ("P100", "V100"))
        return float(gpu_similarity([pascal], [chip_family(GPUS["P100"])], [volta], [chip_family(GPUS["V100"])])[0, 0])

    assert alike("float32") > 10 * alike("float16")


def test_of_gpus_that_are_not_alike_the_nearer_one_tells_more() -> None:
    chips = collect_chip_facts(GPUS)
    kepler, pascal, volta = (gpu_coordinates(GPUS[name], chips, "float32") for name in ("K80", "P100", "V100"))
    assert wide_gpu_similarity([pascal], [volta])[0, 0] > 2 * wide_gpu_similarity([pascal], [kepler])[0, 0]


def test_a_program_that_is_odd_on_a_distant_gpu_is_told_by_the_nearer_one() -> None:
    volta = TimedRun(gpu=GPUS["V100"], seconds=0.1, batch_size=32)
    kepler = predict_by_times([volta], GPUS["K80"], "float32", made_up_fit(), batch_size=32).seconds
    plain = predict_by_times([volta], GPUS["P100"], "float32", made_up_fit(), batch_size=32).seconds
    odd = [replace(volta, gpu=GPUS["K80"], seconds=4 * kepler), volta]
    assert predict_by_times(odd, GPUS["P100"], "float32", made_up_fit(), batch_size=32).seconds < 2 * plain


def test_the_less_a_time_grows_with_the_batch_the_less_sure_another_machine_is() -> None:
    def width(of_host: float) -> float:
        times = [TimedRun(gpu=GPUS["V100"], seconds=of_host + 0.01 * b, batch_size=b) for b in (1.0, 4.0, 16.0)]
        found = predict_by_times(times, GPUS["A100"], "float16", made_up_fit(), batch_size=1)
        return found.high / found.low

    assert width(1.0) > width(0.0)


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [("K40", "K80", 0), ("K80", "M60", 1), ("K80", "V100", 3), ("RTX 4090", "H100", 1), ("T4", "A100", 1)],
)
def test_generations_between_gpus(a: str, b: str, apart: float) -> None:
    assert generations_apart(GPUS[a], GPUS[b]) == generations_apart(GPUS[b], GPUS[a]) == apart


def test_an_architecture_that_is_not_listed_stands_by_its_year() -> None:
    strange = replace(GPUS["A100"], architecture="of another make", launch_year=2020)
    assert generations_apart(strange, GPUS["K80"]) == 4
    assert generations_apart(strange, GPUS["T4"]) == 1

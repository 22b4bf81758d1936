"""The end-to-end regression recovers the law of the rows, leaves noise out and works with few rows."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines.stepwise import StepwiseFit, end_to_end_columns, end_to_end_seconds, fit_stepwise
from tests.makers import make_gpu
from trainfare.model.measurement import MeasuredIteration
from trainfare.model.profile import Operation


def make_row(**changed: object) -> MeasuredIteration:
    fields: dict[str, object] = {
        "source": "synthetic",
        "program": "net",
        "family": "nets",
        "gpu": "A",
        "dtype": "float32",
        "batch_size": 32,
        "seconds": 1.0,
    }
    return MeasuredIteration(**{**fields, **changed})  # type: ignore[arg-type] # fields by name, of several types


def made(rows: int, seed: int = 0) -> tuple[dict[str, list[float]], np.ndarray]:
    source = np.random.default_rng(seed)
    columns = {
        "batch": source.uniform(8, 256, rows).tolist(),
        "gflops": source.uniform(2e3, 1e4, rows).tolist(),
        "threads": source.integers(1, 16, rows).astype(float).tolist(),
    }
    return columns, 0.05 + 12 * np.array(columns["batch"]) / np.array(columns["gflops"])


def test_law_of_the_rows_is_recovered() -> None:
    columns, seconds = made(60)
    fit = fit_stepwise(columns, seconds.tolist())
    assert [term.powers for term in fit.terms] == [(("batch", 1), ("gflops", -1))]
    assert fit.terms[0].coefficient == pytest.approx(12)
    assert fit.intercept == pytest.approx(0.05)


def test_fit_extrapolates() -> None:
    columns, seconds = made(60)
    fit = fit_stepwise(columns, seconds.tolist())
    far = fit.predict({"batch": [1024.0], "gflops": [15e3], "threads": [4.0]})
    assert far[0] == pytest.approx(0.05 + 12 * 1024 / 15e3)


@pytest.mark.parametrize("seed", range(5))
def test_noise_gives_few_terms(seed: int) -> None:
    columns, _ = made(200, seed)
    noise = 1 + 0.1 * np.random.default_rng(seed + 100).standard_normal(200)
    assert len(fit_stepwise(columns, noise.tolist(), enter=0.001, remove=0.01).terms) <= 1


def test_term_leaves_when_better_ones_explain_it() -> None:
    """The rows are x1 + x2; their noisy sum enters first and is redundant once both are in."""
    source = np.random.default_rng(3)
    first, second = source.uniform(1, 2, 300), source.uniform(1, 2, 300)
    columns = {
        "both": (first + second + 0.05 * source.standard_normal(300)).tolist(),
        "first": first.tolist(),
        "second": second.tolist(),
    }
    fit = fit_stepwise(columns, (first + second).tolist(), inverse=False, cross=False)
    assert {term.powers[0][0] for term in fit.terms} == {"first", "second"}


def test_constant_column_is_dropped() -> None:
    columns, seconds = made(40)
    fit = fit_stepwise({**columns, "gpus": [1.0] * 40}, seconds.tolist())
    assert all(name != "gpus" for term in fit.terms for name, _ in term.powers)


@given(st.integers(1, 6), st.integers(0, 1000))
def test_few_rows_give_a_finite_answer(rows: int, seed: int) -> None:
    columns, seconds = made(rows, seed)
    answers = fit_stepwise(columns, seconds.tolist()).predict(made(20, seed + 1)[0])
    assert np.isfinite(answers).all()
    assert (answers > 0).all()


def test_fit_survives_json() -> None:
    columns, seconds = made(30)
    fit = fit_stepwise(columns, seconds.tolist())
    assert msgspec.json.decode(msgspec.json.encode(fit), type=StepwiseFit) == fit


def test_each_program_has_its_own_regression() -> None:
    gpus = {"A": make_gpu(name="A", fp32_tflops=5.0), "B": make_gpu(name="B", fp32_tflops=10.0)}
    known = [
        make_row(program=program, gpu=gpu, batch_size=batch, seconds=work * batch / gpus[gpu].fp32_tflops)
        for program, work in (("small", 1.0), ("large", 7.0))
        for gpu in gpus
        for batch in (8, 16, 32, 64)
    ]
    asked = [make_row(program=program, gpu="B", batch_size=128) for program in ("small", "large", "unknown")]
    answers = end_to_end_seconds(known, asked, gpus)
    assert answers[:2] == pytest.approx([12.8, 7 * 12.8])
    assert np.isnan(answers[2])


def test_unknown_program_is_predicted_by_its_work() -> None:
    gpus = {"A": make_gpu(name="A", fp32_tflops=5.0)}

    def row(n: int) -> MeasuredIteration:
        work = Operation(kind="matmul", dtype="float32", flops=n * 1e12, bytes=1e9)
        return make_row(program=f"net {n}", seconds=n / 5, operations=(work,))

    assert end_to_end_seconds([row(n) for n in range(1, 9)], [row(12)], gpus) == pytest.approx([12 / 5])


def test_columns_include_the_work_only_if_every_row_has_it() -> None:
    gpus = {"A": make_gpu(name="A")}
    work = Operation(kind="matmul", dtype="float32", flops=2e9, bytes=1e9, count=3)
    assert end_to_end_columns([make_row(operations=(work,))], gpus)["gflop"] == [6.0]
    assert "gflop" not in end_to_end_columns([make_row(operations=(work,)), make_row()], gpus)

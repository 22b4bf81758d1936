"""The interface to HiGHS: solutions, bounds and refused models."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfare.scheduler.highs import LinearModel, Solver, solve


def make_model(
    usd: list[float],
    rows: list[list[float]],
    row_high: list[float],
    *,
    row_low: list[float] | None = None,
    high: float = np.inf,
    integer: bool = False,
    constant_usd: float = 0.0,
) -> LinearModel:
    table = np.array(rows, dtype=float).reshape(len(rows), len(usd))
    entries = np.nonzero(table)
    return LinearModel(
        usd=np.array(usd, dtype=float),
        low=np.zeros(len(usd)),
        high=np.full(len(usd), high),
        row_low=np.full(len(rows), -np.inf) if row_low is None else np.array(row_low, dtype=float),
        row_high=np.array(row_high, dtype=float),
        rows=entries[0],
        columns=entries[1],
        coefficients=table[entries],
        integer=np.ones(len(usd), dtype=bool) if integer else None,
        constant_usd=constant_usd,
    )


KNAPSACK = make_model([-5, -4, -3], [[2, 3, 1], [4, 1, 2], [3, 4, 2]], [5, 11, 8])


def test_lp_has_value_bound_and_duals() -> None:
    found = solve(KNAPSACK)
    assert found.usd == pytest.approx(-13)
    assert found.bound_usd == pytest.approx(-13)
    assert found.proven
    assert found.duals is not None
    assert found.reduced_usd is not None
    assert found.duals == pytest.approx([-1, 0, -1])
    assert found.duals @ np.array([5, 11, 8]) == pytest.approx(found.usd)  # strong duality


def test_dual_is_the_gain_of_one_more_unit_of_capacity() -> None:
    found = solve(KNAPSACK)
    assert found.duals is not None
    more = solve(replace(KNAPSACK, row_high=np.array([5.01, 11, 8])))
    assert more.usd - found.usd == pytest.approx(0.01 * found.duals[0])


def test_constant_is_part_of_cost_and_bound() -> None:
    for integer in (False, True):
        found = solve(make_model([1.0], [[1.0]], [5.0], row_low=[2.0], integer=integer, constant_usd=7.0))
        assert [found.usd, found.bound_usd] == pytest.approx([9, 9])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_integer_columns_agree_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    usd, weights = rng.integers(-9, 3, 4), rng.integers(1, 6, (2, 4))
    room = rng.integers(4, 15, 2)
    model = make_model(usd.tolist(), weights.tolist(), room.tolist(), high=3, integer=True)
    every = np.stack(np.meshgrid(*[np.arange(4)] * 4), axis=-1).reshape(-1, 4)
    best = min((every[(every @ weights.T <= room).all(axis=1)] @ usd).tolist())
    found = solve(model)
    assert found.usd == pytest.approx(best)
    assert found.bound_usd == pytest.approx(best)
    assert found.values == pytest.approx(np.round(found.values))


def test_same_model_has_same_answer() -> None:
    rng = np.random.default_rng(3)
    model = make_model(
        rng.normal(-5, 1, 30).tolist(), rng.uniform(0, 1, (5, 30)).tolist(), [3.0] * 5, high=1, integer=True
    )
    assert (solve(model).values == solve(model).values).all()


def test_rest_is_optimal_for_fixed_columns() -> None:
    solver = Solver(KNAPSACK)
    solver.solve()
    solver.fix(np.array([1]), np.array([1.0]))
    found = solver.solve()
    fresh = make_model(
        [-5, -4, -3], [[2, 3, 1], [4, 1, 2], [3, 4, 2], [0, 1, 0]], [5, 11, 8, 1], row_low=[-99.0] * 3 + [1.0]
    )
    assert found.values[1] == pytest.approx(1)
    assert found.usd == pytest.approx(solve(fresh).usd)


def test_bounds_and_costs_can_be_changed_and_restored() -> None:
    solver = Solver(KNAPSACK)
    first = solver.solve()
    solver.set_costs(np.array([0, 2]), np.array([5.0, 3.0]))
    solver.set_bounds(np.array([1]), np.array([0.0]), np.array([0.5]))
    assert solver.solve().usd == pytest.approx(-2)
    solver.set_costs(np.array([0, 2]), np.array([-5.0, -3.0]))
    solver.set_bounds(np.array([1]), np.array([0.0]), np.array([np.inf]))
    assert solver.solve().usd == pytest.approx(first.usd)


def test_time_limit_returns_the_start_with_a_bound() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(20, 99, (15, 60))
    model = make_model(
        (-weights.sum(axis=0) - rng.integers(0, 9, 60)).tolist(),
        weights.tolist(),
        (weights.sum(axis=1) // 2).tolist(),
        high=1,
        integer=True,
    )
    interrupted = solve(model, seconds=0.2, start=np.zeros(60))
    assert not interrupted.proven
    assert interrupted.bound_usd < interrupted.usd <= 0


def test_optimal_start_is_kept() -> None:
    model = replace(KNAPSACK, integer=np.ones(3, dtype=bool))
    best = solve(model)
    assert solve(model, start=best.values).usd == pytest.approx(best.usd)


def test_empty_model_costs_nothing() -> None:
    found = solve(make_model([], [], []))
    assert (found.usd, found.bound_usd, len(found.values)) == (0, 0, 0)


@pytest.mark.parametrize("integer", [False, True], ids=["lp", "integer"])
def test_models_without_optimum_are_refused(integer: bool) -> None:
    with pytest.raises(ValueError, match=r"[Ii]nfeasible"):
        solve(make_model([1.0], [[1.0]], [5.0], row_low=[4.0], high=1, integer=integer))
    with pytest.raises(ValueError, match=r"[Uu]nbounded"):
        solve(make_model([-1.0], [[1.0]], [np.inf], integer=integer))


def test_invalid_models_are_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths"):
        replace(KNAPSACK, low=np.zeros(2))
    with pytest.raises(ValueError, match="outside"):
        replace(KNAPSACK, columns=KNAPSACK.columns + 1)
    with pytest.raises(ValueError, match="not a number"):
        replace(KNAPSACK, usd=np.array([1.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="same row and column"):
        solve(replace(KNAPSACK, rows=np.zeros_like(KNAPSACK.rows), columns=np.zeros_like(KNAPSACK.columns)))


def test_importing_the_interface_does_not_load_scipy() -> None:
    code = "import sys, trainfare.scheduler.highs; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

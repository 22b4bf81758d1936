"""The choice of an EC2 machine type from a profile on one of them: `cnn_on_ec2` at dated prices.

For each program, image side and batch, and for each type on which it was profiled, the choice is the type with the
lowest predicted cost (or time) of a step: measured on that type, predicted on the others, with the program's family
left out of the fit. `deadline.py` defines the cost of a deadline.

On-demand prices are those of one day; spot prices those of four days, half a year apart. Baselines: always the same
type (the best and the worst of them), and the types chosen with the ratio of peaks or the constant ratio.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.choice.deadline import IN_TIME, RELIABLY, Bill, take_best, take_in_time, take_reliable
from benchmarks.accuracy.ec2_rows import predicted_rows
from benchmarks.accuracy.judged import Judged
from benchmarks.accuracy.other_vm import baseline_answers, by_constant_ratio, by_peak
from trainfare.measurements.cnn_on_ec2 import TABLE
from trainfare.measurements.prices import PATH, DayPrice, prices_on

KEY = f"choice/{TABLE}"
ON_DEMAND_DAY = "2023-07-15"
SPOT_DAYS = ("2023-01-15", "2023-07-15", "2024-01-15", "2024-07-15")

Seconds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One step profiled on one type: the true seconds by type, and those of each predictor."""

    truth: Seconds
    predicted: Mapping[str, Seconds]
    high: Seconds
    """Upper ends of our intervals; that of the measured type is the measurement."""


def judge(fit: Path, test: Path | None) -> Iterator[Judged]:
    cases = _cases(fit, test)
    if not cases:
        return
    folder = test if test is not None and (test / PATH).is_file() else fit
    yield _judged("time", cases, [dict.fromkeys(_types(cases), 1.0)], take_best, "seconds of a step")
    on_demand = _usable([_on_demand(prices_on(folder, ON_DEMAND_DAY))], cases)
    spot = _usable([_spot(prices_on(folder, day)) for day in SPOT_DAYS], cases)
    if on_demand:
        yield _judged("cost-on-demand", cases, on_demand, take_best, f"prices of {ON_DEMAND_DAY}")
        yield _judged("deadline", cases, on_demand, take_in_time, IN_TIME)
        yield _judged("deadline/surely", cases, on_demand, take_reliable, RELIABLY)
    if spot:
        yield _judged("cost-spot", cases, spot, take_best, f"prices of {len(spot)} days: {', '.join(SPOT_DAYS)}")


def _cases(fit: Path, test: Path | None) -> list[Case]:
    rows, answers = predicted_rows(fit, test, "family")
    simple = baseline_answers(fit, test, "family", {"peak FP32": by_peak, "constant ratio": by_constant_ratio})
    ways = {"ours": np.array([answer.value for answer in answers]), **simple}
    by_profile: dict[int, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        by_profile[id(row.profile)].append(i)
    cases = []
    for own in by_profile.values():
        here = rows[own[0]].profile
        measured = {here.vm_type: here.seconds}
        truth = {**measured, **{rows[i].to: rows[i].seconds for i in own}}
        predicted = {way: {**measured, **{rows[i].to: float(of[i]) for i in own}} for way, of in ways.items()}
        complete = {way: of for way, of in predicted.items() if np.isfinite(list(of.values())).all()}
        cases.append(Case(truth, complete, {rows[i].to: answers[i].high for i in own}))
    return cases


def _judged(
    part: str, cases: Sequence[Case], prices: Sequence[Mapping[str, float]], bill: Bill[str], note: str
) -> Judged:
    best: list[float] = []
    paid: dict[str, list[float]] = defaultdict(list)
    fixed: dict[str, list[float]] = defaultdict(list)
    for price in prices:
        for case in cases:
            truth = {name: seconds for name, seconds in case.truth.items() if name in price}
            for way in ("ours", "peak FP32", "constant ratio"):
                predicted = case.predicted.get(way, {})
                high = case.high if way == "ours" else {}
                paid[way].append(bill({n: predicted[n] for n in truth}, high, truth, price) if predicted else np.nan)
            for name in _types(cases):
                fixed[name].append(bill({name: 0.0}, {}, truth, price) if name in truth else np.nan)
            best.append(bill(truth, {}, truth, price))
    mean = {name: float(np.nanmean(np.array(costs) / best)) for name, costs in fixed.items()}
    ends = dict.fromkeys((min(mean, key=lambda n: mean[n]), max(mean, key=lambda n: mean[n])))
    baselines = {"peak FP32": paid["peak FP32"], "constant ratio": paid["constant ratio"]}
    baselines |= {f"always {name}": fixed[name] for name in ends}
    return Judged.of(f"{KEY}/{part}", best, paid["ours"], baselines=baselines, regret=True, note=note)


def _types(cases: Sequence[Case]) -> list[str]:
    return sorted({name for case in cases for name in case.truth})


def _on_demand(prices: Mapping[str, DayPrice]) -> dict[str, float]:
    return {name: price.on_demand for name, price in prices.items() if price.on_demand is not None}


def _spot(prices: Mapping[str, DayPrice]) -> dict[str, float]:
    return {name: price.spot for name, price in prices.items() if price.spot is not None}


def _usable(days: Sequence[Mapping[str, float]], cases: Sequence[Case]) -> list[Mapping[str, float]]:
    """The days on which every measured type had a price."""
    return [day for day in days if all(name in day for name in _types(cases))]

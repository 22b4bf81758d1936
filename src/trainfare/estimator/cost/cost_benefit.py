"""The cost-benefit of a more expensive machine: time, cost, accuracy and speed-up until the model is stable.

    speed-up = time on the baseline / time here, at one batch size;  cost = price × time          (Malta 2019)

A machine pays off where its speed-up is larger than the ratio of the prices: then it is both faster and cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.estimator.cost.relative import speedup
from trainfare.estimator.epochs.two_epochs import cost_usd
from trainfare.model.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class StableRun:
    """A run on one machine at one batch size, up to its stabilisation point."""

    machine: str
    batch_size: int
    iterations: int
    seconds: Interval
    usd_per_hour: float
    accuracy: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBenefit:
    """A run compared with the same batch size on the baseline."""

    run: StableRun
    usd: Interval
    speedup: Interval
    cost_ratio: float
    """Its cost over the cost of the baseline; below 1 it is cheaper."""

    @property
    def pays(self) -> bool:
        return self.cost_ratio < 1


def cost_benefit(runs: Sequence[StableRun], *, baseline: str) -> tuple[CostBenefit, ...]:
    """The comparison of each run, in their order; `baseline` is a machine that has every batch size."""
    baseline_runs = {run.batch_size: run for run in runs if run.machine == baseline}
    if missing := sorted({run.batch_size for run in runs} - set(baseline_runs)):
        raise ValueError(f"{baseline} was not run at batch size {', '.join(map(str, missing))}")
    results = []
    for run in runs:
        base = baseline_runs[run.batch_size]
        usd = cost_usd([run.seconds], usd_per_hour=run.usd_per_hour)
        base_usd = cost_usd([base.seconds], usd_per_hour=base.usd_per_hour)
        results.append(
            CostBenefit(
                run=run,
                usd=usd,
                speedup=Interval.exactly(1.0) if run is base else speedup(base.seconds, run.seconds),
                cost_ratio=usd.value / base_usd.value,
            )
        )
    return tuple(results)

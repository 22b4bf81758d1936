"""Runs one policy on one instance, and many such cases in parallel."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t as student

from trainfare.measurements.instances import read_instance
from trainfare.model.queue import Delays, Instance
from trainfare.scheduler.bounds.lower_bound import lower_bound
from trainfare.scheduler.evaluate import evaluate
from trainfare.scheduler.legal import schedule_violations
from trainfare.scheduler.policies.registry import load_policy
from trainfare.scheduler.simulation.generate import QueueSetting, generate
from trainfare.scheduler.simulation.simulate import simulate

Row = dict[str, float | int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One simulation: an instance that is given, read from a folder or generated; nodes, a policy, delays."""

    setting: str
    """Its name in the table."""
    policy: str
    nodes: int
    seed: int = 0
    folder: str | None = None
    generated: QueueSetting | None = None
    given: Instance | None = None
    delays: Delays = field(default_factory=Delays)
    tick_seconds: float | None = None

    @property
    def key(self) -> str:
        return f"{self.setting}|{self.nodes}|{self.seed}|{self.policy}"


def build_instance(case: Case) -> Instance:
    if case.given is not None:
        return case.given
    if case.folder is not None:
        return read_instance(Path(case.folder)).instance
    if case.generated is None:
        raise ValueError(f"{case.key} has no instance, no folder and no setting")
    return generate(case.generated, case.seed)


def run_case(case: Case) -> Row:
    """The outcome of a case, whose schedule is checked to be legal, with the lower bound of its instance."""
    instance = build_instance(case)
    schedule = simulate(
        instance,
        load_policy(case.policy),
        name=case.policy,
        nodes=case.nodes,
        delays=case.delays,
        tick_seconds=case.tick_seconds,
        seed=case.seed,
        clock=time.perf_counter,
    )
    violations = schedule_violations(schedule)
    if violations:
        raise ValueError(f"{case.key}: {violations[0]}")
    outcome = asdict(evaluate(schedule))
    outcome["moves"] = outcome.pop("migrations")  # the name in files of earlier results
    return {
        "key": case.key,
        "setting": case.setting,
        "nodes": case.nodes,
        "seed": case.seed,
        **outcome,
        "bound_usd": _bound_usd(_without_predictions(instance), case.nodes),
    }


def _without_predictions(instance: Instance) -> Instance:
    """The queue with true times only: the bound does not depend on predictions."""
    times = zip(instance.jobs, instance.actual_seconds, strict=True)
    jobs = tuple(replace(job, seconds=seconds, log_error=0.0) for job, seconds in times)
    return replace(instance, jobs=jobs, true_seconds=())


@lru_cache(maxsize=4)
def _bound_usd(instance: Instance, nodes: int) -> float:
    """The lower bound, cached: several policies run on one queue, and the bound takes longer than most of them."""
    return lower_bound(instance, nodes).usd


def run_all(cases: Iterable[Case], *, processes: int, results: Path | None) -> list[Row]:
    """The rows of all cases, in their order; cases that are in `results` from an interrupted run are not repeated."""
    by_key = {case.key: case for case in cases}
    done = {row["key"]: row for row in _read_rows(results)} if results else {}
    left = [case for key, case in by_key.items() if key not in done]
    started = time.monotonic()
    # Not forks of this process, which may have threads.
    with ProcessPoolExecutor(processes, mp_context=get_context("forkserver")) as pool:
        for number, future in enumerate(as_completed([pool.submit(run_case, case) for case in left]), 1):
            row = future.result()
            done[row["key"]] = row
            if results:
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"  {number}/{len(left)} {row['key']} {time.monotonic() - started:.0f} s", file=sys.stderr)
    return [done[key] for key in by_key]


def _read_rows(file: Path) -> Iterator[Row]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def mean_and_half(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % confidence interval by Student's t; infinite for a single value."""
    if len(values) < 2:
        return values[0], float("inf")
    half = float(student.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return fmean(values), half

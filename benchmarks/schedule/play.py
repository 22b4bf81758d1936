"""One policy on one instance, and many of them side by side on the cores there are."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
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

Kept = dict[str, float | int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """What is played: an instance that is given, stands in a folder or is generated; nodes, a policy, delays."""

    setting: str
    """What the table calls it."""
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


def instance_of(game: Game) -> Instance:
    if game.given is not None:
        return game.given
    if game.folder is not None:
        return read_instance(Path(game.folder)).instance
    if game.generated is None:
        raise ValueError(f"{game.key} has no instance, no folder and no setting")
    return generate(game.generated, game.seed)


def played(game: Game) -> Kept:
    """SimulationReport, checked to be legal, costed by the one evaluator, beside the lower bound of its instance."""
    instance = instance_of(game)
    schedule = simulate(
        instance,
        policy(game.policy),
        name=game.policy,
        nodes=game.nodes,
        delays=game.delays,
        tick_seconds=game.tick_seconds,
        seed=game.seed,
        clock=time.perf_counter,
    )
    wrong = schedule_violations(schedule)
    if wrong:
        raise ValueError(f"{game.key}: {wrong[0]}")
    return {
        "key": game.key,
        "setting": game.setting,
        "nodes": game.nodes,
        "seed": game.seed,
        **asdict(evaluate(schedule)),
        "bound_usd": _bound_usd(_as_it_is(instance), game.nodes),
    }


def _as_it_is(instance: Instance) -> Instance:
    """Without predictions, of which the bound knows nothing: whoever is told what, it is the same."""
    true = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    jobs = tuple(replace(job, seconds=own, log_error=0.0) for job, own in zip(instance.jobs, true, strict=True))
    return replace(instance, jobs=jobs, true_seconds=())


@lru_cache(maxsize=4)
def _bound_usd(instance: Instance, nodes: int) -> float:
    """Policies are played on one queue after the other, and a bound takes longer than many a policy."""
    return lower_bound(instance, nodes).usd


def play_all(games: Iterable[Game], *, processes: int, keep: Path | None) -> list[Kept]:
    """Every game once, in their order; what `keep` has of an earlier, interrupted run is not played again."""
    wanted = {game.key: game for game in games}
    done = {row["key"]: row for row in _kept(keep)} if keep else {}
    left = [game for key, game in wanted.items() if key not in done]
    started = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for number, waiting in enumerate(as_completed([pool.submit(played, game) for game in left]), 1):
            row = waiting.result()
            done[row["key"]] = row
            if keep:
                with keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"  {number}/{len(left)} {row['key']} {time.monotonic() - started:.0f} s", file=sys.stderr)
    return [done[key] for key in wanted]


def _kept(file: Path) -> Iterator[Kept]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def mean_and_half(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % confidence interval by Student's t; infinite for a single value."""
    if len(values) < 2:
        return values[0], float("inf")
    half = float(student.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return fmean(values), half

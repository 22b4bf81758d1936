"""Runs on spot with a deadline, through the real supervisor, on public availability traces.

    python -m benchmarks.spot_runs --data DIR --prices FILE [--starts N] [--hours 6,12] [--way WAY] [--json]

DIR and FILE are those of `benchmarks.spot_replay`, which replays policies alone. Here every run is carried out by the
product: `Supervisor.step` with `runner/decide.py` and `runner/recovery.py`, the life, the checkpoints that come home,
the history (in memory) and the receipt. Simulated are the clock, the provider, the agent and the program
(`machines.py`): a start of five minutes, iterations of a minute, a checkpoint every 15 minutes, transfers that take no
time.

The runs are in February 2023, in nine zones of three regions; each zone is an offer at its price, and is in turn the
one that the plan chose. Nothing is fitted to those weeks: the losses that the plan predicts, and its promise, are from
October 2022. The promise is that of `recommend`: the expected cost on spot in one zone with a change to on demand at
the last safe moment, and no deadline missed. A run that does not mind its deadline is given up a tenth after it.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import fmean

from benchmarks.spot import read_traces
from benchmarks.spot_replay import FITTED_ON, Zone, begins, read_replay_zones
from benchmarks.spot_runs.machines import Availability, Clock, Program, TraceDoor
from benchmarks.spot_runs.rules import next_by_price, same_zone
from trainfare.app.running.recovery import Alternatives
from trainfare.app.running.supervise import Supervisor
from trainfare.estimator.spot.deadline_risk import fallback_outcome
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.lease import run_lease_name
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Candidate, Market, Offer
from trainfare.model.program import Program as TrainingProgram
from trainfare.model.run import Fact, Run, RunLimits
from trainfare.model.spot import Availability as Rates
from trainfare.model.spot import SpotTraining, pool_histories
from trainfare.runner.decide import Wait
from trainfare.runner.life import Life, life_of
from trainfare.runner.receipt import receipt_of
from trainfare.runner.recovery import Onward, Situation, onward
from trainfare.store.history import History
from trainfare.store.memory import MemoryHistory

STEP_SECONDS = 60.0
"""The pause between two looks of the supervisor."""
SLACKS = (0.25, 0.5)
NOTICE_SECONDS = 120.0
LONGEST_DEADLINES = 1.1
"""A run that does not mind its deadline is given up after so many of them."""
START_SECONDS = 300.0
CHECKPOINT_SECONDS = 900.0
V100 = Gpu(
    name="V100",
    vendor="nvidia",
    architecture="Volta",
    launch_year=2017,
    memory_gib=16.0,
    memory_gb_per_second=900.0,
    fp32_tflops=15.7,
    fp16_tensor_tflops=125.0,
    interconnect="PCIe",
    interconnect_gb_per_second=15.75,
)
P3 = VmType(provider="aws", name="p3.2xlarge", gpu=V100, gpus=1, vcpus=8.0, memory_gib=61.0)

Rule = Callable[[Run, Life, Situation], Onward | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    hours: float
    slack: float

    @property
    def deadline_seconds(self) -> float:
        return START_SECONDS + 3600.0 * self.hours * (1 + self.slack)

    @property
    def on_demand_seconds(self) -> float:
        return START_SECONDS + 3600.0 * self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to run: the zones that may be used, on demand or not, and the rule."""

    rule: Rule
    other_zones: bool = False
    region_only: bool = False
    """Other zones are those of the same region."""
    on_demand: bool = False
    minds_deadline: bool = False
    starts_on_demand: bool = False
    notice_seconds: float = 0.0


WAYS: dict[str, Way] = {
    "on demand": Way(rule=onward, on_demand=True, starts_on_demand=True, minds_deadline=True),
    "spot, one zone": Way(rule=same_zone),
    "spot, next zone by price": Way(rule=next_by_price, other_zones=True),
    "spot, next zone in region": Way(rule=next_by_price, other_zones=True, region_only=True),
    "ours, one zone": Way(rule=onward, on_demand=True, minds_deadline=True),
    "ours, one region": Way(rule=onward, other_zones=True, region_only=True, on_demand=True, minds_deadline=True),
    "ours": Way(rule=onward, other_zones=True, on_demand=True, minds_deadline=True),
    "ours, with notice": Way(
        rule=onward, other_zones=True, on_demand=True, minds_deadline=True, notice_seconds=NOTICE_SECONDS
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One run."""

    way: str
    zone: str
    hours: float
    slack: float
    cost: float
    """Relative to on demand from the beginning."""
    usd: float
    late: bool
    lost_hours: float
    reclaims: int
    used_on_demand: bool
    attempts: int
    outcome: str
    steps: int


def estimate_on(candidate: Candidate, job: Job, losses_per_hour: float) -> Estimate:
    """The prediction of the job: right, but for interruptions."""
    work = 3600.0 * job.hours
    seconds = START_SECONDS + work
    program = Program(iterations=1)
    spot = candidate.offer.market == "spot"
    return Estimate(
        candidate=candidate,
        profile_id="replayed",
        epochs=1,
        basis="measured",
        iteration_seconds=Interval.exactly(program.iteration_seconds),
        phases=(
            Phase(name="boot", seconds=Interval.exactly(program.boot_seconds)),
            Phase(name="initialisation", seconds=Interval.exactly(program.init_seconds)),
            Phase(name="steady iterations", seconds=Interval.exactly(work)),
        ),
        seconds=Interval.exactly(seconds),
        usd=Interval.exactly(candidate.usd_per_hour * seconds / 3600),
        interruptions=Interval.exactly(losses_per_hour * seconds / 3600) if spot else None,
        checkpoint_every_seconds=CHECKPOINT_SECONDS,
        iterations=round(work / program.iteration_seconds),
    )


def candidate_in(region: str, market: Market, usd_per_hour: float) -> Candidate:
    offer = Offer(
        vm_type=P3,
        region=region,
        market=market,
        usd_per_hour=usd_per_hour,
        seen_on=date(2022, 11, 3),
        source="skypilot-catalog",
    )
    return Candidate(offer=offer, nodes=1, batch_size=None)


def carry_out(
    way: Way,
    job: Job,
    home: Zone,
    zones: Sequence[Zone],
    begin: float,
    *,
    losses_per_hour: float,
    folder: Path,
    budget_usd: float | None = None,
    history: History | None = None,
) -> tuple[Carried, tuple[Fact, ...]]:
    """One run from its start to its end, at `begin` seconds after the first slot of the traces."""
    (folder / "project").mkdir()
    (folder / "project" / "train.py").write_text("")
    origin = datetime.combine(date(2023, 2, 15), datetime.min.time(), tzinfo=UTC).timestamp()
    clock = Clock(origin + begin)
    program = replace(
        Program(iterations=round(3600 * job.hours / Program(iterations=1).iteration_seconds)),
        notice_seconds=way.notice_seconds,
    )
    door = TraceDoor(
        clock=clock,
        program=program,
        zones={zone.name: Availability(begins=origin, gap_seconds=zone.gap_seconds, seen=zone.seen) for zone in zones},
    )
    steady = candidate_in(home.name[:-1], "on_demand", home.on_demand)
    spot = {zone.name: candidate_in(zone.name, "spot", zone.spot) for zone in zones}
    first = steady if way.starts_on_demand else spot[home.name]
    near = [zone for zone in zones if not way.region_only or zone.name[:-1] == home.name[:-1]]
    others = [spot[zone.name] for zone in near if way.other_zones and zone.name != home.name]
    others += [steady] if way.on_demand and first != steady else []
    now = clock()
    deadline = now + timedelta(seconds=job.deadline_seconds)
    run = Run(
        id=f"r{round(begin)}",
        made_at=now,
        owner="a replay",
        program=TrainingProgram(command=("python", "train.py"), directory=str(folder / "project")),
        candidate=first,
        results_directory=str(folder / "results"),
        estimate=estimate_on(first, job, losses_per_hour),
        limits=RunLimits(deadline=deadline if way.minds_deadline else None, budget_usd=budget_usd),
        resume_flag="auto",
        install="none",
    )
    history = history or MemoryHistory()
    history.runs.add(run)
    lease = history.leases.take(run_lease_name(run.id), holder="a replay", seconds=1e9, now=now)
    assert lease is not None
    supervisor = Supervisor(
        history=history,
        open_door=lambda _key: door,
        run=run,
        lease=lease,
        folder=folder / "run",
        lease_seconds=1e9,
        alternatives=Alternatives(estimates=tuple(estimate_on(each, job, losses_per_hour) for each in others)),
        rule=way.rule,
        clock=clock,
    )
    steps = _attend(supervisor, clock, give_up=clock.seconds + LONGEST_DEADLINES * job.deadline_seconds)
    facts = history.facts.of(run.id)
    receipt, life = receipt_of(run, facts, billing=supervisor.billing, now=clock()), life_of(facts)
    ended = next((fact.seen_at for fact in reversed(facts) if fact.kind == "program ended"), clock())
    markets = {fact.candidate.offer.market for fact in facts if fact.kind == "launch intended" and fact.candidate}
    usd = receipt.total.paid_usd
    return Carried(
        way="",
        zone=home.name,
        hours=job.hours,
        slack=job.slack,
        cost=usd / (home.on_demand * job.on_demand_seconds / 3600),
        usd=usd,
        late=life.outcome != "succeeded" or ended > deadline,
        lost_hours=receipt.lost_seconds / 3600,
        reclaims=receipt.reclaims,
        used_on_demand="on_demand" in markets,
        attempts=receipt.attempts,
        outcome=life.outcome or "unfinished",
        steps=steps,
    ), facts


def _attend(supervisor: Supervisor, clock: Clock, *, give_up: float) -> int:
    """Step until the run has ended; the clock moves while there is nothing to do."""
    before: object = None
    steps = 0
    while clock.seconds < give_up:
        action = supervisor.step()
        steps += 1
        if isinstance(action, Fact) and action.kind == "run ended":
            break
        if isinstance(action, Wait) or (action == before and not isinstance(action, Fact)):
            clock.seconds += STEP_SECONDS
        before = action
    return steps


def promised_usd(job: Job, zone: Zone, rates: Sequence[Rates]) -> float:
    """The expected cost that a plan states for spot in one zone, with a change to on demand in time."""
    training = SpotTraining(
        work_seconds=3600.0 * job.hours,
        start_seconds=START_SECONDS,
        checkpoint_every_seconds=CHECKPOINT_SECONDS,
        deadline_seconds=job.deadline_seconds,
        spot_usd_per_hour=zone.spot,
        on_demand_usd_per_hour=zone.on_demand,
    )
    weights = [each.weight for each in rates]
    costs = [fallback_outcome(training, each, slots=150).usd for each in rates]
    return sum(w * usd for w, usd in zip(weights, costs, strict=True)) / sum(weights)


def replay(
    traces: Path, prices: Path, *, hours: Sequence[float], starts: int, ways: Sequence[str]
) -> Iterator[tuple[Carried, float]]:
    """Every run, and what a plan would have promised for it."""
    zones = read_replay_zones(read_traces(traces), prices)
    fitted = [zone for zone in zones if zone.campaign == FITTED_ON and zone.machine == "1 x V100"]
    pooled = pool_histories([zone.history(0, None) for zone in fitted], FITTED_ON).availability()
    rates = [zone.history(0, None).availability(prior=pooled) for zone in fitted]
    judged = [zone for zone in zones if zone.campaign != FITTED_ON]
    for job in (Job(hours=each, slack=slack) for each in hours for slack in SLACKS):
        for home in judged:
            training = SpotTraining(
                work_seconds=3600.0 * job.hours,
                start_seconds=START_SECONDS,
                checkpoint_every_seconds=CHECKPOINT_SECONDS,
                deadline_seconds=LONGEST_DEADLINES * job.deadline_seconds,
                spot_usd_per_hour=home.spot,
                on_demand_usd_per_hour=home.on_demand,
            )
            promised = promised_usd(job, home, rates) / (home.on_demand * job.on_demand_seconds / 3600)
            for slot in list(begins(home, training, starts * len(judged)))[judged.index(home) :: len(judged)]:
                for name in ways:
                    way = WAYS[name]
                    if way.starts_on_demand and home is not judged[0]:
                        continue  # it is the same everywhere
                    with tempfile.TemporaryDirectory(prefix="trainfare-spot-") as folder:
                        found, _ = carry_out(
                            way,
                            job,
                            home,
                            judged,
                            slot * home.gap_seconds,
                            losses_per_hour=1 / pooled.stay_hours,
                            folder=Path(folder),
                        )
                    yield replace(found, way=name), promised


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of traces")
    parser.add_argument("--prices", type=Path, required=True, metavar="FILE", help="daily prices, csv.gz")
    parser.add_argument("--starts", type=int, default=2, help="start times of each job in each zone")
    parser.add_argument("--hours", default="6,12", help="hours of work of the jobs")
    parser.add_argument("--way", choices=list(WAYS), action="append", help="only this way (repeatable)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not any(options.data.glob("*/*.json")):
        parser.error(f"{options.data} has no traces: it is a copy of skypilot-org/spot-traces")
    began = time.monotonic()
    rows: list[tuple[Carried, float]] = []
    hours = [float(word) for word in options.hours.split(",")]
    ways = options.way or list(WAYS)
    for row in replay(options.data, options.prices, hours=hours, starts=options.starts, ways=ways):
        rows.append(row)
        print(f"\r{len(rows)} runs, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.json:
        print(json.dumps([{**asdict(run), "promised": promised} for run, promised in rows]))
        return
    print_table("all", rows)
    for length, slack in sorted({(run.hours, run.slack) for run, _ in rows}):
        group = [row for row in rows if (row[0].hours, row[0].slack) == (length, slack)]
        print_table(f"{length:g} h, slack {slack:.0%}", group)


def print_table(title: str, rows: Sequence[tuple[Carried, float]]) -> None:
    names = ("runs", "cost", "highest", "late", "lost h", "reclaims", "attempts", "on demand", "promised")
    print(f"\n{title:28}" + "".join(f"{name:>10}" for name in names))
    for way in WAYS:
        runs = [(run, promised) for run, promised in rows if run.way == way]
        if not runs:
            continue
        found = [run for run, _ in runs]
        cells = (
            f"{len(found)}",
            f"{fmean(run.cost for run in found):.3f}",
            f"{max(run.cost for run in found):.2f}",
            f"{fmean(run.late for run in found):.1%}",
            f"{fmean(run.lost_hours for run in found):.2f}",
            f"{fmean(run.reclaims for run in found):.1f}",
            f"{fmean(run.attempts for run in found):.1f}",
            f"{fmean(run.used_on_demand for run in found):.0%}",
            f"{fmean(promised for _, promised in runs):.3f}" if way.startswith("ours") else "",
        )
        print(f"{way:28}" + "".join(f"{cell:>10}" for cell in cells))


if __name__ == "__main__":
    main()

"""Kills the supervisor of runs at every labelled point, and tries what else can go wrong; counts what is left.

    python -m benchmarks.faults [--times 20] [--ways killed,rivals,woken] [--label LABEL] [--fault FAULT] [--json]
    scripts/postgres python -m benchmarks.faults --postgres --times 5 --fault none

**Kills.** The provider is the shipped fake: it lists machines late and fails one call in five, half of them after they
took effect. Each run is disturbed once at one label, in one of the three ways of `kills.py`; another process then looks
after it until it has ended, and the reaper passes twice. Most of a kill is waiting, so several are made at a time.

**Faults.** Each is one run of a training that saves, see `disturbances.py`, and `doors.py` for those of Slurm and
SkyPilot (`--times 0 --fault doors`). Hosts are namespaces with a real sshd; without root these rows are left out.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial

from benchmarks.faults.disturbances import FAULTS as RUN_FAULTS
from benchmarks.faults.doors import DOOR_FAULTS
from benchmarks.faults.kills import LIVES, Count, Way, kill_once
from benchmarks.faults.places import POSTGRES
from trainfare.app.running import supervise
from trainfare.clouds import driver

WAYS: tuple[Way, ...] = ("killed", "rivals", "woken")
AT_A_TIME = 5
FAULTS = {**RUN_FAULTS, **DOOR_FAULTS}
DOORS = "doors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="runs per label and way; 0 leaves the kills out")
    parser.add_argument("--ways", default="killed", help="killed, rivals and woken, separated by commas")
    parser.add_argument("--label", help="only this label")
    parser.add_argument("--postgres", action="store_true", help="the store is on the server of scripts/postgres")
    parser.add_argument("--first-seed", type=int, default=0, help="the seed of the first run of each label")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no kill is started after this time")
    parser.add_argument("--at-a-time", type=int, default=AT_A_TIME)
    parser.add_argument("--fault", choices=[*FAULTS, DOORS, "none"], help="only this fault, those of doors, or none")
    parser.add_argument("--json", action="store_true", help="print a record instead of tables")
    arguments = parser.parse_args()
    if arguments.postgres and POSTGRES not in os.environ:
        parser.error(f"{POSTGRES} names no database: run it through scripts/postgres")
    driver.AgentJob = partial(driver.AgentJob, heartbeat_seconds=0.3)  # type: ignore[misc, assignment] # sooner than every 5 s
    supervise.SILENT_SECONDS = 2.0
    ways = [way for way in WAYS if way in arguments.ways.split(",")]
    began = time.monotonic()
    counts = _kills(arguments, ways) if arguments.times else {}
    seconds = time.monotonic() - began
    if not arguments.json:
        _print_counts(counts, seconds)
    chosen = list(DOOR_FAULTS if arguments.fault == DOORS else [arguments.fault] if arguments.fault else FAULTS)
    verdicts = _faults([name for name in chosen if name in FAULTS], quiet=arguments.json)
    if arguments.json:
        rows = [{"life": life, "label": label, "way": way, **asdict(n)} for (life, label, way), n in counts.items()]
        print(json.dumps({"seconds": seconds, "postgres": arguments.postgres, "kills": rows, "faults": verdicts}))
    sys.exit(any(count.wrong for count in counts.values()) or not all(each["is_right"] for each in verdicts))


Kill = tuple[str, str, Way]
"""A life, a label and a way."""


def _kills(arguments: argparse.Namespace, ways: list[Way]) -> dict[Kill, Count]:
    wanted: list[Kill] = [
        (name, label, way)
        for name, life in LIVES.items()
        for label in life.labels
        for way in ways
        if way in life.ways and arguments.label in (None, label)
    ]
    found: dict[Kill, Count] = {kill: Count() for kill in wanted}
    wrong, give_up = 0, time.monotonic() + 60 * arguments.minutes
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(arguments.at_a_time, mp_context=context) as pool:
        started: dict[Future[Count], tuple[Kill, int]] = {
            pool.submit(kill_once, *kill, seed, postgres=arguments.postgres): (kill, seed)
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.times)
            for kill in wanted
        }
        done = 0
        for future in as_completed(started):
            if future.cancelled():
                continue
            kill, seed = started[future]
            count, done = future.result(), done + 1
            found[kill] += count
            if count.wrong:
                wrong += 1
                print(f"\n{kill} with seed {seed}: {count}", file=sys.stderr)
            print(f"\r{done} of {len(started)}, {wrong} wrong", end="", file=sys.stderr, flush=True)
            if time.monotonic() > give_up:
                for waiting in started:
                    waiting.cancel()
    print(file=sys.stderr)
    return found


def _print_counts(counts: dict[Kill, Count], seconds: float) -> None:
    names = list(Count.__dataclass_fields__)
    print(f"{'life, label':44}{'way':8}" + "".join(f"{name.replace('_', ' '):>17}" for name in names))
    total = Count()
    for (life, label, way), count in counts.items():
        total += count
        print(f"{life + ', ' + label:44}{way:8}" + "".join(f"{getattr(count, name):17}" for name in names))
    print(f"{'in all':44}{f'{seconds:.0f} s':8}" + "".join(f"{getattr(total, name):17}" for name in names), flush=True)


def _faults(names: list[str], *, quiet: bool) -> list[dict[str, object]]:
    verdicts: list[dict[str, object]] = []
    for name in names:
        began = time.monotonic()
        is_right, text = FAULTS[name]()
        seconds = time.monotonic() - began
        verdicts.append({"fault": name, "is_right": is_right, "outcome": text, "seconds": seconds})
        if not quiet:
            print(f"{name:28}{'' if is_right else 'WRONG: '}{text} ({seconds:.0f} s)", flush=True)
    return verdicts


if __name__ == "__main__":
    main()

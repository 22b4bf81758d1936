"""Kills the supervisor of runs at every labelled point, with a provider that misbehaves, and counts what is left.

    python -m benchmarks.faults [--times 20]

The provider is the shipped fake: it lists machines late and fails one call in five, half of them after they took
effect. Each run is killed once with SIGKILL at one point; another process then looks after it until it has ended, and
the reaper passes twice. Counted are machines that are left, launches that happened twice, results that did not come
home and runs that did not end well.
"""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.app.running.worlds import make_world
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.app.running.run import attend, reap
from trainfare.clouds.fake import Faults

POINTS = (
    "launch intended",
    "after launch",
    "machines seen",
    "machines ready",
    "program sent",
    "after start",
    "program started",
    "program ended",
    "results fetched",
    "results collected",
    "after collect",
    "termination intended",
    "after terminate",
    "terminated",
    "run ended",
)
COLUMNS = ("kills", "left machines", "double launches", "lost results", "not ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="runs per point")
    parser.add_argument("--point", help="only this point")
    arguments = parser.parse_args()
    print(f"{'killed at':22}" + "".join(f"{name:>17}" for name in COLUMNS))
    total = [0] * len(COLUMNS)
    for point in [arguments.point] if arguments.point else POINTS:
        counts = [0] * len(COLUMNS)
        for seed in range(arguments.times):
            for column, value in enumerate(_one_run(point, seed)):
                counts[column] += value
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print(f"{point:22}" + "".join(f"{count:17}" for count in counts), flush=True)
    print(f"{'in all':22}" + "".join(f"{count:17}" for count in total))
    sys.exit(any(total[1:]))


def _one_run(point: str, seed: int) -> tuple[int, ...]:
    """Whether it was killed, machines left, launches too many, results lost, not ended."""
    with tempfile.TemporaryDirectory(prefix="trainfare-faults-") as folder:
        os.environ[FAKE_FOLDER] = str(Path(folder) / "provider")
        world = make_world(Path(folder), Faults(hidden_seconds=0.3, failing_calls=0.2, seed=seed))
        run = world.start("open('out.txt', 'a').write('once\\n')")
        killed = world.attend_in_another_process(run, kill_at=point) == -signal.SIGKILL
        status = attend(run.id, settings=world.settings, poll_seconds=0.02)
        world.door.misbehave(Faults())
        for _ in range(2):
            reap(settings=world.settings)
        launches = [key for _, effect, key in world.door.log() if effect == "launched"]
        result = world.home / "out.txt"
        came_home = result.exists() and result.read_text() == "once\n"
        return (
            int(killed),
            len(world.door.machines()),
            len(launches) - len(set(launches)),
            int(status.life.outcome == "succeeded" and not came_home),
            int(status.life.outcome != "succeeded"),
        )


if __name__ == "__main__":
    main()

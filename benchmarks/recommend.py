"""Time and memory of `recommend` on the whole bundled catalog, without the start of Python and its imports.

    python -m benchmarks.recommend [--rounds N] [--json]

The benchmark makes the same call as the command: it reads the profile from the store and the catalog from its files,
compares all candidates, chooses and explains one, and appends the plan to SQLite. Each round is a new process, because
a second call in one process finds its caches filled. There are three cases: the default (one machine, the profiled
batch size); ten batch sizes on one GPU, on all GPUs of a machine, and on up to 2, 4, 8 and 16 machines; and the same
with spot allowed, which adds half as many candidates. For each, a second goal is answered from the estimates that are
there, as a page with sliders would; and CPU time is given, which other work on the machine disturbs less.

The store is opened once before the clock starts, because that imports SQLAlchemy; its CPU time is given separately.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainfare.model.profile import Profile

DEFAULT = "Scope()"
WIDE = "Scope(batch_sizes=(16, 24, 32, 48, 64, 96, 128, 160, 192, 256), nodes=16)"
"""From a quarter of the profiled batch size to four times as much: outside, the number of epochs is unknown."""
WITH_SPOT = WIDE.replace("nodes=16", "nodes=16, spot=True")
LIMITS = {DEFAULT: 0.5, WIDE: 1.0, WITH_SPOT: 1.0}
AGAIN = 0.3
WORK = """
import json, resource, sys, time
from trainfare.app.recommending.question import Question
from trainfare.app.recommending.recommend import choose_plan, estimate_candidates, save_plan
from trainfare.app.stated import StatedLength
from trainfare.model.plan import Goal
from trainfare.model.scope import Scope
from trainfare.settings import Settings
from trainfare.store.open import open_existing_history
folder = sys.argv[1]
settings = Settings(store=folder + "/history.db", machines=folder + "/machines.toml", prices=folder + "/prices")
cpu = time.process_time()
with open_existing_history(settings.store):
    import_cpu = time.process_time() - cpu
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started, cpu = time.perf_counter(), time.process_time()
question = {"length": StatedLength(epochs=10), "scope": eval(sys.argv[2])}
first = Question(goal=Goal(), **question)
candidates = estimate_candidates(first, settings=settings)
found = choose_plan(candidates, first)
save_plan(found, settings)
seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
started, again_cpu = time.perf_counter(), time.process_time()
choose_plan(candidates, Question(goal=Goal(kind="weighted", weight_time=0.5), **question))
again, again_cpu = time.perf_counter() - started, time.process_time() - again_cpu
figures = {"seconds": seconds, "cpu_seconds": cpu, "import_cpu_seconds": import_cpu, "mib": mib}
figures |= {"again_seconds": again, "again_cpu_seconds": again_cpu, "candidates": found.plan.considered}
print(json.dumps(figures))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _store_profile(Path(folder))
        rows = [_row(folder, scope, options.rounds) for scope in LIMITS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        ms = {name: f"{1e3 * figure:.0f} ms" for name, figure in row.items()}
        print(
            f"recommend: {row['candidates']} candidates in {ms['seconds']} (limit {ms['aim']}), "
            f"{ms['cpu_seconds']} of CPU time and {ms['import_cpu_seconds']} of imports, {row['mib']:.0f} MiB; "
            f"another goal in {ms['again_seconds']} (limit {1e3 * AGAIN:.0f} ms), {ms['again_cpu_seconds']} of CPU time"
        )


def _row(folder: str, scope: str, rounds: int) -> dict[str, float]:
    command = [sys.executable, "-c", WORK, folder, scope]
    found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
    return {
        "candidates": found[0]["candidates"],
        **{name: median(each[name] for each in found) for name in found[0] if name != "candidates"},
        "aim": LIMITS[scope],
    }


def _store_profile(folder: Path) -> None:
    from trainfare.store.open import open_history

    with open_history(str(folder / "history.db")) as history:
        history.profiles.add(profile())


def profile() -> "Profile":
    """A profile of a network with 400 different operations, about as many as a ResNet-50 launches."""
    from datetime import UTC, datetime

    from trainfare.model.machine import Host
    from trainfare.model.profile import Operation, Profile
    from trainfare.model.program import Program

    operations = tuple(
        Operation(kind="convolution", dtype="float32", flops=1e9 + i, bytes=1e7 + i, count=3) for i in range(400)
    )
    return Profile(
        id="pbench",
        program=Program(command=("python", "train.py"), directory="/tmp"),  # noqa: S108 # the path is only a name; no file is opened
        host=Host(name="bench"),
        measured_at=datetime.now(UTC),
        framework="pytorch",
        micro_batch_size=64,
        samples=50_000,
        parameters=25_000_000,
        activation_bytes=4 * 10**9,
        init_seconds=2.0,
        iteration_seconds=(1.0, *[0.1] * 49),
        validation_seconds=(0.3,),
        operations=operations,
    )


if __name__ == "__main__":
    main()

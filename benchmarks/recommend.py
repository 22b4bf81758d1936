"""How long `recommend` works on the whole bundled catalog, once Python and its libraries are loaded.

    python -m benchmarks.recommend [--json]

The same call as the command makes: profile from the store, catalog read from its files, every offer estimated, one
chosen and explained, the plan appended to SQLite. A new process for each round, because the second call in a process
finds everything warm.
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

AIM_SECONDS = 0.5
WORK = """
import json, sys, time
from trainfare.app.recommend import recommend
from trainfare.settings import Settings
folder = sys.argv[1]
settings = Settings(store=folder + "/history.db", machines=folder + "/machines.toml", prices=folder + "/prices")
started = time.perf_counter()
found = recommend(epochs=10, settings=settings)
print(json.dumps({"seconds": time.perf_counter() - started, "estimates": len(found.estimates)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _keep_a_profile(Path(folder))
        rounds = [
            json.loads(subprocess.run([sys.executable, "-c", WORK, folder], check=True, capture_output=True).stdout)
            for _ in range(options.rounds)
        ]
    row = {"estimates": rounds[0]["estimates"], "seconds": median(r["seconds"] for r in rounds), "aim": AIM_SECONDS}
    if options.json:
        print(json.dumps(row, indent=2))
    else:
        print(
            f"recommend: {row['estimates']} offers in {row['seconds'] * 1e3:.0f} ms (aim ≤ {AIM_SECONDS * 1e3:.0f} ms)"
        )


def _keep_a_profile(folder: Path) -> None:
    from trainfare.store.open import open_history

    with open_history(str(folder / "history.db")) as history:
        history.add_profile(profile())


def profile() -> "Profile":
    """A network of 400 different operations: about what a ResNet-50 launches."""
    from datetime import UTC, datetime

    from trainfare.model.machine import Host
    from trainfare.model.profile import Operation, Profile
    from trainfare.model.program import Program

    operations = tuple(
        Operation(kind="convolution", dtype="float32", flops=1e9 + i, bytes=1e7 + i, count=3) for i in range(400)
    )
    return Profile(
        id="pbench",
        program=Program(command=("python", "train.py"), directory="/tmp"),  # noqa: S108 only a name
        host=Host(name="bench"),
        measured_at=datetime.now(UTC),
        framework="pytorch",
        batch_size=64,
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

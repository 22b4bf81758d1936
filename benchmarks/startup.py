"""How quickly the command starts: `trainfare --help` against the libraries any command line of this kind imports.

    python -m benchmarks.startup [--json]

Interleaved, so that a busy machine slows both alike; the ratio of the medians is what counts.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

COMMANDS = {
    "import typer, rich": [sys.executable, "-c", "import typer, rich"],
    "trainfare --help": [str(Path(sys.executable).with_name("trainfare")), "--help"],
    "trainfare --version": [str(Path(sys.executable).with_name("trainfare")), "--version"],
}
AIM = 2.0


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for command in COMMANDS.values():
        seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    base = median(taken["import typer, rich"])
    rows = {name: {"seconds": median(values), "ratio": median(values) / base} for name, values in taken.items()}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':24}{'median':>10}{'ratio':>8}   aim")
    for name, row in rows.items():
        aim = f"≤ {AIM:g} ×" if name == "trainfare --help" else ""
        print(f"{name:24}{row['seconds'] * 1e3:7.0f} ms{row['ratio']:8.2f}   {aim}")


if __name__ == "__main__":
    main()

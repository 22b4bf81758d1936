"""A training without any framework that saves its state and can go on from it: the weights depend on every step.

    resumes.py [--resume PATH] [--hold-at STEP]

It holds at a step, if it is to, until it is ended; once it goes on from a checkpoint it does not hold any more. So a
test can take its time.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("--resume", type=Path)
parser.add_argument("--hold-at", type=int)
arguments = parser.parse_args()

state: dict[str, Any] = {"step": 0, "weights": [0.5, -0.25, 1.0]}
if arguments.resume:
    state = json.loads(arguments.resume.read_text())
print(f"from step {state['step']}", flush=True)


def save() -> None:
    """Save in one step. The file looks as if it were some seconds old: then it counts as complete at once."""
    Path("out").mkdir(exist_ok=True)
    fresh = Path("out/last.new")
    fresh.write_text(json.dumps(state))
    os.utime(fresh, (time.time() - 10, time.time() - 10))
    fresh.replace("out/last.ckpt")


def save_and_exit(*_: object) -> None:
    save()
    print(f"saved at step {state['step']}", flush=True)
    sys.exit(143)


signal.signal(signal.SIGTERM, save_and_exit)
while state["step"] < 60:
    noise = random.Random(state["step"])
    weights = [weight - 0.1 * (weight + noise.gauss(0, 1)) for weight in state["weights"]]
    state = {"step": state["step"] + 1, "weights": weights}
    if state["step"] % 5 == 0:
        save()
    while state["step"] == arguments.hold_at and not arguments.resume:
        time.sleep(0.1)
Path("weights.json").write_text(json.dumps(state["weights"]))

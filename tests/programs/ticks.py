"""Writes the events of iterations as the probe does, but without a framework: it starts at once, on a busy machine too.

It can hang in the middle of an iteration, ignore every signal that can be ignored, and start others like itself.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--hang-at", type=int, default=0, help="the iteration that never ends; counts from 1")
parser.add_argument("--seconds", type=float, default=0.05)
parser.add_argument("--stubborn", action="store_true", help="ignore SIGINT and SIGTERM")
parser.add_argument("--obedient", action="store_true", help="stop after an iteration once the profiler requests it")
parser.add_argument("--workers", type=int, default=0, help="others that train together with this one")
parser.add_argument("--detached", type=Path, help="start one more in a session of its own; write its process id here")
arguments = parser.parse_args()

events = Path(os.environ["TRAINFARE_PROBE_EVENTS"])
if arguments.stubborn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
same = [sys.executable, __file__, "--seconds", str(arguments.seconds), "--hang-at", str(arguments.hang_at)]
same += ["--stubborn"] if arguments.stubborn else []
workers = [subprocess.Popen(same) for _ in range(arguments.workers)]
if arguments.detached:
    detached = subprocess.Popen([*same, "--hang-at", "1"], start_new_session=True)
    arguments.detached.write_text(str(detached.pid))


def write(**facts: object) -> None:
    line = json.dumps({"pid": os.getpid(), "time": time.monotonic(), **facts})
    with events.open("a") as file:
        file.write(line + "\n")


write(event="python", version="3", argv=[])
write(event="import", name="torch", version="2")
start = time.monotonic()
for n in range(1, 1_000_000):
    time.sleep(3600 if n == arguments.hang_at else arguments.seconds)
    end = time.monotonic()
    write(event="iteration", n=n, start=start, end=end, wait=0.0, batches=1, learning_rate=None)
    start = end
    if arguments.obedient and Path(f"{events}.stop").exists():
        write(event="stop")
        sys.stdout.write("stopped by itself\n")
        break

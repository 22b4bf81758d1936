"""Starts children that would outlive it, one of them in its own session, and writes their process ids to a file."""
# mypy: allow-untyped-calls

import subprocess
import sys
from pathlib import Path

import torch
import without_compiler  # noqa: F401 # starts in half of the time

children = [
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=alone)
    for alone in (False, True)
]
Path(sys.argv[1]).write_text(" ".join(str(child.pid) for child in children))
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(5):
    (weight**2).sum().backward()
    optimizer.step()

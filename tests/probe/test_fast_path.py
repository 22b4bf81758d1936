"""Iterations on the fast path are recorded exactly as iterations that are passed to the Loop one by one."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.pythons import python_with
from trainfare.probe import boot
from trainfare.probe.recorder import FLUSH_SECONDS
from trainfare.profiler.events import parse_events
from trainfare.profiler.measure import PROBE_SITE

pytestmark = pytest.mark.heavy

WITHOUT_FAST_PATH = (
    "import sys, torch\nsys.modules['_trainfare_probe.fast_path'].FastPath.begin = lambda self, *args: None\n"
)

SETUP = f"""
import sys
sys.path.append({str(Path(__file__).parents[1] / "programs")!r})
import without_compiler
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 4), torch.randn(80, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = torch.optim.Adam(model.parameters())
def back(batch, scale=1):
    loss = torch.nn.functional.mse_loss(model(batch[0]), batch[1])
    (loss / scale).backward()
"""

PROGRAMS = {
    "plain": """
for epoch in range(4):
    for batch in DataLoader(data, batch_size=8):
        model.train()
        back(batch)
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.99
""",
    "validates": """
validation = DataLoader(data, batch_size=40)
for epoch in range(4):
    for n, batch in enumerate(DataLoader(data, batch_size=8)):
        back(batch)
        optimizer.step()
        if n % 4 == 3:
            model.eval()
            with torch.no_grad():
                for other in validation: model(other[0])
            model.train()
""",
    "accumulates": """
for epoch in range(4):
    for n, batch in enumerate(DataLoader(data, batch_size=8), 1):
        back(batch, 3)
        if n % 3 == 0: optimizer.step()
""",
    "leaves each epoch early": """
loader = DataLoader(data, batch_size=8)
for epoch in range(6):
    for n, batch in enumerate(loader):
        back(batch)
        optimizer.step()
        if n == 6: break
""",
    "two loaders": """
first, second = DataLoader(data, batch_size=8), DataLoader(data, batch_size=4)
for epoch in range(3):
    for batch, more in zip(first, second):
        back(batch); back(more)
        optimizer.step()
""",
    "two optimizers": """
for epoch in range(3):
    for batch in DataLoader(data, batch_size=8):
        back(batch); optimizer.step()
        back(batch); other.step()
""",
    "closure in some steps": """
for epoch in range(3):
    for n, batch in enumerate(DataLoader(data, batch_size=8)):
        if n % 5 == 4: optimizer.step(lambda: back(batch))
        else:
            back(batch); optimizer.step()
""",
    "several losses at once": """
for epoch in range(3):
    for batch in DataLoader(data, batch_size=8):
        losses = [model(batch[0]).mean(), model(batch[0]).square().mean()]
        torch.autograd.backward(losses)
        optimizer.step()
""",
    "no loader": """
for n in range(30):
    back(data[:8]); optimizer.step()
""",
    "steps in the backward pass": """
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
for p in model.parameters():
    p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
for epoch in range(3):
    for batch in DataLoader(data, batch_size=8): back(batch)
""",
}


def environment(events: Path) -> dict[str, str]:
    events.touch()
    return {"PYTHONPATH": str(PROBE_SITE), boot.EVENTS: str(events), boot.ITERATIONS: "1000", boot.OPERATIONS: "0"}


def recorded(program: str, events: Path) -> dict[str, Any]:
    subprocess.run([python_with("torch"), "-c", program], env=environment(events), check=True, timeout=600)
    found = parse_events(events.read_bytes())
    iterations = [event for event in found if event["event"] == "iteration"]
    gaps = sum(b["start"] != a["end"] for a, b in pairwise(iterations))
    flushes = (iterations[-1]["end"] - iterations[0]["start"]) / FLUSH_SECONDS
    return {
        "iterations": [(event["n"], event["batches"], event["learning_rate"]) for event in iterations],
        "waits": [event["wait"] > 0 for event in iterations],
        "losses": [value for event in found if event["event"] == "losses" for value in event["values"]],
        "contiguous": gaps < 5 + flushes,  # the time in which the probe writes is left out
        **{
            kind: sum(event["event"] == kind for event in found)
            for kind in ("pass", "pass_end", "window", "trouble", "loader", "validation")
        },
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_is_recorded_with_and_without_the_fast_path(name: str, tmp_path: Path) -> None:
    fast = recorded(SETUP + PROGRAMS[name], tmp_path / "fast")
    assert fast == recorded(WITHOUT_FAST_PATH + SETUP + PROGRAMS[name], tmp_path / "slow")
    assert fast["trouble"] == 0
    assert len(fast["iterations"]) >= 12


def test_killed_program_loses_less_than_a_second_of_events(tmp_path: Path) -> None:
    endless = SETUP + "import time\nwhile True:\n    back(data[:8]); optimizer.step(); time.sleep(0.002)\n"
    events = tmp_path / "events"
    process = subprocess.Popen([sys.executable, "-c", endless], env=environment(events))
    try:
        while events.read_bytes().count(b'"iterations"') < 10:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(2 * FLUSH_SECONDS)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        killed = time.monotonic()
        process.wait()
    last = max(event["end"] for event in parse_events(events.read_bytes()) if event["event"] == "iteration")
    assert killed - last < 1 + FLUSH_SECONDS

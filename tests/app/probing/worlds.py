"""A provider that does not exist, and a program that writes the events of a training without any framework."""

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.probing.distant import DistantProbe, ProbeStatus
from trainfare.app.probing.ledger import Ledger
from trainfare.app.profiling.options import ProfileOptions
from trainfare.clouds.fake import OFFER, FakeDoor, Faults
from trainfare.model.offer import Candidate, Offer
from trainfare.model.program import Program
from trainfare.model.run import Run
from trainfare.settings import Settings

PROGRAM = """
import json, os, sys, time

path = os.environ["TRAINFARE_PROBE_EVENTS"]
target = int(os.environ["TRAINFARE_PROBE_ITERATIONS"]) or None

def write(event, **facts):
    with open(path, "a") as file:
        file.write(json.dumps({"event": event, "pid": os.getpid(), "time": time.monotonic(), **facts}) + "\\n")

write("import", name="torch", version="2")
print("training")
n, last = 0, target
while last is None or n < last:
    if "crash" in sys.argv and n == 5:
        sys.exit("the data is corrupt")
    while "hang" in sys.argv and n == 5:
        time.sleep(0.1)
    if os.path.exists(path + ".stop"):
        break
    n += 1
    start = time.monotonic()
    time.sleep(0.02 if "slow" not in sys.argv else 3)
    write("iteration", n=n, start=start, end=time.monotonic(), wait=0.0, batches=0, learning_rate=None)
if "endless" in sys.argv:
    write("stop")
    time.sleep(600)
if "short" not in sys.argv:
    write("stop")
"""


@dataclass
class ProbeWorld:
    folder: Path
    door: FakeDoor
    settings: Settings
    cancelled: threading.Event = field(default_factory=threading.Event)
    seen: list[ProbeStatus] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def probe(
        self,
        *words: str,
        options: ProfileOptions | None = None,
        ledger: Ledger | None = None,
        offer: Offer = OFFER,
        setup: str | None = None,
        name: str = "probe-test",
    ) -> DistantProbe:
        run = Run(
            id=name,
            made_at=datetime.now(UTC),
            owner="ada@laptop",
            program=Program(command=("python3", "train.py", *words), directory=str(self.project)),
            candidate=Candidate(offer=offer, nodes=1, batch_size=None),
            results_directory=str(self.project),
            setup=setup,
        )
        return DistantProbe(
            door=self.door,
            run=run,
            options=options or ProfileOptions(iterations=20),
            settings=self.settings,
            ledger=ledger or Ledger(),
            cancelled=self.cancelled,
            on_status=self.seen.append,
        )

    @property
    def stages(self) -> list[str]:
        """The stages in their order, each once."""
        return list(dict.fromkeys(status.stage for status in self.seen))

    @property
    def is_clean(self) -> bool:
        """Every machine that was launched is gone."""
        return self.door.machines() == () and list((self.folder / "provider" / "machines").glob("[!.]*")) == []


def make_probe_world(folder: Path, faults: Faults | None = None) -> ProbeWorld:
    door = FakeDoor(folder / "provider", offers=(OFFER, replace(OFFER, vm_type=replace(OFFER.vm_type, name="other"))))
    if faults is not None:
        door.misbehave(faults)
    world = ProbeWorld(
        folder=folder,
        door=door,
        settings=Settings(
            store=str(folder / "history.db"),
            runs=str(folder / "runs"),
            logs=str(folder / "logs"),
            machines=str(folder / "machines.toml"),
            prices=str(folder / "prices"),
            stall_seconds=60.0,
        ),
    )
    world.project.mkdir()
    (world.project / "train.py").write_text(PROGRAM)
    return world

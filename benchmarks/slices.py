"""Slices of this machine at invented prices, and programs that run on them through the door of the product."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfare.clouds import driver
from trainfare.clouds.door import Launch, Shell
from trainfare.clouds.local import LocalDoor
from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.program import Program


def slice_offers(slices: Mapping[str, tuple[float, float]]) -> dict[str, Offer]:
    """Offers by name, from the cores and the dollars per hour of each slice."""
    today = datetime.now(UTC).date()
    return {
        name: Offer(
            vm_type=VmType(provider="local", name=name, gpu=None, gpus=0, vcpus=cpus, memory_gib=None),
            region="here",
            market="own",
            usd_per_hour=usd,
            seen_on=today,
            source="invented",
        )
        for name, (cpus, usd) in slices.items()
    }


@contextmanager
def program_on(offer: Offer, program: Program, *, folder: Path, run_id: str) -> Iterator[Shell]:
    """Start a program on a slice, without the probe; it is ended with the block. `folder` holds the machine."""
    door = LocalDoor(folder, [offer])
    lease = datetime.now(UTC) + timedelta(days=1)
    candidate = Candidate(offer=offer, nodes=1, batch_size=1)
    launch = Launch(owner="benchmark", run_id=run_id, attempt=1, candidate=candidate, expires_at=lease)
    door.launch(launch)
    try:
        (machine,) = (machine for machine in door.machines() if machine.key == launch.key)
        shell, source = door.shell(machine), Path(program.directory)
        files = tuple(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
        job = driver.AgentJob(key=launch.key, node=0, command=program.command, lease_ends_at=lease, probe=False)
        driver.prepare(shell, job=job, code=driver.CodeBundle(folder=source, files=files))
        driver.start(shell, secrets={})
        yield shell
    finally:
        door.terminate(launch.key)


def require_success(shell: Shell) -> Mapping[str, Any]:
    """The last entry of the program, which has ended. The benchmark ends if it failed."""
    end = [entry.values for entry in driver.entries(shell, after=0) if entry.kind == "program"][-1]
    if end["exit_code"]:
        raise SystemExit(f"the program failed:\n{shell.read('output').decode(errors='replace')}")
    return end

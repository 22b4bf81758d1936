"""Stored plans are carried out by one command: a split plan on two machines, and a move to a better one."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.app.running.worlds import World, make_world
from tests.makers import make_candidate, make_estimate, make_plan, make_profile, make_program
from tests.model.test_split import make_split
from tests.needs import need_installed
from trainfare.app.running.doors import FAKE_FOLDER, open_door
from trainfare.cli.main import app
from trainfare.clouds import driver
from trainfare.clouds.fake import OFFER
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"
NAMES = ("torch_resumes.py", "without_compiler.py")


@dataclass(frozen=True)
class Planned:
    """A store with a profile of a program; `carry_out` adds a plan for it and runs that."""

    world: World
    project: Path

    @property
    def here(self) -> Offer:
        return next(
            offer
            for offer in open_door(self.world.settings, "local/here").offers()
            if offer.vm_type.key == "local/here"
        )

    def carry_out(self, *words: str, **plan: Any) -> dict[str, Any]:
        with open_history(self.world.settings.store) as history:
            history.plans.add(make_plan(**plan))
        command = ["run", "--plan", "n4t9", "--resume-flag", "--resume {}", "--results", str(self.world.home)]
        done = CliRunner().invoke(app, [*command, *words, "-y", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)  # type: ignore[no-any-return] # an object


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planned]:
    need_installed("torch")
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setattr(driver, "AgentJob", partial(driver.AgentJob, heartbeat_seconds=0.3))
    world = make_world(tmp_path)
    for name in ("store", "runs", "machines", "prices"):
        monkeypatch.setenv(f"TRAINFARE_{name.upper()}", getattr(world.settings, name))
    project = tmp_path / "project"
    project.mkdir()
    for name in NAMES:
        shutil.copy(PROGRAMS / name, project)
    command = (sys.executable, "torch_resumes.py", "--hold-at", "35")
    with open_history(world.settings.store) as history:
        history.profiles.add(make_profile(program=make_program(command=command, directory=str(project))))
    yield Planned(world, project)
    for machine in world.door.machines():
        world.door.terminate(machine.key)


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of the program when it is not disturbed."""
    need_installed("torch")
    folder = tmp_path_factory.mktemp("by_hand")
    for name in NAMES:
        shutil.copy(PROGRAMS / name, folder)
    subprocess.run([sys.executable, "torch_resumes.py"], cwd=folder, check=True)
    return (folder / "weights.pt").read_bytes()


def estimate_on(offer: Offer, *, iterations: int, seconds: float, **changes: Any) -> Estimate:
    span = Interval.within_factor(seconds, 1.1)
    return make_estimate(
        candidate=make_candidate(offer=offer),
        iterations=iterations,
        seconds=span,
        phases=(Phase(name="steady iterations", seconds=span),),
        usd=span * (offer.usd_per_hour / 3600),
        **changes,
    )


def test_a_split_plan_is_carried_out_on_both_of_its_machines(planned: Planned, by_hand: bytes) -> None:
    split = make_split()
    first, second = split.segments
    first = replace(first, estimate=estimate_on(OFFER, iterations=20, seconds=60.0, epochs=first.epochs))
    second = replace(second, estimate=estimate_on(planned.here, iterations=40, seconds=60.0, epochs=second.epochs))
    parts, migration = (first.estimate, second.estimate), split.migration
    split = replace(
        split,
        segments=(first, second),
        seconds=sum((each.seconds for each in parts), migration.seconds),
        usd=sum((each.usd for each in parts), migration.usd),
    )
    ended = planned.carry_out("--split", split=split)
    assert (ended["outcome"], ended["attempt"], ended["moves"], ended["machine"]) == ("succeeded", 2, 1, "local/here")
    assert ended["resumed_from"]["iteration"] == 30, "it saved there last, after the 20 iterations of the first segment"
    assert (ended["iterations"], ended["total_iterations"]) == (60, 60)
    assert [f["text"] for f in ended["facts"] if f["kind"] == "move asked"] == [
        "The first segment of its plan is done."
    ]
    assert (planned.world.home / "weights.pt").read_bytes() == by_hand
    assert planned.world.door.machines() == ()


def test_a_machine_that_turns_out_to_be_better_is_taken_if_the_user_agreed_to_it(
    planned: Planned, by_hand: bytes
) -> None:
    """The program is slower than predicted from iteration 36 on, and the other machine is a thousand times faster."""
    chosen = estimate_on(OFFER, iterations=10_000, seconds=1000.0)
    better = estimate_on(planned.here, iterations=10_000, seconds=1.0)
    ended = planned.carry_out("--auto", chosen=chosen, runners_up=(better,))
    assert (ended["outcome"], ended["attempt"], ended["moves"], ended["machine"]) == ("succeeded", 2, 1, "local/here")
    (proposal,) = [f["text"] for f in ended["facts"] if f["kind"] == "move asked"]
    assert proposal.startswith("local/here would do the rest in")
    assert (planned.world.home / "weights.pt").read_bytes() == by_hand

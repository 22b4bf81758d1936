"""Malta's two methods from the program to the answer: what is measured where, and what follows from it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.commands import succeed
from tests.makers import make_profile
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.ids import new_id
from trainfare.app.probing import comparing
from trainfare.app.probing.comparing import compare_on
from trainfare.app.probing.machines import ProbeCrew, ProbeTask, ProbeTerms
from trainfare.errors import ProgramError, TrainfareError, UsageError
from trainfare.model.machine import Host
from trainfare.model.probing import MachineProbe
from trainfare.model.profile import Epoch
from trainfare.model.program import Program
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

COMMAND = ("python", "train.py", "--batch-size", "64")
MACHINES = """
[slow]
ssh = "one"
usd_per_hour = 0.10
[fast]
ssh = "two"
usd_per_hour = 0.30
"""
SECONDS = {"ssh/slow": 1.0, "ssh/fast": 0.4}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "machines.toml").write_text(MACHINES)
    for name in ("machines.toml", "runs", "logs"):
        monkeypatch.setenv(f"TRAINFARE_{name.partition('.')[0].upper()}", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return read_settings()


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[ProbeTask]:
    """The tasks that were given, which are answered at once."""
    given: list[ProbeTask] = []

    def take(crew: ProbeCrew, wanted: Sequence[ProbeTask]) -> tuple[MachineProbe, ...]:
        given.extend(wanted)
        return tuple(answer(crew, task) for task in wanted)

    monkeypatch.setattr(ProbeCrew, "take", take)
    monkeypatch.setattr(comparing, "learn_machines", lambda _keys, _settings: {})
    monkeypatch.setattr(comparing, "offer_of", known_offer)
    return given


def known_offer(key: str, settings: Settings) -> object:
    return open_catalog(settings).find(key)[0]


def answer(crew: ProbeCrew, task: ProbeTask) -> MachineProbe:
    """A profile of the machine: 20 iterations, two epochs, or ten that do not improve from the third one on."""
    count = 10 if task.options.until_stable else task.options.epochs or 0
    size = task.batch_size or 64
    each = SECONDS[task.machine] * size / 64
    made = make_profile(
        id=new_id("p"),
        program=Program(command=task.command, directory=str(crew.directory)),
        host=Host(name=task.machine, vm_type=task.machine),
        micro_batch_size=size,
        iterations_per_epoch=10,
        init_seconds=1.0,
        iteration_seconds=(each,) * 20,
        validation_seconds=(),
        curve=tuple(Epoch(number=n, seconds=10 * each, loss=max(1.0, 4.0 - n)) for n in range(1, count + 1)),
    )
    with open_history(crew.settings.store) as history:
        history.profiles.add(made)
    return MachineProbe(machine=task.machine, profile=made, seconds=1.0, batch_size=task.batch_size)


def test_by_iterations_every_machine_measures_the_same(settings: Settings, tasks: list[ProbeTask]) -> None:
    found = compare_on(["ssh/slow", "ssh/fast"], COMMAND, epochs=(5, 50), settings=settings)
    assert [task.machine for task in tasks] == ["ssh/slow", "ssh/fast"]
    assert {(t.options.epochs, t.options.until_stable, t.options.iterations) for t in tasks} == {(None, False, None)}
    assert found.stable_on is None
    assert found.comparison.fastest[-1].estimate.candidate.offer.vm_type.key == "ssh/fast"
    assert list(found.comparison.by_iterations) == [5, 50]
    assert found.comparison.until_stable is None


def test_by_epochs_the_cheapest_trains_until_stable_and_the_others_two_epochs(
    settings: Settings, tasks: list[ProbeTask]
) -> None:
    found = compare_on(
        ["ssh/fast", "ssh/slow"],
        COMMAND,
        until_stable=True,
        batch_sizes=(64, 128),
        batch_flag="--batch-size {}",
        patience=4,
        settings=settings,
    )
    assert [(t.machine, t.batch_size, t.options.until_stable, t.options.epochs) for t in tasks] == [
        ("ssh/fast", 64, False, 2),
        ("ssh/fast", 128, False, 2),
        ("ssh/slow", 64, True, None),
        ("ssh/slow", 128, True, None),
    ]
    assert tasks[1].command == ("python", "train.py", "--batch-size", "128")
    assert found.stable_on == "ssh/slow"
    stable = found.comparison.until_stable
    assert stable is not None
    best = min(stable.configurations, key=lambda each: each.seconds.value)
    assert (best.machine, best.batch_size) == ("ssh/fast", 64)
    assert best.seconds.low <= best.seconds.value <= best.seconds.high


def test_the_command_prints_the_answer_with_intervals(settings: Settings, tasks: list[ProbeTask]) -> None:
    words = ("--until-stable", "--patience", "4", "--on", "ssh/slow,ssh/fast", "--", *COMMAND)
    printed = " ".join(succeed("compare", *words).stdout.split())
    assert "trained until stable on ssh/slow, the cheapest, and for two epochs on the others" in printed
    assert "until stable, fastest: ssh/fast at batch size 64" in printed
    assert "20 epochs, fastest: ssh/fast at batch size 64, " in printed
    assert len(tasks) == 2


def test_a_machine_that_fails_does_not_spoil_the_comparison(
    settings: Settings, tasks: list[ProbeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "learn_machines", lambda _keys, _settings: {"ssh/slow": "it is switched off."})
    ended: list[str] = []
    found = compare_on(
        ["ssh/slow", "ssh/fast"], COMMAND, settings=settings, on_probe=lambda probe: ended.append(probe.machine)
    )
    assert [(probe.machine, probe.failure) for probe in found.probes] == [
        ("ssh/slow", "it is switched off."),
        ("ssh/fast", None),
    ]
    assert ended == ["ssh/slow"]
    printed = succeed("compare", "--on", "ssh/slow,ssh/fast", "--json", "--", *COMMAND).stdout
    assert '"failure": "it is switched off."' in printed


def test_without_a_profile_there_is_nothing_to_compare(
    settings: Settings, tasks: list[ProbeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(probe: MachineProbe) -> None:
        monkeypatch.setattr(ProbeCrew, "take", lambda _crew, wanted: (replace(probe, machine=wanted[0].machine),))

    failing(MachineProbe(machine="x", failure="it fails.", seconds=3.0))
    with pytest.raises(ProgramError, match="nothing was measured on any"):
        compare_on(["ssh/fast"], COMMAND, settings=settings)
    failing(MachineProbe(machine="x", failure="interrupted", interrupted=True))
    with pytest.raises(TrainfareError) as raised:
        compare_on(["ssh/fast"], COMMAND, settings=settings)
    assert raised.value.exit_code == 130
    assert tasks == []


def test_contradictions_are_refused_before_anything_is_measured(settings: Settings, tasks: list[ProbeTask]) -> None:
    with pytest.raises(UsageError, match="give its command"):
        compare_on(["ssh/fast"], (), settings=settings)
    with pytest.raises(UsageError, match="has no number of iterations"):
        compare_on(["ssh/fast"], COMMAND, until_stable=True, iterations=5, settings=settings)
    with pytest.raises(UsageError, match="sets its batch size"):
        compare_on(["ssh/fast"], COMMAND, batch_sizes=(8, 16), settings=settings)
    assert tasks == []
    few = compare_on(["ssh/fast"], COMMAND, iterations=20, max_seconds=60.0, terms=ProbeTerms(), settings=settings)
    assert tasks[0].options.longest_seconds == 60.0
    assert few.probes[0].profile is not None

"""Probes on slices of this machine, with a real program and with one that answers at once."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.slice_makers import LOCAL, profile_at_once, slice_settings, taken_on
from trainfare.app.probing import planned as probing
from trainfare.app.probing.machines import ProbeCrew, ProbeTask
from trainfare.app.probing.planned import plan_probes, run_probes
from trainfare.app.profiling.failures import ProfilingError, ProfilingInterruptedError
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile
from trainfare.errors import UsageError
from trainfare.model.probing import MachineProbe
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.settings import Settings
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return slice_settings(tmp_path)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> list[str]:
    """The slices that were probed."""
    return profile_at_once(monkeypatch, settings, tmp_path)


def test_a_slice_that_may_be_cheaper_is_measured_and_its_profile_is_used(settings: Settings, probed: list[str]) -> None:
    steps: list[Any] = []
    found = run_probes(epochs=500, scope=LOCAL, settings=settings, on_step=steps.append)
    assert probed[0] == "local/two"  # twice the cores for less: expected to be best
    assert len(probed) == len(set(probed))
    assert tuple(steps) == found.steps
    assert not found.interrupted
    assert found.plan.chosen.basis == "measured"
    assert found.plan.chosen.candidate.offer.vm_type.key == "local/one"  # it is slower on two
    assert found.stopped.code == "no_probe_pays"


def test_the_number_of_probes_is_limited(settings: Settings, probed: list[str]) -> None:
    found = run_probes(epochs=100_000, scope=LOCAL, settings=settings, most=1)
    assert len(probed) == 1
    assert (found.stopped.code, found.stopped.values) == ("probe_limit_reached", {"most": 1})
    with pytest.raises(UsageError, match="at least 1") as raised:
        run_probes(settings=settings, most=0)
    assert raised.value.field == "most"


def test_the_plan_is_made_without_running_anything(settings: Settings, probed: list[str]) -> None:
    found = plan_probes(epochs=500, scope=LOCAL, settings=settings)
    assert probed == []
    assert found.plan.start.candidate.offer.vm_type.key == "local/two"
    assert found.unreachable == ()
    assert found.plan.stop.code.startswith("stop")


def test_a_failed_probe_is_reported_and_not_repeated(
    settings: Settings, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_command: tuple[str, ...], options: ProfileOptions) -> Profile:
        on = str(options.on)
        probed.append(on)
        raise ProfilingError(f"it does not run on {on}", None)

    monkeypatch.setattr(probing, "profile_command", fails)
    found = run_probes(epochs=500, scope=LOCAL, settings=settings)
    assert len(probed) == len(set(probed)) == len(found.steps)
    assert all(step.failure and step.profile is None for step in found.steps)


def test_an_interruption_ends_the_probing_and_keeps_the_plan(
    settings: Settings, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_command: tuple[str, ...], options: ProfileOptions) -> Profile:
        probed.append(str(options.on))
        raise ProfilingInterruptedError("interrupted before its first iteration; nothing was kept.", None)

    monkeypatch.setattr(probing, "profile_command", interrupted)
    found = run_probes(epochs=500, scope=LOCAL, settings=settings)
    assert len(probed) == 1
    assert (found.interrupted, found.stopped.code) == (True, "probing_interrupted")
    assert found.plan.chosen is not None


def test_unreachable_machines_that_would_pay_are_named(settings: Settings, probed: list[str]) -> None:
    machines = Path(settings.machines)
    machines.write_text(machines.read_text() + '\n[bench]\nusd_per_hour = 0.001\ngpu = "RTX 3090"\n')
    found = plan_probes(epochs=5_000, scope=Scope(yours=True), settings=settings)
    assert [p.candidate.offer.vm_type.key for p in found.unreachable] == ["own/bench"]


def test_a_program_whose_folder_is_gone_is_an_error(settings: Settings, probed: list[str], tmp_path: Path) -> None:
    gone = replace(taken_on("local/one", 1.0, tmp_path / "gone"), id="pgone")
    with open_history(settings.store) as history:
        history.profiles.add(gone)
    with pytest.raises(UsageError, match="no longer exists"):
        run_probes(["pgone"], epochs=500, scope=LOCAL, settings=settings)


def test_a_real_program_is_probed_on_a_real_slice(settings: Settings, tmp_path: Path) -> None:
    machines = Path(settings.machines)
    machines.write_text(
        "[one]\nslice = true\nusd_per_hour = 0.10\nvcpus = 1\n\n[two]\nslice = true\nusd_per_hour = 0.05\nvcpus = 2\n"
    )
    command = (sys.executable, "plain.py", "--epochs", "40", "--sleep", "0")
    first = profile(command, settings=settings, directory=PROGRAMS, on="local/one", iterations=10)
    found = run_probes(epochs=5_000, scope=LOCAL, settings=settings, most=1, profiling=ProfileOptions(iterations=10))
    assert [step.profile.host.vm_type for step in found.steps if step.profile] == ["local/two"]
    measured = found.steps[0].profile
    assert measured is not None
    assert len(measured.iteration_seconds) == 10
    chosen = found.plan.chosen
    assert chosen.basis == "measured"
    with open_history(settings.store) as history:
        assert {kept.id for kept in history.profiles.all()} == {first.id, measured.id}


def test_own_hosts_are_probed_too(settings: Settings, probed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Path(settings.machines)
    machines.write_text(machines.read_text() + '\n[box]\nssh = "box"\nusd_per_hour = 0.01\nvcpus = 4\n')
    monkeypatch.setattr(probing, "learn_machines", lambda keys, _settings: asked.extend(keys))
    asked: list[str] = []

    def take(_crew: ProbeCrew, tasks: list[ProbeTask]) -> tuple[MachineProbe, ...]:
        (task,) = tasks
        probed.append(task.machine)
        return (MachineProbe(machine=task.machine, failure="it is switched off."),)

    monkeypatch.setattr(ProbeCrew, "take", take)
    found = run_probes(epochs=5_000, scope=Scope(yours=True, exclude=("here",)), settings=settings)
    assert asked == ["ssh/box"]
    by_machine = {step.probe.candidate.offer.vm_type.key: step.failure for step in found.steps}
    assert set(by_machine) == set(probed)
    assert by_machine.get("ssh/box") == "it is switched off."
    assert found.unreachable == ()

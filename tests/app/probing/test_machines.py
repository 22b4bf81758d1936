"""Probes on machines that are named: what runs at once, what fails, what is saved, what is recommended."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.app.probing.worlds import ProbeWorld, make_probe_world
from trainfare.app.probing import distant, machines
from trainfare.app.probing.distant import DistantProbe, MeasuredElsewhere, ProbeStatus
from trainfare.app.probing.machines import (
    ProbeCrew,
    ProbeTask,
    ProbeTerms,
    read_command,
    resolve_machines,
    with_time_limit,
)
from trainfare.app.probing.probe import probe_machines, split_words
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.running.doors import FAKE_FOLDER, open_doors
from trainfare.app.running.run import owner_name, reap
from trainfare.clouds.door import Launch
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.offer import Candidate
from trainfare.settings import Settings
from trainfare.store.open import open_history


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProbeWorld:
    made = make_probe_world(tmp_path)
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setattr(distant, "POLL_SECONDS", 0.2)
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def hosts(tmp_path: Path) -> Settings:
    """Three names of two hosts that need not exist."""
    (tmp_path / "machines.toml").write_text(
        '[a]\nssh = "one"\nusd_per_hour = 0.1\n[b]\nssh = "two"\n[c]\nssh = "one"\n'
    )
    return Settings(store=str(tmp_path / "h.db"), machines=str(tmp_path / "machines.toml"), runs=str(tmp_path / "runs"))


def test_different_machines_are_measured_at_once_and_one_machine_in_order(
    hosts: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, order = threading.Barrier(2), []

    def take(probe: DistantProbe) -> MeasuredElsewhere:
        machine = probe.run.candidate.offer.vm_type.key
        if machine != "ssh/c":
            at_once.wait(60.0)
        order.append(machine)
        raise UsageError(f"{machine} is not there.")

    monkeypatch.setattr(DistantProbe, "take", take)
    crew = ProbeCrew(directory=tmp_path, terms=ProbeTerms(), settings=hosts)
    monkeypatch.setattr(machines, "open_door", _open_known)
    tasks = [
        ProbeTask(machine=f"ssh/{name}", command=("python", "train.py"), options=ProfileOptions()) for name in "abc"
    ]
    found = crew.take(tasks)
    assert [probe.failure for probe in found] == [f"ssh/{name} is not there." for name in "abc"]
    assert order.index("ssh/a") < order.index("ssh/c")  # the same host


def _open_known(settings: Settings, key: str) -> object:
    """The door to a host, without asking it what it is."""
    return open_doors(settings)[key.partition("/")[0]]


def test_a_program_is_measured_on_each_machine_and_one_that_fails_is_a_row(world: ProbeWorld) -> None:
    statuses: list[ProbeStatus] = []
    found = probe_machines(
        ["fake/small", "ssh/-bad", "fake/small"],
        ("python3", "train.py"),
        profiling=ProfileOptions(iterations=20),
        settings=world.settings,
        on_status=statuses.append,
        iterations_per_epoch=10,
        epochs=3,
    )
    measured, failed = found.probes
    assert measured.profile is not None
    assert (measured.profile.host.vm_type, len(measured.profile.iteration_seconds)) == ("fake/small", 20)
    assert measured.profile.program.directory == str(world.project)
    assert failed.failure is not None
    assert "is not a host for ssh" in failed.failure
    assert {status.machine for status in statuses} == {"fake/small"}
    with open_history(world.settings.store) as history:
        assert [profile.id for profile in history.profiles.all()] == [measured.profile.id]
    assert (found.before, found.after) == (None, None)  # it has no operations, and its machine is in no catalog
    assert found.no_recommendation
    assert not found.interrupted
    assert world.is_clean


def test_an_interrupted_probe_on_this_machine_cancels_the_others(
    hosts: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(probe: DistantProbe) -> MeasuredElsewhere:
        assert probe.cancelled.wait(60.0)
        raise distant.ProbeCancelledError("it was interrupted before the program was started.")

    def interrupted(_command: object, _options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DistantProbe, "take", take)
    monkeypatch.setattr(machines, "profile_command", interrupted)
    monkeypatch.setattr(machines, "open_door", _open_known)
    ended: list[str] = []
    crew = ProbeCrew(
        directory=tmp_path, terms=ProbeTerms(), settings=hosts, on_probe=lambda probe: ended.append(probe.machine)
    )
    options = ProfileOptions()
    names = ("ssh/a", "local/here", "local/half")
    found = crew.take([ProbeTask(machine=name, command=("python", "train.py"), options=options) for name in names])
    assert all(probe.interrupted and probe.failure for probe in found)
    assert sorted(ended) == sorted(names)


def test_a_fault_of_ours_is_raised_after_all_machines_have_ended(
    hosts: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(_probe: DistantProbe) -> MeasuredElsewhere:
        raise ZeroDivisionError

    monkeypatch.setattr(DistantProbe, "take", take)
    monkeypatch.setattr(machines, "open_door", _open_known)
    crew = ProbeCrew(directory=tmp_path, terms=ProbeTerms(), settings=hosts)
    with pytest.raises(ZeroDivisionError):
        crew.take([ProbeTask(machine="ssh/a", command=("python", "train.py"), options=ProfileOptions())])


def test_machines_are_named_by_their_keys(hosts: Settings) -> None:
    assert resolve_machines(["here", " local/half", "ssh/new", "local/here"], hosts) == (
        "local/here",
        "local/half",
        "ssh/new",
    )
    with pytest.raises(UsageError, match=r"cannot start a program on aws/p3\.2xlarge"):
        resolve_machines(["aws/p3.2xlarge"], hosts)
    with pytest.raises(NotFoundError, match="local/half"):
        resolve_machines(["local/hal"], hosts)
    with pytest.raises(UsageError, match="at least one machine"):
        resolve_machines([" "], hosts)


def test_a_command_without_the_probe_is_refused_before_anything_starts(hosts: Settings, tmp_path: Path) -> None:
    crew = ProbeCrew(directory=tmp_path, terms=ProbeTerms(), settings=hosts)
    with pytest.raises(UsageError, match="with -I Python ignores"):
        crew.take([ProbeTask(machine="ssh/a", command=("python", "-I", "train.py"), options=ProfileOptions())])


def test_there_must_be_something_to_measure(hosts: Settings) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        probe_machines(["local/here"], settings=hosts)
    open_history(hosts.store).close()
    with pytest.raises(UsageError, match="nothing to measure"):
        probe_machines(["local/here"], settings=hosts)
    assert split_words(["python", "train.py"], hosts) == (["python", "train.py"], ())


def test_a_task_file_states_terms_and_the_call_has_the_last_word(
    hosts: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text("envs:\n  SEED: '1'\n  SIZE: '2'\nsetup: pip list\nrun: python train.py\n")
    stated = ProbeTerms(variables={"SEED": "7"}, budget_usd=3.0)
    program, terms = read_command(["task.yaml"], stated, hosts)
    assert "python train.py" in program.command_line
    assert "pip list" in str(terms.setup)
    assert terms.budget_usd == 3.0
    assert (terms.variables["SEED"], terms.variables["SIZE"]) == ("7", "2")
    assert read_command(["task.yaml"], ProbeTerms(setup="true"), hosts)[1].setup == "true"


def test_a_time_limit_does_not_lengthen_what_is_measured() -> None:
    options = with_time_limit(ProfileOptions())
    assert options.longest_seconds == machines.MOST_SECONDS
    assert options.stopping_rule == ProfileOptions().stopping_rule
    assert with_time_limit(ProfileOptions(until_stable=True)).longest_seconds is None
    assert with_time_limit(ProfileOptions(max_seconds=5.0)).longest_seconds == 5.0


def test_the_reaper_leaves_a_probe_that_is_followed_and_ends_one_that_is_not(world: ProbeWorld) -> None:
    (offer, _) = world.door.offers()
    now = datetime.now(UTC)
    open_history(world.settings.store).close()
    for name, seconds in (("probe-followed", 60.0), ("probe-left", -1.0)):
        launch = Launch(
            owner=owner_name(world.settings),
            run_id=name,
            attempt=1,
            candidate=Candidate(offer=offer, nodes=1, batch_size=None),
            expires_at=now + timedelta(seconds=seconds),
        )
        world.door.launch(launch)
    assert reap(settings=world.settings).terminated == ("probe-left-1",)
    assert [machine.run_id for machine in world.door.machines()] == ["probe-followed"]

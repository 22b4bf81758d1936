"""`trainfare probe --on` and `trainfare compare --on`: words, messages and records, through a provider that does not
exist. Programs write the events of a training themselves."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.probing.worlds import PROGRAM
from tests.cli.commands import complaint, read_json, run, succeed
from tests.makers import make_estimate, make_plan, make_profile
from trainfare.app.probing import distant
from trainfare.app.running.doors import FAKE_FOLDER
from trainfare.cli.cards.probe import print_machine_probing
from trainfare.cli.cards.probe_screen import ProbeScreen, ended_line
from trainfare.model.interval import Interval
from trainfare.model.probing import MachineProbe, MachineProbing
from trainfare.views.probing import machine_probing_record


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    monkeypatch.setenv(FAKE_FOLDER, str(tmp_path / "provider"))
    monkeypatch.setenv("TRAINFARE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(distant, "POLL_SECONDS", 0.2)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("project")
def test_a_program_is_probed_and_the_newest_profile_leads_to_it_again() -> None:
    words = ("--iterations-per-epoch", "10", "-n", "15")
    first = json.loads(succeed("probe", "--on", "fake/small", *words, "--json", "--", "python3", "train.py").stdout)
    (probe,) = first["probes"]
    assert (probe["machine"], probe["iterations"], probe["failure"]) == ("fake/small", 15, None)
    assert probe["iteration_seconds_low"] <= probe["iteration_seconds"] <= probe["iteration_seconds_high"]
    assert first["usd"] == pytest.approx(probe["usd"])
    assert (first["interrupted"], first["budget_usd"]) == (False, None)
    again = succeed("probe", probe["profile"], "--on", "fake/small", *words, "--budget", "1")
    assert "1 machine measured, for $0.0" in again.stdout
    assert "of $1.00" in again.stdout
    assert "fake/small: starting the machine" in again.stderr
    assert "stored, " in again.stderr
    assert len(read_json("profiles", "list")) == 2


@pytest.mark.usefixtures("project")
def test_what_goes_wrong_is_an_exit_code_and_a_line() -> None:
    failed = run("probe", "--on", "fake/small", "--", "python3", "missing.py")
    assert failed.exit_code == 1
    assert "fake/small: failed after" in failed.stderr
    assert "0 machines measured" in failed.stdout
    words = ("--", "python3", "train.py")
    assert "budget" in complaint("probe", "--on", "fake/small", "--budget", "-1", *words)
    assert "a plan chooses the machines itself" in complaint("probe", "--on", "fake/small", "--plan", *words)
    assert "only used on machines that are named" in complaint("probe", "--two-epochs")
    assert "cannot start a program on aws/p3.2xlarge" in complaint("probe", "--on", "aws/p3.2xlarge", *words)
    assert "there is no program to measure" in complaint("compare", "--on", "fake/small")
    assert "only used on machines that are named" in complaint("compare", "--until-stable")
    poor = run("probe", "--on", "fake/small", "--budget", "0.001", *words)
    assert poor.exit_code == 1
    assert "it was not started" in poor.stderr


def test_an_interrupt_ends_the_probe_and_leaves_nothing(project: Path) -> None:
    words = ("-m", "trainfare.cli.main", "probe", "--on", "fake/small", "-n", "100000", "--", "python3", "train.py")
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    started = next(line for line in process.stderr if "waiting for the first" in line or "iteration" in line)
    assert started.startswith("fake/small: ")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "ending the machine" in errors
    assert list((project.parent / "provider" / "machines").glob("[!.]*")) == []


def test_each_end_of_a_probe_is_one_line() -> None:
    profile = make_profile(iteration_seconds=(1.0, 0.2, 0.2, 0.2))
    line = ended_line(MachineProbe(machine="ssh/box", profile=profile, seconds=12.0, usd=0.5, batch_size=64))
    assert line == f"ssh/box at batch size 64: profile {profile.id} stored, 200 ms per iteration; 12 s, $0.50"
    assert ended_line(MachineProbe(machine="ssh/box", failure="it is off.")) == "ssh/box: failed: it is off."


def test_what_may_be_left_on_a_machine_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    ProbeScreen(quiet=True).probe(MachineProbe(machine="ssh/box", failure="it is off.", left_behind="probe-x is left."))
    assert "note: probe-x is left." in capsys.readouterr().err


def test_probes_without_a_recommendation_have_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    found = MachineProbing(
        probes=(MachineProbe(machine="ssh/box", failure="it is off."),), no_recommendation="there is no profile."
    )
    record = json.loads(json.dumps(machine_probing_record(found)))
    assert record["probes"][0]["failure"] == "it is off."
    assert (record["plan"], record["chosen"]) == (None, None)
    print_machine_probing(found)
    assert "no recommendation: there is no profile." in capsys.readouterr().out


def test_each_machine_is_shown_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    before = make_estimate(seconds=Interval(value=100.0, low=50.0, high=200.0), basis="scaled")
    after = make_estimate(seconds=Interval(value=80.0, low=75.0, high=85.0), basis="measured")
    machine = after.candidate.offer.vm_type.key
    plan = make_plan()
    found = MachineProbing(
        probes=(MachineProbe(machine=machine, profile=make_profile(), usd=0.25),),
        before=plan,
        after=plan,
        estimates_before=(before,),
        estimates_after=(after,),
        budget_usd=1.0,
    )
    print_machine_probing(found)
    printed = capsys.readouterr().out
    assert "Train on" in printed
    assert "as before the probes" in printed
    assert "1 machine measured, for $0.25 of $1.00" in printed
    rows = [line for line in printed.splitlines() if machine in line or line.startswith("  before")]
    assert ["1 min 20 s (1 min 15 s – 1 min 25 s)" in rows[0], "scaled" in rows[1]] == [True, True]
    record = machine_probing_record(found)
    assert (record["probes"][0]["before"]["seconds"], record["probes"][0]["after"]["seconds"]) == (100.0, 80.0)

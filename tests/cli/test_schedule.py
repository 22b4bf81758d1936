"""`trainfare schedule simulate`, `compare`, `bound` and `generate`."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.commands import complaint, error_of, run, succeed, terminal
from tests.scheduler.makers import make_job, random_instance
from trainfare.errors import NotFoundError, TrainfareError, UsageError
from trainfare.measurements.instances import write_instance
from trainfare.model.queue import Decision, Instance, State
from trainfare.scheduler.policies.registry import POLICIES, load_policy
from trainfare.units import format_percent, format_usd

QUEUE = random_instance(7, jobs=6, load=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_instance(tmp_path / "queue", QUEUE)
    return tmp_path / "queue"


def invoke(command: str, *flags: object) -> Result:
    return succeed("schedule", command, *flags)


def on_two_nodes(command: str, folder: Path, *flags: object) -> str:
    return invoke(command, "--instance", folder, "--nodes", 2, *flags).stdout


@pytest.mark.parametrize("command", ["", "simulate", "compare", "bound", "generate"])
def test_help_fits_a_screen(command: str) -> None:
    shown = run("schedule", *([command] if command else []), "--help").stdout
    assert 5 < len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 80


def test_help_lists_every_policy() -> None:
    shown = run("schedule", "compare", "--help").stdout
    words = shown.replace(",", " ").replace(".", " ").split()
    assert set(POLICIES) <= set(words)


def test_json_has_the_outcome_the_bound_and_every_job(folder: Path) -> None:
    record = json.loads(on_two_nodes("simulate", folder, "--policy", "greedy", "--json"))
    assert {
        "policy",
        "total_usd",
        "rental_usd",
        "tardiness_usd",
        "late_jobs",
        "makespan_s",
        "decision_p50_s",
        "decision_p99_s",
        "lower_bound_usd",
        "tardiness_s",
        "gap",
        "moves",
        "preemptions",
        "gpu_use",
        "node_hours",
        "mean_completion_s",
        "p99_completion_s",
        "nodes",
        "mode",
        "worst_gap",
        "left_out",
    } <= set(record)
    assert (record["policy"], record["mode"], record["nodes"], record["job_count"]) == ("greedy", "paper", 2, 6)
    assert [job["job"] for job in record["jobs"]] == [job.id for job in QUEUE.jobs]
    assert record["total_usd"] >= record["lower_bound_usd"] > 0


def test_simulate_and_compare_have_the_same_options() -> None:
    flags = [
        {word.strip(",[]`") for word in run("schedule", command, "--help").stdout.split() if word.startswith("--")}
        for command in ("simulate", "compare")
    ]
    assert flags[0] == flags[1]
    assert {"--policy", "--nodes", "--instance", "--mode", "--checkpoint-every", "--tick", "--store"} <= flags[0]


def test_the_answer_comes_first_then_the_details(folder: Path) -> None:
    shown = on_two_nodes("simulate", folder, "--policy", "fifo")
    record = json.loads(on_two_nodes("simulate", folder, "--policy", "fifo", "--json"))
    first = shown.splitlines()[0]
    assert first.startswith(f"{format_usd(record['total_usd'])}  for 6 jobs on 2 nodes with fifo:  rent ")
    assert f"; {format_percent(record['gap'])} above the lower bound" in first
    assert all(topic in shown for topic in ("bound", "time", "nodes", "jobs", "decisions"))


def test_the_five_most_expensive_late_jobs_are_listed(tmp_path: Path) -> None:
    jobs = tuple(make_job(f"late{i}", deadline_seconds=60.0, late_usd_per_second=0.001 * (i + 1)) for i in range(7))
    write_instance(tmp_path, Instance(types=QUEUE.types, slots=QUEUE.slots, jobs=(*jobs, make_job("early"))))
    shown = invoke("simulate", "--instance", tmp_path, "--nodes", 8, "--policy", "fifo").stdout
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  late")]
    assert listed == ["late6", "late5", "late4", "late3", "late2"]
    assert "7 of 8 jobs late" in shown.splitlines()[0]


def test_mode_real_takes_its_delays_from_the_flags(folder: Path) -> None:
    real = ("--policy", "fifo", "--mode", "real")
    record = json.loads(on_two_nodes("simulate", folder, *real, "--boot", "5min", "--json"))
    assert (record["boot_s"], record["checkpoint_s"], record["restart_s"]) == (300, 30, 60)
    none = json.loads(on_two_nodes("simulate", folder, *real, "--boot", "0s", "--json"))
    assert none["boot_s"] == 0
    assert none["rental_usd"] < record["rental_usd"]
    shown = on_two_nodes("simulate", folder, *real)
    assert "boots in 2 min, a migration takes 30 s to save and 1 min to restore" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        (("--policy", "gredy"), NotFoundError, "--policy: there is no policy gredy. Did you mean greedy?"),
        (("--nodes", "0"), UsageError, "Try `--nodes 1`."),
        (("--instance", "nowhere"), UsageError, "there is no folder nowhere"),
        (("--boot", "2min"), UsageError, "--boot: this delay applies to the mode real only"),
        (("--mode", "real", "--boot", "soon"), UsageError, "--boot: 'soon' is not a duration; write 90s"),
        (("--tick", "0s"), UsageError, "--tick: a tick must be a positive time"),
        (("--plot", "queue.pdf"), UsageError, ".html, .png, .svg or .json"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_wrong_argument_is_explained(
    folder: Path, command: str, flags: tuple[str, ...], error: type[TrainfareError], message: str
) -> None:
    words = ("schedule", command, "--instance", folder, "--nodes", 2, "--policy", "fifo", *flags)
    assert isinstance(error_of(*words), error)
    assert message in complaint(*words)


def test_a_folder_without_the_files_is_an_error_that_names_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"jobs\.csv"):
        on_two_nodes("simulate", tmp_path, "--policy", "fifo")


def test_jobs_that_cannot_be_read_are_left_out_and_named(folder: Path) -> None:
    lines = (folder / "jobs.csv").read_text().splitlines()
    (folder / "jobs.csv").write_text("\n".join([*lines, "lost,10,20,0.1,,0"]))
    record = json.loads(on_two_nodes("simulate", folder, "--policy", "fifo", "--json"))
    assert len(record["left_out"]) == 1
    assert "lost" in record["left_out"][0]
    assert "job lost is left out" in " ".join(on_two_nodes("simulate", folder, "--policy", "fifo").split())
    assert "job lost is left out" in " ".join(on_two_nodes("compare", folder, "--policy", "fifo").split())


def test_a_comparison_has_a_line_per_policy_the_cheapest_first(folder: Path) -> None:
    result = invoke("compare", "--instance", folder, "--nodes", 2, "--policy", "fifo,edf, greedy")
    record = json.loads(on_two_nodes("compare", folder, "--policy", "fifo,edf,greedy", "--json"))
    names = [each["policy"] for each in record["policies"]]
    assert [line.split()[0] for line in result.stdout.splitlines()[1:4]] == names
    assert record["best"] == names[0]
    assert {"decision", "migrations", "above", "lateness"} <= set(result.stdout.splitlines()[0].split())
    assert [line.split()[0] for line in result.stderr.splitlines()] == ["fifo", "edf", "greedy"]


@pytest.mark.parametrize("columns", [80, 50])
def test_a_narrow_terminal_shows_fewer_columns_and_cuts_no_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    with terminal(columns, monkeypatch):
        shown = on_two_nodes("compare", folder, "--policy", "fifo,random_greedy")
    assert max(map(len, shown.splitlines())) <= columns
    assert "migrations" not in shown.splitlines()[0]
    assert "random_greedy" in shown
    assert "…" not in shown


def test_an_interrupted_comparison_prints_the_finished_policies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(state: State) -> Decision:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "trainfare.app.queue.simulate.load_policy", lambda name: interrupted if name == "edf" else load_policy(name)
    )
    result = run("schedule", "compare", "--instance", folder, "--nodes", 2, "--policy", "fifo,edf,greedy")
    assert result.exit_code == 130
    assert result.stdout.splitlines()[1].startswith("fifo")
    assert "every other policy was skipped: interrupted" in result.stdout
    assert "greedy" not in result.stdout


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_every_named_file_is_drawn(folder: Path, command: str) -> None:
    drawing, spec = folder / "queue.svg", folder / "queue.json"
    shown = on_two_nodes(command, folder, "--policy", "greedy", "--plot", drawing, "--plot", spec)
    assert "greedy: " in drawing.read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert json.loads(spec.read_text())["$schema"].endswith("v5.json")
    assert f"drawn: {drawing}" in shown


def test_the_bound_is_below_the_cost_of_a_policy(folder: Path) -> None:
    bound = json.loads(on_two_nodes("bound", folder, "--json"))
    record = json.loads(on_two_nodes("simulate", folder, "--policy", "greedy", "--json"))
    assert bound["lower_bound_usd"] == record["lower_bound_usd"] <= record["total_usd"]
    assert on_two_nodes("bound", folder).startswith(f"{format_usd(bound['lower_bound_usd'])}  is a lower bound")


def test_a_generated_queue_can_be_simulated(tmp_path: Path) -> None:
    options = ("--nodes", 3, "--jobs", 4, "--mean-arrival", "30s", "--arrivals", "poisson", "--seed", 2)
    result = invoke("generate", *options, "--into", tmp_path / "made")
    assert result.stdout.startswith("4 jobs on 6 machine types, one every ")
    assert f"next: trainfare schedule compare --instance {tmp_path / 'made'} --nodes 3" in result.stderr
    record = json.loads(invoke("generate", *options, "--into", tmp_path / "made", "--force", "--json").stdout)
    assert (record["job_count"], record["nodes"], record["seed"], record["slots"]) == (4, 3, 2, 14)
    assert 0 < record["mean_arrival_s"] < 90
    shown = invoke("simulate", "--instance", tmp_path / "made", "--nodes", 3, "--policy", "greedy").stdout
    assert "for 4 jobs on 3 nodes with greedy" in shown


def test_an_existing_queue_is_not_overwritten(folder: Path) -> None:
    before = (folder / "jobs.csv").read_text()
    assert "Try `--force`." in complaint("schedule", "generate", "--nodes", 3, "--into", folder)
    assert (folder / "jobs.csv").read_text() == before


def test_a_deadline_before_the_start_of_the_queue_is_negative(tmp_path: Path) -> None:
    past = make_job("past", deadline_seconds=-420.0)
    write_instance(tmp_path, Instance(types=QUEUE.types, slots=QUEUE.slots, jobs=(past,)))
    shown = invoke("simulate", "--instance", tmp_path, "--nodes", 1, "--policy", "fifo").stdout
    assert " -7 min " in shown


def test_a_comparison_needs_a_policy(folder: Path) -> None:
    error = error_of("schedule", "compare", "--instance", folder, "--nodes", 2, "--policy", " , ")
    assert (type(error), error.field) == (UsageError, "policy")


def test_the_next_command_can_be_pasted(tmp_path: Path) -> None:
    result = invoke("generate", "--nodes", 1, "--jobs", 1, "--into", tmp_path / "two words")
    assert f"--instance '{tmp_path / 'two words'}' --nodes 1" in result.stderr

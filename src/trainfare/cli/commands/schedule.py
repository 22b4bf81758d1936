"""`trainfare schedule`: simulate a queue of jobs on rented nodes under any policy, and generate queues."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainfare.app.figures import Figure, require_drawable
from trainfare.app.queue.figures import draw_comparison, draw_simulation
from trainfare.app.queue.simulate import bound_queue, compare_policies, generate_instance, simulate_queue
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.schedule import finished_line, print_bound, print_comparison, print_generated, print_simulation
from trainfare.cli.commands import schedule_trace
from trainfare.cli.console import err, print_json, print_note
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Json, Plot, Store
from trainfare.cli.parsing import parse_delay
from trainfare.errors import UsageError
from trainfare.model.reason import text_reason
from trainfare.scheduler.simulation.options import SimulationOptions
from trainfare.scheduler.simulation.report import PolicyComparison, SimulationReport, SkippedPolicy, rank_reports
from trainfare.scheduler.simulation.simulate import ProgressCallback, SimulationProgress
from trainfare.settings import Settings, read_settings
from trainfare.views.schedule import bound_record, comparison_record, generated_record, simulation_record

SCHEDULES_DRAWN = 3
"""A figure shows the schedules of the named policies if there are at most this many."""
INTERRUPTED_EXIT_CODE = 130

app = typer.Typer(help="Simulate queues of jobs, and compare policies.", no_args_is_help=True)
schedule_trace.add_to(app)

InstanceFolder = Annotated[
    Path | None,
    typer.Option(
        "--instance", metavar="DIR", help="A folder with jobs.csv and times.csv.", show_default="the stored queue"
    ),
]
Nodes = Annotated[int, typer.Option(metavar="N", help="Maximum number of nodes rented at once.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationArguments:
    """The options that `simulate` and `compare` share."""

    nodes: Nodes
    instance: InstanceFolder = None
    mode: Annotated[
        Literal["paper", "real"],
        typer.Option(metavar="paper|real", help="Boots and migrations take no time, or they do."),
    ] = "paper"
    boot: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time to boot a node.", show_default="real: 2min")
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time to save a job.", show_default="real: 30s")
    ] = None
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time between checkpoints.", show_default="real: 10min")
    ] = None
    restart: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time to restore a job.", show_default="real: 1min")
    ] = None
    tick: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Decide at least this often: 15min.", show_default="only at events"),
    ] = None
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of spot reclaims and of --error.")] = 0
    error: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SIGMA", help="Spread of log(true / predicted time): 0.2.", show_default="as in DIR"
        ),
    ] = None
    plot: Plot = None
    json: Json = False
    store: Store = None

    @property
    def files(self) -> list[Path]:
        """The files to draw into; a UsageError if one cannot be drawn."""
        return [require_drawable(path) for path in self.plot or ()]

    @property
    def options(self) -> SimulationOptions:
        return SimulationOptions(
            mode=self.mode,
            boot_seconds=parse_delay("boot_seconds", self.boot),
            checkpoint_seconds=parse_delay("checkpoint_seconds", self.checkpoint),
            checkpoint_every_seconds=parse_delay("checkpoint_every_seconds", self.checkpoint_every),
            restart_seconds=parse_delay("restart_seconds", self.restart),
            tick_seconds=parse_delay("tick_seconds", self.tick),
            seed=self.seed,
            error=self.error,
        )

    @property
    def settings(self) -> Settings:
        return read_settings({"store": self.store})


@app.command("simulate")
@expand_options
def simulate_command(
    *,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Scheduling policy; `compare --help` lists all.")
    ] = "trainfare",
    arguments: SimulationArguments,
) -> None:
    """Simulate one policy on a queue: cost, lateness, late jobs."""

    files, options = arguments.files, arguments.options
    with _progress() as on_progress:
        found = simulate_queue(
            arguments.instance,
            nodes=arguments.nodes,
            policy=policy,
            options=options,
            on_progress=on_progress,
            settings=arguments.settings,
        )
    if files:
        _save(draw_simulation(found), files)
    if arguments.json:
        print_json(simulation_record(found, spell_arguments))
    else:
        print_simulation(found, notes=[f"drawn: {path}" for path in files])


@app.command("compare")
@expand_options
def compare_command(
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Only these of fifo, edf, priority, greedy, random_greedy, path_relinking, per_node, patterns, "
            "trainfare.",
            show_default="all",
        ),
    ] = None,
    arguments: SimulationArguments,
) -> None:
    """Simulate several policies on the same queue, the cheapest first."""

    files, options = arguments.files, arguments.options
    names = [name for name in (policy or "").split(",") if name.strip()]
    if policy is not None and not names:
        raise UsageError("names no policy. Name some, such as fifo,trainfare, or leave it out for all.", field="policy")
    found, is_complete = _compare(names, arguments, options)
    if files:
        _save(draw_comparison(found, names if len(names) <= SCHEDULES_DRAWN else ()), files)
    if arguments.json:
        print_json(comparison_record(found, spell_arguments))
    else:
        print_comparison(found, notes=[f"drawn: {path}" for path in files])
    if not is_complete:
        raise typer.Exit(INTERRUPTED_EXIT_CODE)


def _compare(
    names: list[str], arguments: SimulationArguments, options: SimulationOptions
) -> tuple[PolicyComparison, bool]:
    """The comparison, and False if the user interrupted it: then it has the policies that were finished."""
    finished: list[SimulationReport] = []

    def note(report: SimulationReport) -> None:
        finished.append(report)
        print_note(finished_line(report))

    try:
        with _progress() as on_progress:
            found = compare_policies(
                arguments.instance,
                nodes=arguments.nodes,
                policies=names,
                options=options,
                on_progress=on_progress,
                on_finished=note,
                settings=arguments.settings,
            )
    except KeyboardInterrupt:
        if not finished:
            raise
        rest = SkippedPolicy(policy="every other policy", reason=text_reason("why", "interrupted"))
        return rank_reports(finished, [rest]), False
    return found, True


@app.command("generate")
def generate_command(
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of nodes it is meant for.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    jobs: Annotated[int | None, typer.Option(metavar="J", help="Number of jobs.", show_default="10 per node")] = None,
    load: Annotated[
        float | None,
        typer.Option(metavar="X", help="Share of the nodes that the jobs need.", show_default="1"),
    ] = None,
    mean_arrival: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Mean time between jobs, instead of a load.", show_default=False),
    ] = None,
    arrivals: Annotated[
        Literal["exponential", "poisson"],
        typer.Option(metavar="exponential|poisson", help="Distribution of that time."),
    ] = "exponential",
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the queue.")] = 0,
    error: Annotated[float, typer.Option(min=0, metavar="SIGMA", help="Spread of log(true / predicted time).")] = 0.0,
    spot: Annotated[bool, typer.Option("--spot", help="Add each machine as spot, 60% cheaper.")] = False,
    gangs: Annotated[bool, typer.Option("--gangs", help="Jobs can use 2 or 4 complete nodes.")] = False,
    users: Annotated[int, typer.Option(min=0, metavar="K", help="Number of users with jobs.")] = 0,
    quota: Annotated[
        int | None, typer.Option(min=0, metavar="GPUS", help="GPUs per user at once.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a queue in that folder.")] = False,
    json: Json = False,
) -> None:
    """Generate a random queue, by the rule of Jahani 2019."""

    made = generate_instance(
        nodes=nodes,
        into=into,
        jobs=jobs,
        load=load,
        mean_arrival_seconds=parse_delay("mean_arrival_seconds", mean_arrival),
        arrivals=arrivals,
        seed=seed,
        error=error,
        spot=spot,
        gangs=gangs,
        users=users,
        quota_gpus=quota,
        force=force,
    )
    if json:
        print_json(generated_record(made, str(into), nodes=nodes, seed=seed))
    else:
        print_generated(made, into, nodes)


@app.command("bound")
def bound_command(nodes: Nodes, instance: InstanceFolder = None, json: Json = False, store: Store = None) -> None:
    """Compute a lower bound on the cost of every schedule."""

    found = bound_queue(instance, nodes=nodes, settings=read_settings({"store": store}))
    if json:
        print_json(bound_record(found, spell_arguments))
    else:
        print_bound(found)


def _save(figure: Figure, files: list[Path]) -> None:
    for path in files:
        figure.save(path)


@contextmanager
def _progress() -> Iterator[ProgressCallback | None]:
    """Show one changing line while a simulation runs, if stderr is a terminal."""

    if not err().is_terminal:
        yield None
        return
    with err().status("reading the queue") as status:

        def show(now: SimulationProgress) -> None:
            status.update(
                f"{now.policy}: {now.ended} of {now.jobs} jobs done, {now.running} running, {now.waiting} waiting"
            )

        yield show

"""`trainfare schedule`: a queue of jobs on rented nodes, simulated under any policy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from trainfare.app.figures import require_drawable
from trainfare.app.queue.figures import draw_comparison, draw_simulation
from trainfare.app.queue.simulate import bound_queue, compare_policies, generate_instance, simulate_queue
from trainfare.cli import queue, schedule_trace
from trainfare.cli.console import err, print_json, print_note
from trainfare.cli.options import Json, Store
from trainfare.cli.schedule_card import finished_line, print_bound, print_compared, print_generated, print_simulated
from trainfare.errors import UsageError
from trainfare.model.reason import text_reason
from trainfare.scheduler.simulation.options import SimulationOptions
from trainfare.scheduler.simulation.report import SimulationReport, SkippedPolicy, rank_reports
from trainfare.scheduler.simulation.simulate import ProgressCallback, SimulationProgress
from trainfare.settings import read_settings
from trainfare.units import parse_duration
from trainfare.views.schedule import bound_record, comparison_record, generated_record, simulation_record

app = typer.Typer(help="Plan a queue of jobs on rented machines, and simulate it.", no_args_is_help=True)
queue.add_to(app)
schedule_trace.add_to(app)

Folder = Annotated[
    Path | None,
    typer.Option("--instance", metavar="DIR", help="jobs.csv, times.csv.", show_default="what waits in the store"),
]
Nodes = Annotated[int, typer.Option(metavar="N", help="Machines that may be rented at once.")]
Mode = Annotated[
    Literal["paper", "real"],
    typer.Option(metavar="paper|real", help="Moves and boots take no time; or they do."),
]
Boot = Annotated[str | None, typer.Option(metavar="TIME", help="A node boots so long.", show_default="real: 2min")]
Checkpoint = Annotated[str | None, typer.Option(metavar="TIME", help="To save a job.", show_default="real: 30s")]
CheckpointEvery = Annotated[
    str | None, typer.Option(metavar="TIME", help="A job saves itself so often.", show_default="real: 10min")
]
Restart = Annotated[str | None, typer.Option(metavar="TIME", help="To restore it.", show_default="real: 1min")]
Tick = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Decide after so long without an event: 15min.", show_default="at events only"),
]
Seed = Annotated[int, typer.Option(min=0, metavar="S", help="Of spot and of --error.")]
Error = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SIGMA",
        help="True times are off by a lognormal factor: 0.2.",
        show_default="as in DIR",
    ),
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw it: .html, .png, .svg or .json.", show_default=False),
]


@app.command("simulate")
def simulate_command(
    nodes: Nodes,
    instance: Folder = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Who decides; `compare --help` lists them.")
    ] = "trainfare",
    mode: Mode = "paper",
    boot: Boot = None,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = None,
    restart: Restart = None,
    tick: Tick = None,
    seed: Seed = 0,
    error: Error = None,
    plot: Plot = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """What one policy makes of a queue: rent, lateness, who is late."""

    files = [require_drawable(path) for path in plot or ()]
    options = _options(mode, boot, checkpoint, checkpoint_every, restart, tick, seed, error)
    with _progress() as on_progress:
        found = simulate_queue(
            instance,
            nodes=nodes,
            policy=policy,
            options=options,
            on_progress=on_progress,
            settings=read_settings({"store": store}),
        )
    if files:
        figure = draw_simulation(found)
        for path in files:
            figure.save(path)
    if json:
        print_json(simulation_record(found))
        return

    print_simulated(found, notes=[f"drawn: {path}" for path in files])


@app.command("compare")
def compare_command(
    nodes: Nodes,
    instance: Folder = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Only these of fifo, edf, priority, greedy, random_greedy, path_relinking, per_node, patterns, "
            "trainfare.",
            show_default="all",
        ),
    ] = None,
    mode: Mode = "paper",
    boot: Boot = None,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = None,
    restart: Restart = None,
    tick: Tick = None,
    seed: Seed = 0,
    error: Error = None,
    plot: Plot = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """The same queue under every policy, the cheapest first."""

    files = [require_drawable(path) for path in plot or ()]
    names = [name for name in (policy or "").split(",") if name.strip()]
    if policy is not None and not names:
        raise UsageError("--policy names no policy: give some, as fifo,trainfare, or leave it out for all.")
    finished: list[SimulationReport] = []

    def note(each: SimulationReport) -> None:
        finished.append(each)
        print_note(finished_line(each))

    options = _options(mode, boot, checkpoint, checkpoint_every, restart, tick, seed, error)
    interrupted = False
    try:
        with _progress() as on_progress:
            found = compare_policies(
                instance,
                nodes=nodes,
                policies=names,
                options=options,
                on_progress=on_progress,
                on_finished=note,
                settings=read_settings({"store": store}),
            )
    except KeyboardInterrupt:
        if not finished:
            raise
        rest = SkippedPolicy(policy="the rest", reason=text_reason("why", "it was interrupted"))
        found, interrupted = rank_reports(finished, [rest]), True
    if files:
        figure = draw_comparison(found, names if len(names) <= DRAWN else ())
        for path in files:
            figure.save(path)
    if json:
        print_json(comparison_record(found))
    else:
        print_compared(found, notes=[f"drawn: {path}" for path in files])
    if interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command("generate")
def generate_command(
    nodes: Annotated[int, typer.Option(metavar="N", help="Machines that it is made for.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where it is written.")],
    jobs: Annotated[int | None, typer.Option(metavar="J", help="How many.", show_default="10 a node")] = None,
    load: Annotated[
        float | None,
        typer.Option(metavar="X", help="Of all nodes, the part that jobs need.", show_default="1"),
    ] = None,
    mean_arrival: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Or: from one job to the next.", show_default=False),
    ] = None,
    arrivals: Annotated[
        Literal["exponential", "poisson"],
        typer.Option(metavar="exponential|poisson", help="How that is spread."),
    ] = "exponential",
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Another seed, another queue.")] = 0,
    error: Annotated[
        float, typer.Option(min=0, metavar="SIGMA", help="True times are off by a lognormal factor.")
    ] = 0.0,
    spot: Annotated[bool, typer.Option("--spot", help="Each machine also as spot, 60 % cheaper.")] = False,
    gangs: Annotated[bool, typer.Option("--gangs", help="A job may take 2 or 4 whole nodes.")] = False,
    users: Annotated[int, typer.Option(min=0, metavar="K", help="Who share the jobs.")] = 0,
    quota: Annotated[
        int | None, typer.Option(min=0, metavar="GPUS", help="Of each user at once.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over the queue that is there.")] = False,
    json: Json = False,
) -> None:
    """Make a queue by the rule of Jahani et al. 2019, from a seed."""

    made = generate_instance(
        nodes=nodes,
        into=into,
        jobs=jobs,
        load=load,
        mean_arrival_seconds=_seconds("--mean-arrival", mean_arrival),
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
        return

    print_generated(made, into, nodes)


@app.command("bound")
def bound_command(nodes: Nodes, instance: Folder = None, json: Json = False, store: Store = None) -> None:
    """What no schedule of a queue can cost less than."""

    found = bound_queue(instance, nodes=nodes, settings=read_settings({"store": store}))
    if json:
        print_json(bound_record(found))
        return

    print_bound(found)


DRAWN = 3
"""Schedules below each other in one figure, when so many policies are named."""
INTERRUPTED = 130


def _options(
    mode: Literal["paper", "real"],
    boot: str | None,
    checkpoint: str | None,
    checkpoint_every: str | None,
    restart: str | None,
    tick: str | None,
    seed: int,
    error: float | None,
) -> SimulationOptions:
    return SimulationOptions(
        mode=mode,
        boot_seconds=_seconds("--boot", boot),
        checkpoint_seconds=_seconds("--checkpoint", checkpoint),
        checkpoint_every_seconds=_seconds("--checkpoint-every", checkpoint_every),
        restart_seconds=_seconds("--restart", restart),
        tick_seconds=_seconds("--tick", tick),
        seed=seed,
        error=error,
    )


def _seconds(option: str, text: str | None) -> float | None:
    """A delay may be none: 0, 0s."""

    if text is None:
        return None
    if text.strip().rstrip("smindh") in ("0", "0.0"):
        return 0.0
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None


@contextmanager
def _progress() -> Iterator[ProgressCallback | None]:
    """A line that changes while a simulation runs, where somebody can see it."""

    if not err().is_terminal:
        yield None
        return
    with err().status("reading") as status:

        def show(now: SimulationProgress) -> None:
            status.update(f"{now.policy}: {now.ended} of {now.jobs} jobs done, {now.running} run, {now.waiting} wait")

        yield show

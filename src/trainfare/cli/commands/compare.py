"""`trainfare compare`: the machines that a program was measured on, side by side."""

from collections.abc import Iterator
from typing import Annotated, TypedDict

import typer
from rich.table import Table

from trainfare.app.probing.comparing import compare_on
from trainfare.app.recommending import compare as app
from trainfare.cli.cards.probe_screen import ProbeScreen
from trainfare.cli.console import new_table, out, print_json, print_points
from trainfare.cli.length_options import ProfiledBatch, Samples, parse_whole_amount, whole
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import IterationsPerEpoch, Json, Quiet, Store
from trainfare.cli.parsing import parse_amounts
from trainfare.cli.probe_options import MeasuringOptions, SendingOptions
from trainfare.estimator.cost.relative import relative_to_best
from trainfare.estimator.epochs.two_epochs import cheapest, fastest
from trainfare.recommender.comparison import Comparison, StableComparison
from trainfare.settings import Settings, read_settings
from trainfare.units import format_duration, format_usd
from trainfare.views.comparison import (
    comparison_record,
    length_of,
    longest_sentences,
    remark_sentence,
    winners_sentence,
)
from trainfare.views.intervals import time_with_interval, usd_with_interval
from trainfare.views.probing import machine_probe_record


@expand_options
def compare(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROFILE | -- COMMAND",
            help="Profiles of one program, by default all of the newest program; or, with --on, a program.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="MACHINE,…", help="Measure on these first: ssh/name, local/half.", show_default=False),
    ] = None,
    epochs: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Numbers of epochs to compare (5,10,20).", show_default=False),
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Numbers of steps, instead of epochs.", show_default=False)
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Numbers of tokens, such as 1B,10B.", show_default=False)
    ] = None,
    samples: Samples = None,
    batch_size: ProfiledBatch = None,
    patience: Annotated[
        int, typer.Option(min=1, metavar="N", help="Epochs without improvement that count as stable.")
    ] = 5,
    iterations_per_epoch: IterationsPerEpoch = None,
    measuring: MeasuringOptions,
    sending: SendingOptions,
    quiet: Quiet = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Compare the measured machines: which wins at which length and at which batch size.

    With --on the program is measured on these machines first, all at once: a few iterations on each, or, with
    --until-stable, each batch size until stable on the cheapest machine and for two epochs on the others.
    """

    lengths: ComparedLengths = {
        "epochs": None if epochs is None else [whole(number) for number in parse_amounts("epochs", epochs)],
        "steps": None if steps is None else [round(number) for number in parse_amounts("steps", steps)],
        "tokens": None if tokens is None else parse_amounts("tokens", tokens),
        "samples": parse_whole_amount("samples", samples),
        "profiled_batch_size": batch_size,
        "patience": patience,
        "iterations_per_epoch": iterations_per_epoch,
        "settings": read_settings({"store": store}),
    }
    if on:
        machines = [name for text in on for name in text.split(",")]
        _measure_and_compare(machines, words or [], lengths, measuring, sending, quiet=quiet, as_json=json)
        return
    measuring.require_machines()
    found = app.compare(words or (), **lengths)
    if json:
        print_json(comparison_record(found))
    else:
        _print(found)


class ComparedLengths(TypedDict):
    """The arguments that comparing has with and without measuring."""

    epochs: list[float] | None
    steps: list[int] | None
    tokens: list[float] | None
    samples: int | None
    profiled_batch_size: int | None
    patience: int
    iterations_per_epoch: int | None
    settings: Settings


def _measure_and_compare(
    machines: list[str],
    command: list[str],
    lengths: ComparedLengths,
    measuring: MeasuringOptions,
    sending: SendingOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    screen = ProbeScreen(quiet=quiet)
    try:
        found = compare_on(
            machines,
            command,
            until_stable=measuring.until_stable,
            batch_sizes=measuring.sizes,
            batch_flag=measuring.batch_flag,
            iterations=measuring.iterations,
            max_seconds=measuring.max_seconds,
            terms=sending.terms(measuring.budget),
            on_status=screen.status,
            on_probe=screen.probe,
            **lengths,
        )
    finally:
        screen.close()
    if as_json:
        probes = [machine_probe_record(probe) for probe in found.probes]
        print_json({**comparison_record(found.comparison), "probes": probes, "stable_on": found.stable_on})
    else:
        _print(found.comparison, stable_on=found.stable_on)
    if any(probe.interrupted for probe in found.probes):
        raise typer.Exit(130)


def _print(found: Comparison, *, stable_on: str | None = None) -> None:
    method = f"trained until stable on {stable_on}, the cheapest, and for two epochs on the others"
    print_points(
        [
            *([method] if stable_on else []),
            winners_sentence("fastest", found.fastest, found.unit),
            winners_sentence("cheapest", found.cheapest, found.unit),
            *longest_sentences(found),
            *_stable_winners(found.until_stable),
        ]
    )
    out().print()
    out().print(_simulated(found))
    if found.until_stable is not None:
        out().print()
        out().print(_trained(found.until_stable))
        if found.until_stable.cost_benefit:
            out().print()
            out().print(_benefit(found.until_stable))
    notes = ["x: relative to the best of the column"]
    if _has_delta(found):
        notes.append(f"Δ: speed-up divided by cost ratio, relative to {found.baseline}")
    out().print(" · ".join([*notes, *map(remark_sentence, found.remarks)]), style="dim", soft_wrap=False)


def _stable_winners(found: StableComparison | None) -> Iterator[str]:
    if found is None:
        return
    for goal, choose in (("fastest", fastest), ("cheapest", cheapest)):
        best = choose(found.configurations)
        yield (
            f"until stable, {goal}: {best.machine} at batch size {best.batch_size}, {best.epochs:g} epochs, "
            f"{time_with_interval(best.seconds)}, {usd_with_interval(best.usd)}"
        )
    exhaustive = sum(cost.exhaustive_usd.value for cost in found.method_costs)
    spent = sum(cost.epochs_usd.value for cost in found.method_costs)
    if exhaustive:
        yield (
            f"measuring two epochs per machine cost {format_usd(spent)}; training everything until stable would cost "
            f"{format_usd(exhaustive)}"
        )


def _has_delta(found: Comparison) -> bool:
    """False if no machine has a Δ, because they cost nothing."""
    return any(machine.delta is not None for machines in found.by_iterations.values() for machine in machines)


def _simulated(found: Comparison) -> Table:
    table = new_table()
    deltas = 1 if _has_delta(found) else 0
    table.add_column("machine", overflow="fold")
    for name in ("batch", "iteration"):
        table.add_column(name, justify="right", no_wrap=True)
    for number in found.by_iterations:
        for name in (length_of(number, found.unit), "x", "cost", "x", *["Δ"] * deltas):
            table.add_column(name, justify="right", no_wrap=True)
    for standings in zip(*found.by_iterations.values(), strict=True):
        candidate = standings[0].estimate.candidate
        cells = [
            candidate.offer.vm_type.key,
            str(candidate.batch_size or "–"),
            format_duration(standings[0].estimate.iteration_seconds.value),
        ]
        for standing in standings:
            cells += [
                format_duration(standing.estimate.seconds.value),
                f"{standing.relative_seconds.value:.2f}",
                format_usd(standing.estimate.usd.value),
                f"{standing.relative_usd.value:.2f}",
                *["–" if standing.delta is None else f"{standing.delta:.2f}"] * deltas,
            ]
        table.add_row(*cells)
    return table


def _trained(found: StableComparison) -> Table:
    table = new_table()
    table.add_column("machine")
    for name in ("batch", "epochs", "until stable", "x", "cost", "x"):
        table.add_column(name, justify="right")
    seconds = relative_to_best({c: c.seconds for c in found.configurations})
    usd = relative_to_best({c: c.usd for c in found.configurations})
    for each in found.configurations:
        table.add_row(
            each.machine,
            str(each.batch_size),
            f"{each.epochs:g}",
            format_duration(each.seconds.value),
            f"{seconds[each].value:.2f}",
            format_usd(each.usd.value),
            f"{usd[each].value:.2f}",
        )
    return table


def _benefit(found: StableComparison) -> Table:
    """The table of Malta 2019: time and cost up to the stabilisation point."""

    table = new_table()
    table.add_column("machine")
    for name in ("batch", "iterations", "to the stabilisation point", "speed-up", "cost", "cost ratio", "pays"):
        table.add_column(name, justify="right")
    for each in found.cost_benefit:
        table.add_row(
            each.run.machine,
            str(each.run.batch_size),
            str(each.run.iterations or "–"),
            format_duration(each.run.seconds.value),
            f"{each.speedup.value:.2f}",
            format_usd(each.usd.value),
            f"{each.cost_ratio:.2f}",
            "yes" if each.pays else "·",
        )
    return table

"""A better machine for the rest of a run: one that pays for its move, by what is measured here and predicted there.

    here     = (iterations that are left) · (time of an iteration, as predicted and measured)
    there    = boot + setup + initialisation + first iteration + saving and fetching the checkpoint
               + (the share that is left) · (iterations there) · (time of an iteration there) · e
    e        = max(1, time of an iteration here / as it was predicted here)

A program that is slower here than predicted is taken to be slower there too. A move pays if the worst of the interval
there is better than the best of the interval here, in the quantity that the goal minimises.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import GoalKind
from trainfare.model.run import Run
from trainfare.runner.life import Life
from trainfare.runner.progress import RunProgress, predicted_iteration_seconds
from trainfare.units import format_duration, format_usd

ASSUMED_CHECKPOINT_SECONDS = 60.0
"""The time to save and to fetch a checkpoint, if none was fetched yet."""
_START_PHASES = ("boot", "setup", "initialisation", "first iteration")


@dataclass(frozen=True, slots=True, kw_only=True)
class BetterMachine:
    """The rest of a run on another machine, its move included, and on its own."""

    estimate: Estimate
    seconds: Interval
    usd: Interval
    seconds_here: Interval
    usd_here: Interval

    @property
    def text(self) -> str:
        """The proposal in words."""
        machine = self.estimate.candidate.offer.vm_type.key
        there = f"{machine} would do the rest in {format_duration(self.seconds.value)}"
        here = f"instead of {format_duration(self.seconds_here.value)}"
        if self.usd.value or self.usd_here.value:
            there += f" for {format_usd(self.usd.value)}"
            here += f" for {format_usd(self.usd_here.value)}"
        return f"{there}, its move included, {here} here."


def better_machine(
    run: Run, life: Life, progress: RunProgress, others: Sequence[Estimate], goal: GoalKind
) -> BetterMachine | None:
    """The best of the other machines that pays for its move; None if there is none, or too little is known."""
    left, total, here = progress.remaining_seconds, progress.total_iterations, progress.iteration_seconds
    predicted = predicted_iteration_seconds(run.estimate)
    if not left or not total or here is None or predicted is None or not predicted.value or not progress.is_measured:
        return None
    slower = max(1.0, here.value / predicted.value)
    share = max(0.0, 1 - progress.iterations / total)
    saving = life.checkpoint.cost_seconds if life.checkpoint else ASSUMED_CHECKPOINT_SECONDS
    rate = (life.candidate or run.candidate).usd_per_hour / 3600
    found = []
    for other in others:
        each = predicted_iteration_seconds(other)
        if each is None or other.iterations is None or other.candidate in (life.candidate, run.candidate):
            continue
        start = [phase.seconds for phase in other.phases if phase.name in _START_PHASES]
        seconds = sum(start, Interval.exactly(saving)) + each * (slower * share * other.iterations)
        found.append(
            BetterMachine(
                estimate=other,
                seconds=seconds,
                usd=seconds * (other.candidate.usd_per_hour / 3600),
                seconds_here=left,
                usd_here=left * rate,
            )
        )
    paying = [machine for machine in found if _pays(machine, goal)]
    return min(paying, key=lambda machine: _quantity(machine, goal), default=None)


def _pays(machine: BetterMachine, goal: GoalKind) -> bool:
    faster = machine.seconds.high < machine.seconds_here.low
    if not machine.usd.high and not machine.usd_here.high:
        return faster
    cheaper = machine.usd.high < machine.usd_here.low
    return {"cheapest": cheaper, "fastest": faster, "weighted": faster and cheaper}[goal]


def _quantity(machine: BetterMachine, goal: GoalKind) -> tuple[float, float]:
    figures = (machine.usd.value, machine.seconds.value)
    return figures if goal == "cheapest" else (figures[1], figures[0])

"""The figures of simulations, comparisons and plans."""

from collections.abc import Sequence

from trainfare.app.figures import Figure
from trainfare.errors import UsageError
from trainfare.figures.gantt import gantt_figure
from trainfare.figures.look import NARROW, WIDE
from trainfare.figures.schedule_costs import policies_figure
from trainfare.figures.schedule_look import NOW
from trainfare.scheduler.policies.registry import canonical_policy_name
from trainfare.scheduler.queue_plan import QueuePlan
from trainfare.scheduler.simulation.report import PolicyComparison, SimulationReport

REFERENCE_POLICY = "greedy"
"""The policy that is drawn next to the best one."""


def draw_simulation(report: SimulationReport) -> Figure:
    """A lane for each node and a bar for each job; with many nodes, the sum of their GPUs."""
    wide, narrow = (
        gantt_figure(report.schedule, report.outcome, bound_usd=report.bound.usd, width=width)
        for width in (WIDE, NARROW)
    )
    return Figure(spec=wide, narrow=narrow)


def draw_comparison(comparison: PolicyComparison, policies: Sequence[str] = ()) -> Figure:
    """The cost of each policy; below, the schedules of these policies, or of the cheapest and of greedy."""
    best = comparison.reports[0]
    names = [canonical_policy_name(name) for name in policies] or [best.outcome.policy, REFERENCE_POLICY]
    drawn = [each for each in comparison.reports if each.outcome.policy in names]
    wide, narrow = (
        policies_figure(
            [each.outcome for each in comparison.reports],
            [(each.schedule, each.outcome) for each in drawn],
            bound_usd=best.bound.usd,
            width=width,
        )
        for width in (WIDE, NARROW)
    )
    return Figure(spec=wide, narrow=narrow)


def draw_queue_plan(plan: QueuePlan) -> Figure:
    """The projected schedule from now on: a lane for each node and a bar for each job."""
    if plan.schedule is None or plan.outcome is None:
        raise UsageError("the plan has no jobs, so there is nothing to draw.")
    schedule = plan.schedule.relative_to((plan.made_at - plan.table.origin_at).total_seconds())
    wide, narrow = (
        gantt_figure(schedule, plan.outcome, bound_usd=plan.bound_usd, width=width, since=NOW)
        for width in (WIDE, NARROW)
    )
    return Figure(spec=wide, narrow=narrow)

"""Names of machines from the records in reasons, and limits in words."""

from trainfare.model.plan import Goal
from trainfare.recommender.explain.codes import limit_values
from trainfare.recommender.names import short_name
from trainfare.units import format_duration, format_percent, format_usd
from trainfare.views.values import Values, flag, integer, number, optional_number, record, text


def machine(values: Values, name: str = "machine") -> str:
    """The name of the machine that a reason describes: `4 × aws g4dn.xlarge spot at batch size 256`."""
    described = record(values, name)
    if described is None:
        raise TypeError(f"{name} must be a record")
    return described_machine(described)


def described_machine(described: Values) -> str:
    """The name of a described machine; a single node is not counted."""
    market = text(described, "market")
    nodes = integer(described, "nodes")
    size = optional_number(described, "batch_size")
    return "".join(
        (
            "" if nodes == 1 else f"{nodes} × ",
            short_name(text(described, "provider"), text(described, "machine")),
            " (yours)" if flag(described, "held") else f" {market}" if market in ("spot", "reserved") else "",
            "" if size is None else f" at batch size {size:.0f}",
        )
    )


def limits(values: Values, *, singular: bool = False) -> str:
    """`end within 12 h and cost at most $20.00 with 90% confidence`; empty if there is no limit."""
    s = "s" if singular else ""
    deadline, budget = optional_number(values, "deadline_seconds"), optional_number(values, "budget_usd")
    found = []
    if deadline is not None:
        found.append(f"end{s} within {format_duration(deadline)}")
    if budget is not None:
        found.append(f"cost{s} at most {format_usd(budget)}")
    return f"{' and '.join(found)} with {format_percent(number(values, 'confidence'))} confidence" if found else ""


def goal_limits(goal: Goal, *, singular: bool = False) -> str:
    """The limits of a goal in words."""
    return limits(limit_values(goal), singular=singular)

"""The JSON record, the cells and the columns of what runs have cost."""

from typing import Any

from trainfare.runner.caps import Caps
from trainfare.runner.charges import Charge, CostRow
from trainfare.units import format_duration, format_usd

CSV_COLUMNS = ("day", "run", "program", "machine", "nodes", "market", "user", "machine_hours", "usd")


def cost_row_record(row: CostRow) -> dict[str, Any]:
    return {"name": row.name, "runs": row.runs, "machine_hours": row.machine_seconds / 3600, "usd": row.usd}


def caps_record(caps: Caps) -> dict[str, float | None]:
    """The caps; None where there is none."""
    return {
        "run_usd": caps.run_usd,
        "day_usd": caps.day_usd,
        "month_usd": caps.month_usd,
        "user_month_usd": caps.user_month_usd,
        "user_day_usd": caps.user_day_usd,
        "user_total_usd": caps.user_total_usd,
    }


def caps_sentence(caps: Caps) -> str | None:
    """`Caps: $20.00 a run, $300.00 a month.`; None without caps."""
    words = {
        "a run": caps.run_usd,
        "a day": caps.day_usd,
        "a month": caps.month_usd,
        "a user and day": caps.user_day_usd,
        "a user and month": caps.user_month_usd,
        "a user": caps.user_total_usd,
    }
    named = [f"{format_usd(usd)} {of}" for of, usd in words.items() if usd is not None]
    return f"Caps: {', '.join(named)}." if named else None


def cost_cells(row: CostRow) -> tuple[str, ...]:
    """Name, number of runs, time of all machines, cost."""
    return row.name, str(row.runs), format_duration(row.machine_seconds), format_usd(row.usd)


def charge_cells(charge: Charge) -> tuple[str, ...]:
    """The cells of `CSV_COLUMNS`."""
    offer = charge.candidate.offer
    return (
        charge.since.date().isoformat(),
        charge.run.id,
        charge.run.program.name,
        offer.vm_type.key,
        str(charge.candidate.nodes),
        offer.market,
        charge.user,
        f"{charge.machine_seconds / 3600:.6f}",
        f"{charge.usd:.6f}",
    )

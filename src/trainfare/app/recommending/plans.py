"""Use case: list the stored plans, and show one again."""

from dataclasses import dataclass

from trainfare.model.plan import Plan
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlans:
    """The plans, the newest first, and a sentence for each that is damaged and therefore left out."""

    plans: tuple[Plan, ...]
    damaged: tuple[str, ...]


def list_plans(*, settings: Settings | None = None) -> StoredPlans:
    """All plans that can be read."""
    with open_existing_history((settings or read_settings()).store) as history:
        return StoredPlans(plans=history.plans.all(), damaged=history.damaged)


def show_plan(plan_id: str, *, settings: Settings | None = None) -> Plan:
    """One plan. Raises NotFoundError if there is none of this id."""
    with open_existing_history((settings or read_settings()).store) as history:
        return history.plans.get(plan_id)

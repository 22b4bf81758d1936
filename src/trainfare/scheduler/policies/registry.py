"""The policies by name. A policy is one pure function from the state of the queue to a decision."""

from collections.abc import Callable
from importlib import import_module

from trainfare.errors import NotFoundError
from trainfare.model.queue import Decision, State

Policy = Callable[[State], Decision]

POLICIES: dict[str, str] = {
    "fifo": "first_principles",
    "edf": "first_principles",
    "priority": "first_principles",
    "greedy": "greedy",
    "random_greedy": "random_greedy",
    "path_relinking": "path_relinking",
    "per_node": "per_node",
    "patterns": "patterns",
    "trainfare": "trainfare",
}
"""Name → the file of this folder that has a function of that name."""

DEFAULT_POLICY = "trainfare"


def canonical_policy_name(name: str) -> str:
    """The registered name of a policy: `PathRelinking` and `path-relinking` are `path_relinking`.

    An unknown name raises a NotFoundError with the nearest known one.
    """
    normalized = _normalize(name)
    for known in POLICIES:
        if _normalize(known) == normalized:
            return known
    raise NotFoundError("policy", name, POLICIES, listed_by="trainfare schedule compare -h", field="policy")


def load_policy(name: str) -> Policy:
    """The function of the policy with that name."""
    known = canonical_policy_name(name)
    found: Policy = getattr(import_module(f"trainfare.scheduler.policies.{POLICIES[known]}"), known)
    return found


def _normalize(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")

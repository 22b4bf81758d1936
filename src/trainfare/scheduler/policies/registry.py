"""The policies by name. A policy is one pure function: how things stand → what to do now."""

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
"""Name → the file of this room that has a function of that name."""

DEFAULT_POLICY = "trainfare"


def canonical_policy_name(name: str) -> str:
    """The policy's name as it stands in the register: `PathRelinking` and `path-relinking` are `path_relinking`.

    An unknown one is a NotFoundError with the nearest that there is.
    """
    wanted = _bare(name)
    for known in POLICIES:
        if _bare(known) == wanted:
            return known
    raise NotFoundError("policy", name, POLICIES, listed_by="trainfare schedule compare --help")


def policy(name: str) -> Policy:
    """The policy of that name."""
    known = canonical_policy_name(name)
    found: Policy = getattr(import_module(f"trainfare.scheduler.policies.{POLICIES[known]}"), known)
    return found


def _bare(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")

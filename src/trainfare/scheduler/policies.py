"""The policies by name. A policy is one pure function: how things stand → what to do now."""

from collections.abc import Callable
from importlib import import_module

from trainfare.errors import NotFound
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

OURS = "trainfare"


def policy(name: str) -> Policy:
    """The policy of that name; an unknown one is a NotFound with the nearest that there is."""
    known = name.strip().lower().replace("-", "_")
    if known not in POLICIES:
        raise NotFound("policy", name, POLICIES, listed_by="trainfare schedule compare --help")
    found: Policy = getattr(import_module(f"trainfare.scheduler.{POLICIES[known]}"), known)
    return found

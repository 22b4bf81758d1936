"""The rules by which a fact is appended, which every history follows."""

from dataclasses import replace
from typing import NamedTuple

from trainfare.model.lease import Lease, run_lease_name
from trainfare.model.run import REMARKS, Fact
from trainfare.store.history import AlreadyStoredError, RunEndedError
from trainfare.store.kinds import part_name


class LastFact(NamedTuple):
    """The last fact of a run, as far as the rules need it."""

    number: int
    kind: str


def require_author(fact: Fact, lease: Lease | None) -> None:
    """`ValueError` if the fact needs the lease of its run and has none, or that of another run."""
    if lease is None:
        if fact.kind not in REMARKS:
            raise ValueError(f"a fact of the kind {fact.kind} can only be appended under the lease of its run")
    elif lease.name != run_lease_name(fact.run_id):
        raise ValueError(f"a fact of run {fact.run_id} cannot be appended under the lease {lease.name}")


def next_fact(fact: Fact, *, last: LastFact | None, lease: Lease | None) -> Fact:
    """The fact as it follows the last one; without a lease it takes the next number, whatever number it has."""
    if last is not None and last.kind == "run ended":
        raise RunEndedError(fact.run_id)
    number = 0 if last is None else last.number + 1
    if lease is None:
        return replace(fact, number=number)
    if fact.number < number:
        raise AlreadyStoredError("fact", part_name(fact.run_id, fact.number))
    if fact.number > number:
        raise ValueError(f"fact {fact.number} of run {fact.run_id} cannot follow: the next number is {number}")
    return fact

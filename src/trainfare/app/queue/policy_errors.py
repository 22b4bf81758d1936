"""Failures of policies as errors for the user."""

from collections.abc import Iterator
from contextlib import contextmanager

from trainfare.errors import InfeasibleError, Remedy
from trainfare.scheduler.simulation.simulate import PolicyError, UnfinishedJobsError


@contextmanager
def translate_policy_errors() -> Iterator[None]:
    """Raises InfeasibleError if a policy never finishes the queue, or cannot decide."""
    try:
        yield
    except UnfinishedJobsError as error:
        raise InfeasibleError(
            f"{error}. Nodes are reclaimed before anything is saved, or the policy gives the jobs no nodes: let jobs "
            "write checkpoints, allow more nodes, or use another policy.",
            remedies=[Remedy({"mode": "real", "checkpoint_every_seconds": 600}), Remedy({"policy": "greedy"})],
        ) from error
    except PolicyError as error:
        message = str(error).rstrip(".?")
        raise InfeasibleError(f"{message}. Use another policy.", remedies=[Remedy({"policy": "greedy"})]) from error

"""The question of a plan: on which machines, how many nodes, by which policy, with which quotas."""

from dataclasses import dataclass

from trainfare.errors import UsageError
from trainfare.scheduler.limits import require_nodes
from trainfare.scheduler.policies.registry import DEFAULT_POLICY, canonical_policy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuestion:
    """The options of a plan, shared by Python, the command line and the server."""

    machines: tuple[str, ...] = ()
    """The machines to plan with; none: a few that suit the jobs."""
    nodes: int | None = None
    """The most nodes at once; None: one per job."""
    policy: str = DEFAULT_POLICY
    spot: bool = False
    """Plan with these machines on the spot market too."""
    quotas: tuple[tuple[str, int], ...] = ()
    """(user, GPUs): the most GPUs that the jobs of a user have at once."""

    def __post_init__(self) -> None:
        canonical_policy_name(self.policy)
        if self.nodes is not None:
            require_nodes(self.nodes)
        for user, gpus in self.quotas:
            if gpus < 0:
                raise UsageError(f"the quota of {user} must be 0 GPUs or more, got {gpus}.", field="quotas")

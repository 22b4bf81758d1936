"""A queue imported from a trace, and the number of nodes that suits it."""

import math
from dataclasses import dataclass

from trainfare.model.queue import ExcludedJob, Instance
from trainfare.scheduler.tables import min_node_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceImport:
    """The queue of a trace, and the jobs of it that cannot be scheduled."""

    instance: Instance
    excluded: tuple[ExcludedJob, ...]

    @property
    def last_seconds(self) -> float:
        """The submission of the last job."""
        return self.instance.jobs[-1].submitted_seconds

    @property
    def nodes(self) -> int:
        """The fewest nodes whose load is at most 1; one node per job if all jobs are submitted at once.

        A job that runs only on gangs needs as many nodes as its smallest gang.
        """
        jobs, slots = self.instance.jobs, self.instance.slots
        widest = max(
            min(slot.nodes for slot, seconds in zip(slots, job.seconds, strict=True) if seconds < math.inf)
            for job in jobs
        )
        by_load = math.ceil(min_node_seconds(self.instance) / self.last_seconds) if self.last_seconds else len(jobs)
        return min(max(by_load, widest, 1), max(len(jobs), widest))

    @property
    def load(self) -> float | None:
        """The load of `nodes` nodes; None if all jobs are submitted at once."""
        return min_node_seconds(self.instance) / (self.nodes * self.last_seconds) if self.last_seconds else None

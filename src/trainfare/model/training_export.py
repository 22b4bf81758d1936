"""A training as another tool is to carry it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.program import Program
from trainfare.model.run import RunLimits
from trainfare.model.supplies import DataSource

ExportFormat = Literal["skypilot", "slurm", "script"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The packages that a program needs, for a virtual environment."""

    named_by: str
    """The file that names them."""
    arguments: tuple[str, ...]
    """The words after `pip install`."""
    locked: bool
    """`uv sync` installs the exact versions, where there is uv."""
    source_roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExport:
    """A run or a plan, with everything that a file for another tool needs."""

    id: str
    """The id of the run or the plan."""
    program: Program
    candidate: Candidate
    estimate: Estimate | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    setup: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    data: tuple[DataSource, ...] = ()
    installation: Installation | None = None

    @property
    def longest_seconds(self) -> float | None:
        """The time after which the longest duration or the budget is used up; None without either."""
        limits, price = self.limits, self.candidate.usd_per_hour
        by_budget = None if limits.budget_usd is None or not price else limits.budget_usd / price * 3600
        return min((each for each in (limits.longest_seconds, by_budget) if each is not None), default=None)

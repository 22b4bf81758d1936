"""Everything that the reasons of a plan are derived from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Protocol

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, Scalar
from trainfare.recommender.choose import IdealPoint, Rankable, RankableWithFit, Rejection
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.explain.codes import describe
from trainfare.recommender.here import HereRule


class ComparedCandidate(RankableWithFit, Protocol):
    """A candidate with its time and cost, of which thousands are compared: an Estimate, or only its totals."""

    @property
    def epochs(self) -> int: ...
    @property
    def interruptions(self) -> Interval | None: ...


@dataclass(frozen=True, kw_only=True)  # without slots: properties over thousands of estimates are cached
class ChoiceContext:
    """A choice, what it was made from, and what is known about the profile and the catalog."""

    goal: Goal
    profile: Profile
    """The profile that the chosen estimate is based on."""
    chosen: Estimate
    """The estimate of the plan, with its bill."""
    ordered: Sequence[Estimate]
    """The accepted candidates within the limits, one per machine, best first, for a fixed number of epochs: the
    uncertainty of the number of epochs is the same on all machines. If there are none, only the machine of the first
    segment of the split plan."""
    compared: Mapping[Candidate, ComparedCandidate]
    """All candidates, also those that are not eligible."""
    eligible: Sequence[ComparedCandidate]
    """The candidates that fit in memory on an allowed market, within the limits or not. Under a deadline, spot
    candidates are eligible only if their risk was checked and accepted."""
    accepted: Sequence[ComparedCandidate]
    """The eligible candidates that are within the limits and not rejected for another reason."""
    ideal: IdealPoint
    """The ideal point of the eligible candidates."""
    rejections: Mapping[Candidate, Rejection] = field(default_factory=dict)
    """The reason why a candidate was not accepted."""
    winning_ranges: Sequence[WinningRange] = ()
    """The machine that wins at each number of epochs."""
    incompatible_offers: int = 0
    """Offers of accelerators that the program does not run on."""
    old_marketplace_offers: int = 0
    """Offers of marketplaces whose price is too old to be believed."""
    renewable_prices: bool = True
    """An update of the catalog renews the prices of the chosen provider."""
    spot: bool = False
    """Spot candidates are allowed."""
    reserved: bool | None = None
    """Commitments that would have to be bought are allowed; False: not even those that are held."""
    today: date
    iterations_per_epoch: int | None = None
    planned_iterations: int | None = None
    """The number of iterations, if the program counts in iterations."""
    interruptions: Interruptions | None = None
    """The interruption rate of the chosen machine on spot."""
    front: Sequence[Rankable] = ()
    """The Pareto front of the eligible candidates, the fastest first."""
    knee: Rankable | None = None
    baseline: Rankable | None = None
    """A machine to compare the chosen one with."""
    delta: float | None = None
    """Sanghvi's Δ of the chosen machine relative to the baseline: speed-up / cost ratio."""
    more_why: Sequence[Reason] = ()
    """Further reasons for the choice: the risk of a spot machine, and a split plan."""
    probe: Reason | None = None
    """The measurement that would make the choice more certain, and its cost."""
    epochs: Sequence[Reason] = ()
    """The assumptions about the number of epochs."""
    here: ComparedCandidate | None = None
    """The machine at hand; None if nothing is known about it or the scope leaves it out."""
    here_rule: HereRule | None = None
    """Why the machine at hand is chosen; None if a rental is."""
    rent_from: tuple[int, Rankable] | None = None
    """The number of epochs from which a rental is chosen over the machine at hand, and that rental."""
    other_batch_size: ComparedCandidate | None = None
    """A better candidate at a batch size whose number of epochs is a guess."""

    @cached_property
    def alternatives(self) -> Sequence[ComparedCandidate]:
        """The eligible candidates that other limits would include."""
        never: tuple[Rejection, ...] = ("too_late_for_early_target", "slower_than_here")
        if not any(self.rejected[code] for code in never):
            return self.eligible
        return [e for e in self.eligible if self.rejections.get(e.candidate) not in never]

    @cached_property
    def at_known_sizes(self) -> Sequence[ComparedCandidate]:
        """The compared candidates without the batch sizes at which none is eligible, because their number of epochs is
        a guess."""
        sizes = {e.candidate.batch_size for e in self.eligible} | {self.chosen.candidate.batch_size}
        return [e for e in self.compared.values() if e.candidate.batch_size in sizes]

    @cached_property
    def rejected(self) -> Counter[Rejection]:
        """The number of candidates by the reason of their rejection."""
        return Counter(self.rejections.values())

    @cached_property
    def chosen_for_all_epochs(self) -> ComparedCandidate | Estimate:
        """Time and cost of the chosen candidate for the whole training, as it is compared with the limits: the chosen
        estimate itself covers only the first segment if no single machine is within the limits."""
        return self.compared.get(self.chosen.candidate, self.chosen)

    def describe(self, estimate: Rankable) -> dict[str, Scalar]:
        """The candidate of an estimate, with its batch size if it differs from that of the chosen one."""
        differs = estimate.candidate.batch_size != self.chosen.candidate.batch_size
        return describe(estimate.candidate, with_batch_size=differs)

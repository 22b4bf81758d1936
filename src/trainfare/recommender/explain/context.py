"""Everything that the reasons of a plan are derived from."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Protocol

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, Scalar
from trainfare.model.run import Fact
from trainfare.recommender.choose import IdealPoint, Rejection, Rejections
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.explain.codes import describe
from trainfare.recommender.here import HereRule
from trainfare.recommender.options import Options, Rankable, RankableWithFit

NEVER_INCLUDED: frozenset[Rejection] = frozenset({"too_late_for_early_target", "slower_than_here"})
"""Rejections that another deadline or budget does not lift."""


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
    compared: Options[ComparedCandidate]
    """All candidates, also those that are not eligible."""
    eligible: Options[ComparedCandidate]
    """The candidates that fit in memory on an allowed market, within the limits or not. Under a deadline, spot
    candidates are eligible only if their risk was checked and accepted."""
    accepted: Options[ComparedCandidate]
    """The eligible candidates that are within the limits and not rejected for another reason."""
    ideal: IdealPoint
    """The ideal point of the eligible candidates."""
    rejections: Rejections[ComparedCandidate] = field(default_factory=dict)
    """The candidates that were not accepted, by the reason."""
    winning_ranges: Sequence[WinningRange] = ()
    """The machine that wins at each number of epochs."""
    incompatible_offers: int = 0
    """Offers of accelerators that the program does not run on."""
    old_marketplace_offers: int = 0
    """Offers of marketplaces whose price is too old to be believed."""
    refusals: Sequence[Fact] = ()
    """The last refusals of offers that were left out for them, the newest first."""
    now: datetime | None = None
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
    here_idle_factor: float = 1.0
    """The share of the time of `here` that would remain without other work on it."""
    here_rule: HereRule | None = None
    """Why the machine at hand is chosen; None if a rental is."""
    rent_from: tuple[int, Rankable] | None = None
    """The number of epochs from which a rental is chosen over the machine at hand, and that rental."""
    other_batch_size: ComparedCandidate | None = None
    """A better candidate at a batch size whose number of epochs is a guess."""

    @cached_property
    def alternatives(self) -> Options[ComparedCandidate]:
        """The eligible candidates that other limits would include."""
        found = self.eligible
        for code in NEVER_INCLUDED & self.rejections.keys():
            found = found.without(self.rejections[code])
        return found

    @cached_property
    def at_known_sizes(self) -> Options[ComparedCandidate]:
        """The compared candidates without the batch sizes at which none is eligible, because their number of epochs is
        a guess."""
        sizes = {candidate.batch_size for candidate in (*self.eligible.candidates, self.chosen.candidate)}
        return self.compared.where_candidate(lambda candidate: candidate.batch_size in sizes)

    @cached_property
    def rejected(self) -> Counter[Rejection]:
        """The number of candidates by the reason of their rejection."""
        return Counter({code: len(found) for code, found in self.rejections.items()})

    @cached_property
    def chosen_for_all_epochs(self) -> ComparedCandidate | Estimate:
        """Time and cost of the chosen candidate for the whole training, as it is compared with the limits: the chosen
        estimate itself covers only the first segment if no single machine is within the limits."""
        return next(iter(self.compared.matching(self.chosen.candidate)), self.chosen)

    def describe(self, estimate: Rankable) -> dict[str, Scalar]:
        """The candidate of an estimate, with its batch size if it differs from that of the chosen one."""
        differs = estimate.candidate.batch_size != self.chosen.candidate.batch_size
        return describe(estimate.candidate, with_batch_size=differs)

"""All that the reasons of a Plan are taken from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.model.profile import Profile
from trainfare.recommender.choose import IdealPoint, ideal_point, score, weight_of_time
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.limits import within
from trainfare.recommender.words import candidate_words

ROUNDED = 1e-9
"""What the arithmetic of floats may change."""


@dataclass(frozen=True, kw_only=True)  # without slots: what takes thousands of estimates is computed once
class Case:
    goal: Goal
    profile: Profile
    """The leading one."""
    ordered: Sequence[Estimate]
    """Of those that may be chosen and keep the limits, one a machine, best first; without the doubt that all share how
    many epochs it takes. Where none keeps them, the machine that the first leg is on."""
    estimates: Sequence[Estimate]
    """All."""
    winning_ranges: Sequence[WinningRange]
    """Which machine wins at how many epochs."""
    foreign: int
    guessed_epochs: str | None
    """Why so many epochs, where neither the user nor the program says."""
    spot: bool
    today: date
    iterations_per_epoch: int | None = None
    planned_iterations: int | None = None
    """How many the program trains, where it counts in iterations."""
    interruptions: Interruptions | None = None
    """Of the chosen machine on spot."""
    reserved: bool | None = None
    """Whether commitments that are not held may be chosen; False: not even those that are."""
    may: Sequence[Estimate] = ()
    """Those that may be chosen, whether they keep the limits or not; where none are given, the ordered ones."""
    front: Sequence[Estimate] = ()
    """Of those that may be chosen, the fastest first."""
    knee: Estimate | None = None
    baseline: Estimate | None = None
    """A machine to hold the chosen one against, and Δ, its speed-up for each fold of cost."""
    delta: float | None = None
    probe: str | None = None
    """A sentence: what could be measured to settle it, and what that costs."""
    legs: Sequence[str] = ()
    """Sentences about a training on two machines, one after the other, and what else there is to say for the choice."""
    batch_epochs: str | None = None
    """A sentence: how many epochs are expected at which batch size."""

    @property
    def chosen(self) -> Estimate:
        return self.ordered[0]

    @property
    def choosable(self) -> Sequence[Estimate]:
        return self.may or self.ordered

    @cached_property
    def kept(self) -> tuple[Estimate, ...]:
        """Of those that may be chosen, those that keep the limits and are relied on."""
        return within(self.relied_on, self.goal)

    @cached_property
    def relied_on(self) -> tuple[Estimate, ...]:
        """Without those that keep the limits and look better than the chosen one: something else spoke against them, as
        interruptions do on spot."""
        w, least = weight_of_time(self.goal), self.least
        best = score(self.chosen, w, least) * (1 - ROUNDED)
        dismissed = {id(e) for e in within(self.choosable, self.goal) if score(e, w, least) < best}
        return tuple(e for e in self.choosable if id(e) not in dismissed)

    @cached_property
    def chosen_in_full(self) -> Estimate:
        """As it is held against limits: with the doubt how many epochs it takes."""
        mine = self.chosen.candidate
        same = next((e for e in self.may if e.candidate is mine), None)
        return same or next((e for e in self.may if e.candidate == mine), self.chosen)

    @cached_property
    def least(self) -> IdealPoint:
        return ideal_point(self.choosable)

    def name(self, estimate: Estimate) -> str:
        """`2 × aws g5.xlarge at batch 256`, the batch size where it is not that of the chosen one."""
        other = estimate.candidate.batch_size != self.chosen.candidate.batch_size
        return candidate_words(estimate.candidate, batch=other)

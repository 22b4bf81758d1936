"""Where a run on spot goes on: the same offer, another one, or on demand.

    w      the work that is left on a machine: as predicted for it, as slow as it was measured to be
    R      a start there: boot, setup, initialisation, first iteration, and the checkpoint on its way
    λ      losses per hour of an offer: predicted, and corrected by the losses n that were seen in h hours of it,
           λ = (n + 2) / (h + 2/λ₀)
    cost   price · E, with E the expected time of R and w at λ (`estimator/cost/interruptions.py`)

Of the offers that were not refused a few minutes ago, the one with the least cost is asked for, its move included: a
region that is cheap and loses its machines is not cheap. If no spot machine can be had it is waited for, as long as the
deadline allows it by the rule of `estimator/spot/switching.py`; then the run goes on on demand, to its end. On a spot
machine, the same rule makes it move in time. Without a deadline it waits for a day at most.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfare.estimator.cost.interruptions import CheckpointPlan, expected_seconds
from trainfare.estimator.cost.timing import STARTUP_PHASES
from trainfare.estimator.spot.deadline_risk import work_interval
from trainfare.estimator.spot.switching import may_stay_on_spot, only_spot_is_in_time, slack_seconds
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Market, Offer
from trainfare.model.run import Fact, Run
from trainfare.model.spot import PRIOR_EVENTS
from trainfare.runner.better import ASSUMED_CHECKPOINT_SECONDS
from trainfare.runner.life import Life
from trainfare.runner.limits import format_moment
from trainfare.runner.progress import RunProgress, predicted_iteration_seconds
from trainfare.units import SECONDS_PER_HOUR, format_duration, format_usd

RETRY_SECONDS = 600.0
"""An offer without capacity is asked for again after this time: one comes back once an hour or more rarely."""
REMEMBERED_SECONDS = 86400.0
"""A quota is not asked against again for so long. Without a deadline, a machine is waited for as long."""
LEAVING_SECONDS = 60.0
"""The time until a program has saved and ended, and until the end of its machine is confirmed."""
LEAST_LOSSES_PER_HOUR = 0.01
"""λ₀ of a spot machine of which no loss is predicted."""
_RENTED: tuple[Market, ...] = ("spot", "on_demand")

OfferKey = tuple[str, str, Market]


@dataclass(frozen=True, slots=True)
class SpotRecord:
    """Losses of an offer on spot, and the hours in which its machines ran."""

    losses: int = 0
    hours: float = 0.0

    def __add__(self, other: "SpotRecord") -> "SpotRecord":
        return SpotRecord(self.losses + other.losses, self.hours + other.hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A run at the moment of a decision, and everything that is known about where it could go on."""

    now: datetime
    spent_usd: float
    progress: RunProgress | None
    others: Sequence[Estimate]
    """The other offers of its plan that doors lead to."""
    confidence: float = 0.9
    """The probability with which the work that is left is not underestimated."""
    records: Mapping[OfferKey, SpotRecord]
    """By offer, of this run and of others."""
    refusals: Sequence[Fact] = ()
    """Refusals that other runs have met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """The next machines of a run on spot."""

    candidate: Candidate | None
    """The machines to ask for; None if there are none now, and it waits."""
    text: str
    must_leave: bool = False
    """The deadline is near: machines on spot are left for these, or not asked for."""
    gives_up: bool = False
    """There is nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The rest of a run on one offer."""

    candidate: Candidate
    start: float
    work: Interval
    usd: float
    """Expected, with interruptions."""

    @property
    def offer(self) -> Offer:
        return self.candidate.offer

    @property
    def is_spot(self) -> bool:
        return self.offer.market == "spot"


def onward(run: Run, life: Life, situation: Situation) -> Onward | None:
    """The machines that the run is to have now; None if it was not agreed to on spot, if too little is known about it,
    or if it is on demand: then it stays there."""
    running = life.candidate if life.may_cost else None
    if run.candidate.offer.market != "spot" or run.then is not None or life.is_moving or life.stop_reason is not None:
        return None
    if running is not None and running.offer.market != "spot":
        return None
    left = _share_left(run, life, situation)
    if left is None:
        return None
    if running is None:
        return _between(run, life, situation, _rests(run, life, situation, left, _RENTED))
    steady = _rests(run, life, situation, left, ("on_demand",))
    return _while_running(run, life, situation, steady)


def spot_records(facts: Sequence[Fact]) -> dict[OfferKey, SpotRecord]:
    """The losses and hours on spot in the attempts of a run that have ended."""
    found: dict[OfferKey, SpotRecord] = {}
    offer: Offer | None = None
    ready_at: datetime | None = None
    for fact in facts:
        if fact.kind == "launch intended" and fact.candidate is not None:
            offer, ready_at = fact.candidate.offer, None
        elif fact.kind == "machines ready":
            ready_at = fact.seen_at
        elif fact.kind in ("program ended", "machines lost") and ready_at is not None and offer is not None:
            if offer.market == "spot":
                hours = (fact.seen_at - ready_at).total_seconds() / SECONDS_PER_HOUR
                found[offer.key] = found.get(offer.key, SpotRecord()) + SpotRecord(int(fact.reclaimed), hours)
            ready_at = None
    return found


def _share_left(run: Run, life: Life, situation: Situation) -> float | None:
    """The share of the work that is left: from here on if it trains, else from the checkpoint that it goes on from. One
    whose iterations were not counted saved nothing that is known."""
    total = run.estimate.iterations if run.estimate else None
    if run.estimate is None or (life.ever_started and not total):
        return None
    if not total:
        return 1.0
    last = life.resumed_from if life.may_cost else life.usable_checkpoint
    done = float((last.iteration or 0) if last else 0)
    if life.state == "training":
        done = _iterations_done(run, life, situation)
    return max(0.0, 1 - done / total)


def _iterations_done(run: Run, life: Life, situation: Situation) -> float:
    """The iterations that are done, as counted; where they are not, as many as were predicted for the time."""
    progress, each = situation.progress, predicted_iteration_seconds(run.estimate)
    if progress is not None and progress.is_measured:
        return progress.iterations
    trained = (situation.now - (life.started_at or situation.now)).total_seconds()
    return life.done_before + (max(0.0, trained) / each.value if each is not None and each.value else 0.0)


def _rests(run: Run, life: Life, situation: Situation, left: float, markets: tuple[Market, ...]) -> list[Rest]:
    """The rest on every machine of the same shape on some markets, the cheapest first."""
    known = dict.fromkeys(each for each in (run.estimate, *situation.others) if each is not None)
    same = [each for each in known if each.candidate.shape == run.candidate.shape]
    saving = life.checkpoint.cost_seconds if life.checkpoint else ASSUMED_CHECKPOINT_SECONDS
    found = [
        _rest(each, _work(each, same, life, situation.progress) * left, saving, situation.records)
        for each in same
        if each.candidate.offer.market in markets
    ]
    return sorted(found, key=lambda rest: (rest.usd, rest.work.value))


def _work(estimate: Estimate, known: Sequence[Estimate], life: Life, progress: RunProgress | None) -> Interval:
    """The time of the whole work on a machine: as predicted for it and, once iterations were measured, as slow as they
    are by what was predicted for their machine. On a machine of the same type their interval counts, which narrows; on
    another one the program is not taken to be faster than predicted."""
    work = work_interval(estimate)
    if progress is None or not progress.is_measured or progress.iteration_seconds is None or life.candidate is None:
        return work
    measured, vm_type = progress.iteration_seconds, life.candidate.offer.vm_type
    there = next((each for each in known if each.candidate.offer.vm_type == vm_type), None)
    predicted = predicted_iteration_seconds(there)
    if predicted is None or not predicted.value:
        return work
    if estimate.candidate.offer.vm_type == vm_type:
        return measured * (work.value / predicted.value)
    return work * max(1.0, measured.value / predicted.value)


def _rest(estimate: Estimate, work: Interval, saving: float, records: Mapping[OfferKey, SpotRecord]) -> Rest:
    start = sum(phase.seconds.value for phase in estimate.phases if phase.name in STARTUP_PHASES) + saving
    record = records.get(estimate.candidate.offer.key, SpotRecord())
    seconds = start + work.value
    if estimate.candidate.offer.market == "spot":
        every = estimate.checkpoint_every_seconds or work.value
        pieces = max(1, math.ceil(work.value / every)) if every else 1
        plan = CheckpointPlan(pieces, 0.0, 0.0)
        per_second = losses_per_hour(estimate, record) / SECONDS_PER_HOUR
        seconds = float(expected_seconds(work.value, start=start, plan=plan, per_second=per_second))
    usd = estimate.candidate.usd_per_hour / SECONDS_PER_HOUR * seconds
    return Rest(candidate=estimate.candidate, start=start, work=work, usd=usd)


def losses_per_hour(estimate: Estimate, record: SpotRecord) -> float:
    """λ: as predicted, and as seen."""
    expected = estimate.interruptions.value if estimate.interruptions else 0.0
    predicted = max(LEAST_LOSSES_PER_HOUR, expected / (estimate.seconds.value / SECONDS_PER_HOUR))
    return (record.losses + PRIOR_EVENTS) / (record.hours + PRIOR_EVENTS / predicted)


def _between(run: Run, life: Life, situation: Situation, rests: Sequence[Rest]) -> Onward:
    """The machines of the next attempt."""
    now, deadline, last = situation.now, _deadline(run), run.limits.deadline
    if last is not None and now >= last:
        return Onward(candidate=None, text=f"The deadline of {format_moment(last, now)} has come.", gives_up=True)
    left_usd = math.inf if run.limits.budget_usd is None else run.limits.budget_usd - situation.spent_usd
    payable = [rest for rest in rests if rest.start * rest.candidate.usd_per_hour / SECONDS_PER_HOUR < left_usd]
    if not payable:
        text = f"What is left of its budget, {format_usd(max(0.0, left_usd))}, does not pay for another start."
        return Onward(candidate=None, text=text, gives_up=True)
    refusals = (*life.refusals, *situation.refusals)
    free = [rest for rest in payable if not _is_refused(rest.candidate, refusals, now)]
    spot = [rest for rest in free if rest.is_spot]
    steady = [rest for rest in free if not rest.is_spot and rest.usd <= left_usd]
    fallback = _in_time(steady, deadline, situation)
    if deadline is not None and fallback is not None:
        slack = _slack(fallback, deadline, situation)
        if not may_stay_on_spot(slack):
            text = f"The deadline of {format_moment(deadline, now)} leaves no time for spot"
            text += f": it goes on on {_name(fallback)}."
            return Onward(candidate=fallback.candidate, text=text, must_leave=True)
    affordable = [rest for rest in spot if rest.usd <= left_usd] or spot
    usual = run.estimate.usd.high if run.estimate else 0.0
    if not affordable and deadline is None:  # nothing forces it: only what was agreed to is paid
        affordable = [rest for rest in steady if situation.spent_usd + rest.usd <= usual]
    best = min((*affordable, *(rest for rest in steady if spot)), key=lambda rest: rest.usd, default=None)
    if best is not None:
        return Onward(candidate=best.candidate, text=f"It goes on on {_name(best)}.")
    later = [rest for rest in payable if not rest.is_spot and rest.usd <= left_usd]
    return _waiting(run, life, situation, _in_time(later, deadline, situation))


def _waiting(run: Run, life: Life, situation: Situation, fallback: Rest | None) -> Onward:
    deadline = _deadline(run)
    again = f"it is asked for again every {format_duration(RETRY_SECONDS)}"
    text = f"No spot machine can be had now: {again}."
    if deadline is not None and fallback is not None:
        latest = situation.now + timedelta(seconds=max(0.0, _slack(fallback, deadline, situation)))
        until = format_moment(latest, situation.now)
        text = f"No spot machine can be had now: {again} until {until}, then it goes on on {_name(fallback)}."
    since = life.refused_since or situation.now
    waited = (situation.now - since).total_seconds()
    gives_up = run.limits.deadline is None and waited > REMEMBERED_SECONDS
    return Onward(candidate=None, text=text, gives_up=gives_up)


def _while_running(run: Run, life: Life, situation: Situation, rests: Sequence[Rest]) -> Onward | None:
    """The machines that spot ones are left for, before it is too late; None if they are not. `rests` are those that
    are not interrupted."""
    deadline, progress = _deadline(run), situation.progress
    left_usd = math.inf if run.limits.budget_usd is None else run.limits.budget_usd - situation.spent_usd
    steady = [rest for rest in rests if rest.usd <= left_usd]
    steady = [rest for rest in steady if not _is_refused(rest.candidate, life.refusals, situation.now)]
    fallback = _in_time(steady, deadline, situation)
    if deadline is None or fallback is None:
        return None
    if may_stay_on_spot(_slack(fallback, deadline, situation, unsaved=_unsaved_seconds(life, situation))):
        return None
    until = (deadline - situation.now).total_seconds()
    start, left = fallback.start + LEAVING_SECONDS, fallback.work.value
    known = progress.remaining_seconds if life.state == "training" and progress is not None else None
    left_here = known.value if known is not None else fallback.work.value + fallback.start
    if only_spot_is_in_time(until_deadline=until, start=start, left=left, left_here=left_here):
        return None
    text = f"The deadline of {format_moment(deadline, situation.now)} is near: it goes on on {_name(fallback)} in time."
    return Onward(candidate=fallback.candidate, text=text, must_leave=True)


def _unsaved_seconds(life: Life, situation: Situation) -> float:
    """The work since the last checkpoint that is at home."""
    progress = situation.progress
    if life.state != "training" or life.started_at is None:
        return 0.0
    if progress is not None and progress.is_measured and progress.iteration_seconds is not None:
        saved = (life.checkpoint.iteration or 0) if life.checkpoint else 0
        return max(0, progress.iterations - saved) * progress.iteration_seconds.value
    is_own = life.checkpoint_at is not None and life.checkpoint_attempt == life.attempt
    since = life.checkpoint_at if is_own and life.checkpoint_at is not None else life.started_at
    return max(0.0, (situation.now - since).total_seconds())


def _deadline(run: Run) -> datetime | None:
    """The moment at which the run must have ended, or should have by its plan."""
    return min((each for each in (run.limits.deadline, run.due) if each is not None), default=None)


def _slack(fallback: Rest, deadline: datetime, situation: Situation, *, unsaved: float = 0.0) -> float:
    return slack_seconds(
        until_deadline=(deadline - situation.now).total_seconds(),
        start=fallback.start + LEAVING_SECONDS,
        left=fallback.work.upper_bound(situation.confidence),
        unsaved=unsaved,
    )


def _in_time(steady: Sequence[Rest], deadline: datetime | None, situation: Situation) -> Rest | None:
    """The cheapest machine that is not interrupted and still in time; the fastest if none is."""
    if deadline is None:
        return min(steady, key=lambda rest: rest.usd, default=None)
    in_time = [rest for rest in steady if _slack(rest, deadline, situation) >= 0]
    if in_time:
        return min(in_time, key=lambda rest: rest.usd)
    return min(steady, key=lambda rest: rest.start + rest.work.value, default=None)


def _is_refused(candidate: Candidate, refusals: Sequence[Fact], now: datetime) -> bool:
    """True if the offer was refused a short time ago, or for a quota within a day."""
    for fact in refusals:
        if fact.candidate is not None and fact.candidate.offer.key == candidate.offer.key:
            pause = REMEMBERED_SECONDS if fact.refusal == "quota" else RETRY_SECONDS
            if now - fact.seen_at < timedelta(seconds=pause):
                return True
    return False


def _name(rest: Rest) -> str:
    market = "spot" if rest.is_spot else "on demand"
    price = format_usd(rest.candidate.usd_per_hour)
    return f"{rest.offer.vm_type.key} in {rest.offer.region} {market} ({price} an hour)"

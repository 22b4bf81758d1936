"""Fixed rules for where a run on spot goes on, in the place of `runner/recovery.py`."""

from collections.abc import Sequence
from datetime import timedelta

from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.run import Run
from trainfare.runner.life import Life
from trainfare.runner.recovery import RETRY_SECONDS, Onward, Situation


def same_zone(run: Run, life: Life, situation: Situation) -> Onward | None:
    """The zone of the plan, again and again; never on demand."""
    return _first_free([run.candidate], life, situation)


def next_by_price(run: Run, life: Life, situation: Situation) -> Onward | None:
    """Like the managed jobs of SkyPilot with the strategy FAILOVER: the same zone again, then the next by price, over
    all regions; if there is none, all again; never on demand."""

    def price(estimate: Estimate) -> float:
        return estimate.candidate.usd_per_hour

    spot = sorted((each for each in situation.others if each.candidate.offer.market == "spot"), key=price)
    last = life.candidate if life.candidate is not None else run.candidate
    every = [last, run.candidate, *(each.candidate for each in spot)]
    return _first_free(list(dict.fromkeys(every)), life, situation)


def _first_free(candidates: Sequence[Candidate], life: Life, situation: Situation) -> Onward | None:
    if life.may_cost or life.stop_reason is not None:
        return None
    pause = timedelta(seconds=RETRY_SECONDS)
    refused = [fact.candidate for fact in life.refusals if situation.now - fact.seen_at < pause]
    free = next((each for each in candidates if each not in refused), None)
    return Onward(candidate=free, text="No machine can be had now." if free is None else "It goes on.")

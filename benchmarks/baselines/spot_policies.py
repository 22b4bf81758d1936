"""When to be on spot, when on demand, and when to wait, so that a training ends in time and costs little.

A policy is one function of the moment: SpotState → "spot", "on demand" or "wait". All but `spot_only` keep one
invariant, as long as on demand can be had: at every moment, going over to on demand ends before the deadline D,

    t + R + w + u ≤ D

with R a start, w the work left and u what is done but not saved, which a loss would take. The state is looked at every
Δ seconds, so spot or waiting is safe if it holds at t + Δ. What D cannot allow from the beginning begins on demand.

    on demand only     to the end
    spot only          waits where there is none, and may be late
    reserve            spot while a share of the first slack is left; with none reserved, `greedy`: until the last safe
                       moment, then on demand to the end
    uniform progress   on demand whenever the work done is behind the straight line from 0 to D and no spot can be had,
                       and then until it is 2·R ahead; spot whenever one can be had (Wu et al., "Can't Be Late:
                       Optimizing Spot Instance Savings under Deadlines", NSDI 2024)
    guarded            what another asks for, here the action of least expected cost, unless it is not safe
"""

from collections.abc import Callable

from trainfare.model.spot import Action, SpotState, SpotTraining

Policy = Callable[[SpotState], Action]


def on_demand_only(_: SpotState) -> Action:
    return "on demand"


def spot_only(state: SpotState) -> Action:
    return "spot" if state.available else "wait"


def greedy(training: SpotTraining) -> Policy:
    return reserve(training, share=0.0)


def reserve(training: SpotTraining, *, share: float) -> Policy:
    """Goes over when less than `share` of the slack of the beginning is left; 0.2 is a usual rule of thumb."""
    kept = share * max(0.0, training.slack_seconds)

    def decide(state: SpotState) -> Action:
        if state.running == "on demand" or not is_safe(training, state, kept):
            return _in_a_hurry(training, state)
        return "spot" if state.available else "wait"

    return decide


def uniform_progress(training: SpotTraining) -> Policy:
    pace = training.work_seconds / training.deadline_seconds
    ahead = 2 * training.start_seconds

    def decide(state: SpotState) -> Action:
        if not is_safe(training, state):
            return _in_a_hurry(training, state)
        if state.available:
            return "spot"
        done = training.work_seconds - state.left_seconds
        wanted = pace * (state.seconds + (ahead if state.running == "on demand" else 0.0))
        return "on demand" if done < wanted else "wait"

    return decide


def guarded(training: SpotTraining, wish: Policy) -> Policy:
    def decide(state: SpotState) -> Action:
        if not is_safe(training, state):
            return _in_a_hurry(training, state)
        asked = wish(state)
        return "wait" if asked == "spot" and not state.available else asked

    return decide


def is_safe(training: SpotTraining, state: SpotState, kept: float = 0.0) -> bool:
    """Whether another moment on spot, or waiting, still leaves time to finish on demand, and `kept` seconds more."""
    return slack(training, state) - kept >= training.decide_every_seconds


def slack(training: SpotTraining, state: SpotState) -> float:
    """Seconds for which one need not be on demand yet, everything unsaved being lost."""
    needed = training.start_seconds + state.left_seconds + state.unsaved_seconds
    return training.deadline_seconds - state.seconds - needed


def _in_a_hurry(training: SpotTraining, state: SpotState) -> Action:
    """On demand; but where that is too late already, stay with a spot machine that may still make it."""
    if state.running == "spot" and state.available:
        on_demand = state.seconds + training.start_seconds + state.left_seconds
        as_is = state.seconds + state.starting_seconds + state.left_seconds
        if on_demand > training.deadline_seconds >= as_is:
            return "spot"
    return "on demand"

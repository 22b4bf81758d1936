"""Policies that choose between spot, on demand and waiting so that a training meets its deadline at a low cost.

A policy is a function of the current state: SpotState → "spot", "on demand" or "wait". All but `spot_only` maintain one
invariant, as long as on-demand machines are available: at every moment, a change to on demand ends before the deadline,

    t + R + w + u ≤ D

with R a start, w the remaining work and u unsaved work, which a loss would discard. Decisions are made every Δ seconds,
so spot or waiting is safe if the invariant holds at t + Δ. A deadline that is too short begins on demand.

    on demand only     to the end
    spot only          waits while no spot machine is available, and may be late
    reserve            spot while a share of the initial slack is left; with no reserve, `greedy`: until the last safe
                       moment, then on demand to the end
    uniform progress   on demand whenever the work done is behind the straight line from 0 to D and no spot machine is
                       available, and then until it is 2·R ahead; spot whenever one is available (Wu et al., "Can't Be
                       Late: Optimizing Spot Instance Savings under Deadlines", NSDI 2024)
    guarded            the action of another policy, here that of least expected cost, unless it is not safe
"""

from collections.abc import Callable

from trainfare.estimator.spot.switching import may_stay_on_spot, only_spot_is_in_time, slack_seconds
from trainfare.model.spot import Action, SpotState, SpotTraining

Policy = Callable[[SpotState], Action]


def on_demand_only(_: SpotState) -> Action:
    return "on demand"


def spot_only(state: SpotState) -> Action:
    return "spot" if state.available else "wait"


def greedy(training: SpotTraining) -> Policy:
    return reserve(training, share=0.0)


def reserve(training: SpotTraining, *, share: float) -> Policy:
    """Changes to on demand when less than `share` of the initial slack is left; 0.2 is a common rule of thumb."""
    reserved = share * max(0.0, training.slack_seconds)

    def decide(state: SpotState) -> Action:
        if state.running == "on demand" or not is_safe(training, state, reserved):
            return _finish_in_time(training, state)
        return "spot" if state.available else "wait"

    return decide


def uniform_progress(training: SpotTraining) -> Policy:
    pace = training.work_seconds / training.deadline_seconds
    ahead = 2 * training.start_seconds

    def decide(state: SpotState) -> Action:
        if not is_safe(training, state):
            return _finish_in_time(training, state)
        if state.available:
            return "spot"
        done = training.work_seconds - state.left_seconds
        required = pace * (state.seconds + (ahead if state.running == "on demand" else 0.0))
        return "on demand" if done < required else "wait"

    return decide


def guarded(training: SpotTraining, policy: Policy) -> Policy:
    """The action of `policy` while it is safe, then on demand."""

    def decide(state: SpotState) -> Action:
        if not is_safe(training, state):
            return _finish_in_time(training, state)
        action = policy(state)
        return "wait" if action == "spot" and not state.available else action

    return decide


def is_safe(training: SpotTraining, state: SpotState, reserved: float = 0.0) -> bool:
    """True if on demand still finishes in time after one more decision interval, with `reserved` seconds to spare."""
    return may_stay_on_spot(slack(training, state) - reserved, decide_every=training.decide_every_seconds)


def slack(training: SpotTraining, state: SpotState) -> float:
    """Seconds until on demand must begin, if all unsaved work is lost."""
    return slack_seconds(
        until_deadline=training.deadline_seconds - state.seconds,
        start=training.start_seconds,
        left=state.left_seconds,
        unsaved=state.unsaved_seconds,
    )


def _finish_in_time(training: SpotTraining, state: SpotState) -> Action:
    """On demand; or the running spot machine, where on demand would be too late and spot may still be in time."""
    if state.running == "spot" and state.available:
        is_only = only_spot_is_in_time(
            until_deadline=training.deadline_seconds - state.seconds,
            start=training.start_seconds,
            left=state.left_seconds,
            left_here=state.starting_seconds + state.left_seconds,
        )
        if is_only:
            return "spot"
    return "on demand"

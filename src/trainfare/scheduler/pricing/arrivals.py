"""The expected rate of submissions, from the submissions so far.

    λ   = n / (now + 5 t̄/N)                       n jobs submitted since the start, N nodes, t̄ the mean shortest time
    λ_a = 0.7 · min(λ, 2 / (now - last arrival))

The term 5 t̄/N keeps the first jobs from looking like a burst. The expected rate falls while no jobs arrive: with a
constant rate after the last arrival, jobs wait for other jobs that never come.
"""

from trainfare.model.queue import State

FIRST_JOBS = 5.0
CONFIDENCE = 0.7
"""The part of the estimated rate that is expected to continue."""
SILENCE = 2.0
"""After s seconds without an arrival the rate is at most this / s."""


def arrivals_per_second(state: State) -> float:
    """λ: the mean rate of arrivals so far."""
    arrivals = state.arrivals
    spread = FIRST_JOBS * arrivals.mean_shortest_seconds / state.fleet.nodes
    return arrivals.jobs / (state.now_seconds + spread) if state.now_seconds + spread > 0 else 0.0


def expected_arrivals_per_second(state: State) -> float:
    """λ_a: the rate of arrivals that is expected from now on."""
    rate = arrivals_per_second(state)
    silent_seconds = state.now_seconds - state.arrivals.last_seconds
    if silent_seconds > 0:
        rate = min(rate, SILENCE / silent_seconds)
    return CONFIDENCE * rate

"""How often jobs are believed to arrive, by those that have.

    λ   = n / (now + 5 t̄/N)                       n jobs seen since the start, N nodes, t̄ the mean shortest time
    λ_a = 0.7 · min(λ, 2 / (now - last arrival))

The term 5 t̄/N keeps the first jobs from looking like a flood. Belief in arrivals decays while none come: to believe
that they go on after the last one makes jobs wait for company that never comes.
"""

from trainfare.model.queue import State

FIRST_JOBS = 5.0
BELIEVED = 0.7
SILENCE = 2.0


def arrivals_per_second(state: State) -> float:
    """λ: the plain rate of arrivals so far."""
    seen = state.arrivals
    spread = FIRST_JOBS * seen.mean_shortest_seconds / state.fleet.nodes
    return seen.jobs / (state.now_seconds + spread) if state.now_seconds + spread > 0 else 0.0


def expected_arrivals_per_second(state: State) -> float:
    """λ_a: what is counted on from now."""
    rate = arrivals_per_second(state)
    silent_seconds = state.now_seconds - state.arrivals.last_seconds
    if silent_seconds > 0:
        rate = min(rate, SILENCE / silent_seconds)
    return BELIEVED * rate

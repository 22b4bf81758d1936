"""Deadlines on spot machines: the probability of being late, and the cost of changing to on demand in time."""

"""The team's queue: submit, list, plan, simulate, compare policies."""

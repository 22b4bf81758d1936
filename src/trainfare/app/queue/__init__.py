"""The queue of a team: submit, plan, simulate, compare."""

"""Times that were measured: one iteration, its repeats, and slices of the same machine."""

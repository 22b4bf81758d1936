"""Iteration times that were measured: one run, its repeats, and CPU slices of the same machine."""

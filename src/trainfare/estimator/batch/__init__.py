"""Iteration time and operations at a batch size that was not profiled."""

"""Doors to machines. One today: slices of the machine at hand (`local.py`)."""

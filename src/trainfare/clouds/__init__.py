"""Doors to machines. There is one so far: slices of this machine (`local.py`)."""

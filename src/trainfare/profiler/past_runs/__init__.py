"""Past runs without a rerun: one file reads one kind of log, `profile.py` makes a Profile of what was logged."""

"""Starts the program under the probe and turns its raw samples into a Profile.

command.py   what can be said of a command before it runs      measure.py    the door: one run under the probe
enough.py    when enough was seen (pure)                        workspace.py  where it runs: a copy of its folder
output.py    what the program prints: shown, kept in part       processes.py  nothing of it is left running
events.py    the probe's events → a Profile (pure)              host.py       this machine, as it describes itself
here.py      the probe in a process that measures itself        past/         what past runs left behind → a Profile
"""

"""Starts the program under the probe and turns its raw samples into a Profile.

command.py   what can be said of a command before it runs      measure.py   the door: one run under the probe
output.py    what the program prints: shown, kept in part       processes.py  nothing of it is left running
events.py    the probe's events → a Profile (pure)              host.py       this machine, as it describes itself
"""

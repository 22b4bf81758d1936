"""Runs a program under the probe and turns its events into a Profile; imports past runs.

measure.py      one run of the program under the probe       workspace.py   a copy of the folder in which it runs
stopping.py     the rules that end a measurement (pure)       processes.py   ends every process that it started
events.py       the probe's events → a Profile (pure)         output.py      its output: shown, stored in part
command.py      the words of its command                      host.py        the machine that it runs on
in_process.py   the probe in a process that measures itself   past_runs/     logs of past runs → a Profile
"""

"""Runs: agree on one, start and attend it, stop it, list them, show one."""

from trainfare.app.running.run import Reaped as Reaped
from trainfare.app.running.run import RunOptions as RunOptions
from trainfare.app.running.run import agree as agree
from trainfare.app.running.run import attend as attend
from trainfare.app.running.run import reap as reap
from trainfare.app.running.run import start_run as start
from trainfare.app.running.run import stop_run as stop
from trainfare.app.running.status import list_runs as all
from trainfare.app.running.status import read_output as output
from trainfare.app.running.status import show_run as show

__all__ = [
    "Reaped",
    "RunOptions",
    "agree",
    "all",
    "attend",
    "output",
    "reap",
    "show",
    "start",
    "stop",
]

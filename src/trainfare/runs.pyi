"""Runs: agree on one, start and attend it, stop it, fetch its results, list them, show one."""

from trainfare.app.programs.sources import ProgramSource as ProgramSource
from trainfare.app.programs.sources import read_program as read_program
from trainfare.app.running.export import ExportedFile as ExportedFile
from trainfare.app.running.export import export as export
from trainfare.app.running.last_lines import last_lines as last_lines
from trainfare.app.running.moves import move_run as move
from trainfare.app.running.results import FetchedResults as FetchedResults
from trainfare.app.running.results import fetch_results as results
from trainfare.app.running.results import result_files as result_files
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
    "ExportedFile",
    "FetchedResults",
    "ProgramSource",
    "Reaped",
    "RunOptions",
    "agree",
    "all",
    "attend",
    "export",
    "last_lines",
    "move",
    "output",
    "read_program",
    "reap",
    "result_files",
    "results",
    "show",
    "start",
    "stop",
]

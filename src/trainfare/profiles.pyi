"""Stored profiles: list them, show one or its log, remove some, load one from another machine."""

from trainfare.app.profiling.profiles import import_profile as load
from trainfare.app.profiling.profiles import list_profiles as all
from trainfare.app.profiling.profiles import remove_profiles as remove
from trainfare.app.profiling.profiles import show_log as log
from trainfare.app.profiling.profiles import show_profile as show

__all__ = [
    "all",
    "load",
    "log",
    "remove",
    "show",
]

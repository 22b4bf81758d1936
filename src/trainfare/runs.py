"""Runs: agree on one, start and attend it, stop it, fetch its results, list them, show one."""

from trainfare._public import public_names

__getattr__, __dir__ = public_names(__name__, __file__)

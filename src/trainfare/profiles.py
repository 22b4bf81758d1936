"""Stored profiles: list them, show one or its log, remove some, load one from another machine."""

from trainfare._public import public_names

__getattr__, __dir__ = public_names(__name__, __file__)

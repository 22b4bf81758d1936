"""The queue of a team: submit jobs, plan who runs where and when, simulate and compare policies."""

from trainfare._public import public_names

__getattr__, __dir__ = public_names(__name__, __file__)

"""Offers and GPU facts: the bundled dated tables, imported price tables, the user's own machines."""

from trainfare._public import public_names

__getattr__, __dir__ = public_names(__name__, __file__)

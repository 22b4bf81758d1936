"""Coefficients of the predictions: fit them to your own measurements, list them, choose one."""

from trainfare._public import public_names

__getattr__, __dir__ = public_names(__name__, __file__)

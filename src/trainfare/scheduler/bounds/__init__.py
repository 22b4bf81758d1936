"""Costs that no schedule can beat."""

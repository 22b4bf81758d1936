"""Packing: which jobs share which node."""

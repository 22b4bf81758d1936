"""Offers, GPUs, commitments and calibrations."""

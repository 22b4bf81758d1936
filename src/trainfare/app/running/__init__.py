"""Carrying a plan out: start, watch, stop, collect, receipt."""

"""Starts the program under the probe and turns its raw samples into a Profile."""

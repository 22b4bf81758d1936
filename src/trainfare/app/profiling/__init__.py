"""Measure a program, import a past run, and manage the stored profiles."""

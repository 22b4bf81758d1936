"""Tests of the forms in which programs are given."""

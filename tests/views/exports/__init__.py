"""Tests of files for other tools."""

"""Fixtures of every test of a door."""

from tests.rigs.fixtures import fresh_rig, rig, user_of_rig

__all__ = ["fresh_rig", "rig", "user_of_rig"]

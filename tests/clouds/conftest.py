"""Fixtures of every test of a door."""

from tests.rigs.fixtures import cluster, fresh_rig, rig, user_of_cluster, user_of_rig

__all__ = ["cluster", "fresh_rig", "rig", "user_of_cluster", "user_of_rig"]

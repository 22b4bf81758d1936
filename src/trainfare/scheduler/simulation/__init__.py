"""Simulation of a queue under a policy, event by event, and generated queues to try."""

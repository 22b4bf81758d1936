"""What is left of runs whose supervisor is killed at every labelled point, and what becomes of other faults."""

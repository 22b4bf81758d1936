"""What runs on a machine next to the training program: one file, `agent.py`, with the standard library only."""

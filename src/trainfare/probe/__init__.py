"""Runs inside the user's process; standard library only, imports nothing of ours."""

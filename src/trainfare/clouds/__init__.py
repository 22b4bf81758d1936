"""Doors to machines: local, ssh, aws, skypilot, slurm. Empty until plans are carried out."""

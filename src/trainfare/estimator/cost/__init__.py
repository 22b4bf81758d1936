"""From time to money: phases, bills, checkpoints, interruptions and migrations."""

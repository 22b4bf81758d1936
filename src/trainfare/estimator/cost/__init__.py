"""Time and money: phases, bills, checkpoints, interruptions and migrations."""

"""What it costs to find the machine, and to train there: each policy against an oracle that knew."""

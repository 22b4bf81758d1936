"""The time of one iteration on any machine, from the best evidence that the profiles give."""

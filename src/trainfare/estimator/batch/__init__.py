"""The operations and the time of one iteration at another batch size."""

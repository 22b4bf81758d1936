"""Which machine to measure next, and when to stop measuring."""

"""Cost of finding a machine and training there: each policy relative to an oracle."""

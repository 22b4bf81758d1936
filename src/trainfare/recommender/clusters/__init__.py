"""How many workers behind a parameter server: FC2's algorithms and our own."""

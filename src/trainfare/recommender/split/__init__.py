"""Training the first epochs on one machine and the rest on another."""

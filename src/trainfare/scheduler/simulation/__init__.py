"""A queue that a policy works off, event by event, and generated queues to try."""

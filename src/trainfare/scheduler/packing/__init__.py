"""Which jobs share which node."""

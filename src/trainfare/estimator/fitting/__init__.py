"""Statistics that several fitted models share."""

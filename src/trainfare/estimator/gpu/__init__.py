"""The time of one iteration on another GPU: from its operations, its timed operators, or its times elsewhere."""

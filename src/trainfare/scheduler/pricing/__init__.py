"""What a slot, a delay and a second of a node are worth."""

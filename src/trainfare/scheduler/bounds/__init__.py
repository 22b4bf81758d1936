"""Lower bounds: costs that no schedule can be below."""

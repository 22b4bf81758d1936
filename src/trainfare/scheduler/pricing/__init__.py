"""Prices for slots, waiting and node time, from the present queue and a look at its future."""

"""The use cases, one a file: they wire the rooms, ask the clock, open the store."""

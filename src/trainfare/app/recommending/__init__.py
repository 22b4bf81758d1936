"""Which machine, how long, how much: recommend, estimate, predict, compare, epochs, probe."""

"""How well a profile on one CPU predicts other CPU machines: slices of this machine, and published runs."""

"""The time of an iteration on another CPU: the machine, a model of its operations, and the transfer of a time."""

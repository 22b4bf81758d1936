"""Trains without any framework."""
# ruff: noqa: T201 # it reports to the test

weights = [0.5, 0.25]
for _ in range(100):
    weights = [w - 0.01 * 2 * w for w in weights]
print(weights)

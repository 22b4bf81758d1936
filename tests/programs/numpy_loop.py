"""Trains without any framework."""

weights = [0.5, 0.25]
for _ in range(100):
    weights = [w - 0.01 * 2 * w for w in weights]
print(weights)

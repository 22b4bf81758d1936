"""Measures its own `fit`, which must still train to its end."""
# mypy: ignore-errors

import json

import keras
import numpy as np

import trainfare

data = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
with trainfare.profile(iterations=10) as measured:
    history = model.fit(*data, batch_size=4, epochs=3, validation_data=data, verbose=0)
again = model.fit(*data, batch_size=4, epochs=2, verbose=0)
profile = measured.profile
print(
    json.dumps(
        {
            "epochs": [len(history.epoch), len(again.epoch)],
            "iterations": profile and len(profile.iteration_seconds),
            "framework": profile and profile.framework,
            "batch_size": profile and profile.micro_batch_size,
        }
    )
)

"""Keras on a `PyDataset` of unknown batch size, in a loop of `fit` calls of one epoch."""
# mypy: ignore-errors

import keras
import numpy as np


class Stream(keras.utils.PyDataset):
    def __len__(self):
        return 11

    def __getitem__(self, index):
        numbers = np.random.default_rng(index)
        return {"pixels": numbers.normal(size=(10, 8)).astype("float32")}, numbers.integers(3, size=10)


pixels = keras.layers.Input((8,), name="pixels")
model = keras.Model({"pixels": pixels}, keras.layers.Dense(3)(pixels))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
for _ in range(4):
    model.fit(Stream(), epochs=1, verbose=0)

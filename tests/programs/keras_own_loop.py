"""Keras without `fit`: `train_on_batch` and `evaluate` in a loop, which prints its own measurements as JSON."""
# mypy: ignore-errors

import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

numbers = np.random.default_rng(0)
images, labels = numbers.normal(size=(100, 8)).astype("float32"), numbers.integers(3, size=100)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(3)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
report = {"ends": [], "validations": []}
try:
    for _ in range(3):
        report["ends"].append([time.monotonic()])
        for start in range(0, 100, 10):
            time.sleep(0.006)
            try:
                model.train_on_batch(images[start : start + 10], labels[start : start + 10])
            finally:
                report["ends"][-1].append(time.monotonic())
        begun = time.monotonic()
        model.evaluate(images, labels, verbose=0)
        report["validations"].append(time.monotonic() - begun)
finally:
    print(json.dumps(report), flush=True)

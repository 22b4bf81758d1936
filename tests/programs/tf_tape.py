"""Loops over `tf.GradientTape`, in several shapes. Times itself and prints its own measurements as JSON.

The data pipeline sleeps, so that the length of an iteration does not hang on how busy the machine is.
"""
# mypy: ignore-errors

import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("shape", choices=["eager", "function", "loop"])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--sleep", type=float, default=0.006)
arguments = parser.parse_args()

tf.keras.utils.set_random_seed(3)
SAMPLES, BATCH = 107, 10
numbers = np.random.default_rng(0)
images, labels = numbers.normal(size=(SAMPLES, 8)).astype("float32"), numbers.integers(3, size=SAMPLES)
training = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH).prefetch(2)
validation = tf.data.Dataset.from_tensor_slices((images[:30], labels[:30])).batch(BATCH)
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(16), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.Adam(1e-2)
cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
report = {"starts": [], "ends": [], "losses": [], "validations": []}


def step(x, y):
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True))
    if arguments.shape == "eager":
        report["losses"].append(float(loss))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def epoch(data):
    loss = 0.0
    for x, y in data:
        tf.py_function(lambda: time.sleep(arguments.sleep), [], [])
        loss = step(x, y)
    return loss


compiled = tf.function(step, reduce_retracing=True)
forward = tf.function(lambda x: model(x, training=False))
try:
    for _ in range(arguments.epochs):
        report["starts"].append(time.monotonic())
        if arguments.shape == "loop":
            try:
                report["losses"].append(float(epoch(training)))
            finally:
                report["ends"].append(time.monotonic())
            continue
        report["ends"].append([report["starts"][-1]])
        for x, y in training:
            time.sleep(arguments.sleep)
            try:
                if arguments.shape == "eager":
                    step(x, y)
                else:
                    loss = compiled(x, y)
                    report["losses"].append(float(loss))
            finally:
                report["ends"][-1].append(time.monotonic())
        begun = time.monotonic()
        batches = iter(validation)  # a reference: TensorFlow may take a tenth of a second to delete an iterator
        while (batch := next(batches, None)) is not None:
            time.sleep(0.01)
            forward(batch[0])
        report["validations"].append(time.monotonic() - begun)
finally:
    report["parameters"], report["samples"], report["batch_size"] = model.count_params(), SAMPLES, BATCH
    print(json.dumps(report), flush=True)

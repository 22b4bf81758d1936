"""Keras on the backend that KERAS_BACKEND names. Times itself with a callback and prints its own measurements as JSON.

The data pipeline sleeps, so that the length of an iteration does not hang on how busy the machine is.
"""
# mypy: ignore-errors

import argparse
import contextlib
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--sleep", type=float, default=0.006)
parser.add_argument("--together", type=int, default=1)
parser.add_argument("--schedule", choices=["optimizer", "callback", "unsafe"], help="of the learning rate")
parser.add_argument("--two", action="store_true", help="Keras 2, which tf.keras once was")
parser.add_argument("--save", type=Path)
parser.add_argument("--swallow", action="store_true")
parser.add_argument("--measure", choices=["callback", "block"], help="measures itself, for 15 iterations")
parser.add_argument("--stop", action="store_true", help="and ends after them")
arguments = parser.parse_args()
if arguments.two:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    from tensorflow import keras
else:
    import keras

keras.utils.set_random_seed(3)
SAMPLES, BATCH = 107, 10
numbers = np.random.default_rng(0)
images = numbers.normal(size=(SAMPLES, 8)).astype("float32")
labels = numbers.integers(3, size=SAMPLES)

report = {"ends": [], "means": [], "validations": [], "epochs": [], "swallowed": 0}


class Clocked(keras.Sequential):
    def evaluate(self, *args, **options):
        begun = time.monotonic()
        result = super().evaluate(*args, **options)
        report["validations"].append(time.monotonic() - begun)
        return result


model = Clocked([keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)])
rate = keras.optimizers.schedules.ExponentialDecay(1e-2, 10, 0.5) if arguments.schedule == "optimizer" else 1e-2
model.compile(
    optimizer=keras.optimizers.Adam(rate),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    steps_per_execution=arguments.together,
)


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        report["ends"].append([time.monotonic()])
        report["means"].append([])

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(arguments.sleep)
        report["ends"][-1].append(time.monotonic())
        report["means"][-1].append(logs["loss"])

    def on_test_batch_end(self, batch, logs=None):
        time.sleep(0.02)

    def on_epoch_end(self, epoch, logs=None):
        report["epochs"].append(logs)


callbacks = [Clock(), keras.callbacks.EarlyStopping(monitor="val_loss", patience=7)]
calls = []


def halved_every_second_epoch(epoch, rate):
    return rate * 0.5 if epoch % 2 else rate


def counting(epoch):
    calls.append(epoch)
    return 1e-2 / (epoch + 1)


if arguments.schedule in ("callback", "unsafe"):
    schedule = halved_every_second_epoch if arguments.schedule == "callback" else counting
    callbacks.append(keras.callbacks.LearningRateScheduler(schedule))
if arguments.save:
    callbacks.append(keras.callbacks.ModelCheckpoint(str(arguments.save / "model.weights.h5"), save_weights_only=True))
if arguments.measure:
    import trainfare

    kind = trainfare.KerasCallback if arguments.measure == "callback" else trainfare.profile
    measured = kind(iterations=15, **({"stop": True} if arguments.stop else {}))
    callbacks += [measured] if arguments.measure == "callback" else []


def train():
    model.fit(
        images,
        labels,
        batch_size=BATCH,
        epochs=arguments.epochs,
        validation_data=(images[:30], labels[:30]),
        callbacks=callbacks,
        verbose=0,
    )


try:
    if arguments.swallow:
        for _ in range(10):
            try:
                train()
            except BaseException as error:  # noqa: BLE001 # the behaviour under test
                report["swallowed"] += 1
                print("swallowed", type(error).__name__, flush=True)
    else:
        with measured if arguments.measure == "block" else contextlib.nullcontext():
            train()
finally:
    if arguments.measure:
        report["profile"] = measured.profile and measured.profile.id
    report["calls"] = calls
    report["parameters"] = model.count_params()
    report["samples"], report["batch_size"], report["validation_samples"] = SAMPLES, BATCH, 30
    report["final"] = [float(np.sum(w.numpy())) for w in model.weights if w.value is not None]
    print(json.dumps(report), flush=True)

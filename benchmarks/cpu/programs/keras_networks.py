"""Train one of the Keras examples of the published runs (`benchmarks/cpu/published.py`) on random data of its shapes.

python keras_networks.py mnist_mlp|mnist_cnn|cifar10_cnn|imdb_bidirectional_lstm|lstm_text_generation
"""
# mypy: ignore-errors

import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
from keras import layers


def mnist_mlp() -> tuple[list[layers.Layer], tuple[int, ...], str]:
    hidden = [layer for _ in range(2) for layer in (layers.Dense(512, activation="relu"), layers.Dropout(0.2))]
    return [*hidden, layers.Dense(10, activation="softmax")], (784,), "rmsprop"


def mnist_cnn() -> tuple[list[layers.Layer], tuple[int, ...], str]:
    return (
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ],
        (28, 28, 1),
        "adadelta",
    )


def cifar10_cnn() -> tuple[list[layers.Layer], tuple[int, ...], str]:
    block = [
        layer
        for width in (32, 64)
        for layer in (
            layers.Conv2D(width, 3, padding="same", activation="relu"),
            layers.Conv2D(width, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
        )
    ]
    head = [layers.Flatten(), layers.Dense(512, activation="relu"), layers.Dropout(0.5)]
    return [*block, *head, layers.Dense(10, activation="softmax")], (32, 32, 3), "rmsprop"


def imdb_bidirectional_lstm() -> tuple[list[layers.Layer], tuple[int, ...], str]:
    return (
        [
            layers.Embedding(20000, 128),
            layers.Bidirectional(layers.LSTM(64)),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ],
        (100,),
        "adam",
    )


def lstm_text_generation() -> tuple[list[layers.Layer], tuple[int, ...], str]:
    return [layers.LSTM(128), layers.Dense(57, activation="softmax")], (40, 57), "rmsprop"


BATCH_SIZES = {
    "mnist_mlp": 128,
    "mnist_cnn": 128,
    "cifar10_cnn": 32,
    "imdb_bidirectional_lstm": 32,
    "lstm_text_generation": 128,
}
NETWORKS = {name: globals()[name] for name in BATCH_SIZES}


def main() -> None:
    name = sys.argv[1]
    body, shape, optimizer = NETWORKS[name]()
    size = BATCH_SIZES[name]
    generator = np.random.default_rng(0)
    count = 64 * size
    text = name.startswith("imdb")
    inputs = generator.integers(0, 20000, (count, *shape)) if text else generator.random((count, *shape), np.float32)
    model = keras.Sequential([keras.Input(shape), *body])
    model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer)
    model.fit(inputs, generator.integers(0, 10, count), batch_size=size, epochs=100, verbose=0)


if __name__ == "__main__":
    main()

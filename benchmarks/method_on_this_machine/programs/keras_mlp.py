"""A dense network, as one writes it in Keras."""
# mypy: ignore-errors

import argparse

import digits
import keras


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    pixels, labels, held_out, truth = digits.load()
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8)),
            keras.layers.Flatten(),
            keras.layers.Dense(1024, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(1024, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.02, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(
        pixels,
        labels,
        validation_data=(held_out, truth),
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.02 * 0.5**epoch)],
        verbose=2,
    )


if __name__ == "__main__":
    main()

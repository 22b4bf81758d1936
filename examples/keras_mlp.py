"""Train a small dense network on scikit-learn's handwritten digits, with Keras.

    KERAS_BACKEND=jax python examples/keras_mlp.py --epochs 5

The data comes with scikit-learn: nothing is downloaded. Any backend of Keras 3 works.
"""

import argparse

import keras
from sklearn.datasets import load_digits


def build_model() -> keras.Model:
    """Two dense layers of 512: 0.3 M parameters for 8 × 8 pixels."""
    return keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small dense network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    keras.utils.set_random_seed(arguments.seed)
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype("float32")
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(arguments.lr),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        pixels[:1437],
        labels[:1437],
        validation_data=(pixels[1437:], labels[1437:]),
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=3)],
        verbose=2,
    )


if __name__ == "__main__":
    main()

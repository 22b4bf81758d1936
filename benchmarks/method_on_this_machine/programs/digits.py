"""Handwritten digits of scikit-learn, three times as many by shifting each by a pixel: 4 311 to train on, 360 apart."""
# mypy: ignore-errors

import numpy as np
from sklearn.datasets import load_digits

SHIFTS = ((0, 0), (0, 1), (1, 0))


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels from 0 to 1 as (n, 8, 8) and labels: those to train on, then those to check with."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16).astype("float32").reshape(-1, 8, 8)
    training = np.concatenate([np.roll(pixels[:1437], shift, axis=(1, 2)) for shift in SHIFTS])
    return training, np.tile(labels[:1437], len(SHIFTS)), pixels[1437:], labels[1437:]

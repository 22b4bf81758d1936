"""Train a small dense network on scikit-learn's handwritten digits, with JAX and optax.

    python examples/jax_mlp.py --epochs 5

The data comes with scikit-learn: nothing is downloaded.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

Params = list[tuple[jax.Array, jax.Array]]


def init_params(key: jax.Array, widths: tuple[int, ...]) -> Params:
    keys = jax.random.split(key, len(widths) - 1)
    return [
        (jax.random.normal(key, (fan_in, fan_out)) * (2 / fan_in) ** 0.5, jnp.zeros(fan_out))
        for key, fan_in, fan_out in zip(keys, widths, widths[1:], strict=False)
    ]


def logits(params: Params, pixels: jax.Array) -> jax.Array:
    for weights, bias in params[:-1]:
        pixels = jax.nn.relu(pixels @ weights + bias)
    weights, bias = params[-1]
    return pixels @ weights + bias


def compute_loss(params: Params, pixels: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, pixels), labels).mean()


@jax.jit
def accuracy(params: Params, pixels: jax.Array, labels: jax.Array) -> jax.Array:
    return (logits(params, pixels).argmax(axis=1) == labels).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small dense network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype("float32")
    optimizer = optax.adam(arguments.lr)
    params = init_params(jax.random.key(arguments.seed), (64, 512, 512, 10))
    state = optimizer.init(params)

    @jax.jit
    def step(params: Params, state: Any, pixels: jax.Array, labels: jax.Array) -> tuple[Params, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(compute_loss)(params, pixels, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    order = np.random.default_rng(arguments.seed)
    for epoch in range(1, arguments.epochs + 1):
        shuffled = order.permutation(1437)
        losses = []
        for start in range(0, 1437 - arguments.batch_size + 1, arguments.batch_size):
            chosen = shuffled[start : start + arguments.batch_size]
            params, state, loss = step(params, state, pixels[chosen], labels[chosen])
            losses.append(loss)
        right = accuracy(params, pixels[1437:], labels[1437:])
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, validation accuracy {right:.2%}", flush=True)


if __name__ == "__main__":
    main()

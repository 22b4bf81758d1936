"""A dense network, as one writes it in JAX with optax."""
# mypy: ignore-errors

import argparse

import digits
import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTHS = (64, 1024, 1024, 10)


def scores(params, pixels):
    for weights, bias in params[:-1]:
        pixels = jax.nn.relu(pixels @ weights + bias)
    weights, bias = params[-1]
    return pixels @ weights + bias


def loss_of(params, pixels, labels):
    return optax.softmax_cross_entropy_with_integer_labels(scores(params, pixels), labels).mean()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    pixels, labels, held_out, truth = digits.load()
    pixels, held_out = pixels.reshape(-1, 64), held_out.reshape(-1, 64)
    keys = jax.random.split(jax.random.key(0), len(WIDTHS) - 1)
    params = [
        (jax.random.normal(key, (fan_in, fan_out)) * (2 / fan_in) ** 0.5, jnp.zeros(fan_out))
        for key, fan_in, fan_out in zip(keys, WIDTHS, WIDTHS[1:], strict=False)
    ]
    steps = len(pixels) // arguments.batch_size
    optimizer = optax.sgd(optax.exponential_decay(0.02, steps, 0.5, staircase=True), momentum=0.9)
    state = optimizer.init(params)
    validate = jax.jit(loss_of)

    @jax.jit
    def step(params, state, pixels, labels):
        loss, gradients = jax.value_and_grad(loss_of)(params, pixels, labels)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    order = np.random.default_rng(0)
    size = arguments.batch_size
    for epoch in range(1, arguments.epochs + 1):
        shuffled = order.permutation(len(pixels))
        for start in range(0, len(pixels) - size + 1, size):
            chosen = shuffled[start : start + size]
            params, state, _ = step(params, state, pixels[chosen], labels[chosen])
        print(f"epoch {epoch}: validation loss {validate(params, held_out, truth):.4f}", flush=True)


if __name__ == "__main__":
    main()

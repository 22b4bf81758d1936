"""JAX with optax, in several shapes. Times itself and prints its own measurements as JSON.

The loop sleeps, so that the length of an iteration does not hang on how busy the machine is.
"""
# mypy: ignore-errors

import argparse
import json
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

parser = argparse.ArgumentParser()
parser.add_argument("shape", choices=["step", "eager", "by-hand", "scan", "lazy"])
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--sleep", type=float, default=0.006)
arguments = parser.parse_args()

SAMPLES, BATCH, STEPS = 110, 10, 5
numbers = np.random.default_rng(0)
images, labels = numbers.normal(size=(SAMPLES, 8)).astype("float32"), numbers.integers(3, size=SAMPLES)
keys = jax.random.split(jax.random.key(0), 2)
params = {"a": jax.random.normal(keys[0], (8, 16)) * 0.1, "b": jax.random.normal(keys[1], (16, 3)) * 0.1}
schedule = optax.cosine_decay_schedule(1e-2, 100)
optimizer = optax.adam(schedule if arguments.shape == "step" else 1e-2)
opt_state = optimizer.init(params)


def loss_fn(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(jnp.tanh(x @ params["a"]) @ params["b"], y).mean()


def update(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@partial(jax.jit, donate_argnums=(0, 1))
def step(params, opt_state, x, y):
    return update(params, opt_state, x, y)


@jax.jit
def many_steps(params, opt_state, xs, ys):
    def body(state, batch):
        *state, loss = update(*state, *batch)
        return tuple(state), loss

    (params, opt_state), losses = jax.lax.scan(body, (params, opt_state), (xs, ys))
    return params, opt_state, losses


gradient = jax.jit(jax.value_and_grad(loss_fn))


@jax.jit
def by_hand(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 1e-2 * g, params, grads), loss


@jax.jit
def accuracy(params, x, y):
    return (jnp.argmax(jnp.tanh(x @ params["a"]) @ params["b"], axis=1) == y).mean()


@jax.jit
def scale(x):
    return x * 1.0


report = {"ends": [], "starts": [], "losses": [], "validations": []}
begun = time.monotonic()
try:
    for _ in range(arguments.epochs):
        if arguments.shape == "scan":
            for start in range(0, SAMPLES - BATCH * STEPS + 1, BATCH * STEPS):
                report["starts"].append(time.monotonic())
                xs = images[start : start + BATCH * STEPS].reshape(STEPS, BATCH, 8)
                ys = labels[start : start + BATCH * STEPS].reshape(STEPS, BATCH)
                try:
                    params, opt_state, losses = many_steps(params, opt_state, xs, ys)
                    losses.block_until_ready()
                    time.sleep(arguments.sleep * STEPS)
                finally:
                    report["ends"].append(time.monotonic())
                report["losses"] += [float(loss) for loss in losses]
            continue
        for start in range(0, SAMPLES, BATCH):
            x, y = images[start : start + BATCH], labels[start : start + BATCH]
            time.sleep(arguments.sleep)
            x = scale(x)
            report["starts"].append(time.monotonic())
            try:
                if arguments.shape in ("step", "lazy"):
                    params, opt_state, loss = step(params, opt_state, x, y)
                elif arguments.shape == "eager":
                    loss, grads = gradient(params, x, y)
                    updates, opt_state = optimizer.update(grads, opt_state, params)
                    report["losses"].append(float(loss))
                    params = optax.apply_updates(params, updates)
                else:
                    params, loss = by_hand(params, x, y)
                if arguments.shape != "eager":
                    report["losses"].append(loss if arguments.shape == "lazy" else float(loss))
            finally:
                report["ends"].append(time.monotonic())
        begun = time.monotonic()
        for _ in range(5):
            time.sleep(0.01)
            float(accuracy(params, images[:30], labels[:30]))
        report["validations"].append(time.monotonic() - begun)
finally:
    report["losses"] = [float(loss) for loss in report["losses"]]
    report["parameters"] = 8 * 16 + 16 * 3
    print(json.dumps(report), flush=True)

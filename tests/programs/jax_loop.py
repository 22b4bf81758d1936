"""A language model in plain JAX, without a loader: its batches are slices of one array, its length a constant."""
# mypy: ignore-errors

import jax
import jax.numpy as jnp

EPOCHS = 5
BATCH = 4


def loss(params, tokens):
    logits = params["embedding"][tokens[:, :-1]] @ params["head"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -picked.mean()


@jax.jit
def update(params, tokens):
    value, gradient = jax.value_and_grad(loss)(params, tokens)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradient), value


text = jax.random.randint(jax.random.PRNGKey(0), (40, 17), 0, 50)
params = {"embedding": jnp.ones((50, 8)), "head": jnp.ones((8, 50))}
for _epoch in range(EPOCHS):
    for i in range(0, len(text), BATCH):
        params, value = update(params, text[i : i + BATCH])

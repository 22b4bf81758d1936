"""One network in three frameworks: the FLOPs of a training step equal the closed form in each."""
# mypy: ignore-errors

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.needs import need

pytestmark = pytest.mark.heavy

BATCH = 4
Facts = dict[str, Any]

# A convolution of 3 × 3 with stride 2 on 8 × 8 pixels of 3 channels, and a layer to ten classes.
CNN_CONVOLUTION = 2 * BATCH * 8 * 4 * 4 * 3 * 9
CNN_DENSE = 2 * BATCH * (8 * 4 * 4) * 10
MLP_FIRST, MLP_SECOND = 2 * BATCH * 20 * 32, 2 * BATCH * 32 * 5


def torch_step(name: str) -> Facts:
    torch = need("torch")
    from trainfare.probe.torch_operations import Tracer

    layers = torch.nn
    model = {
        "cnn": lambda: layers.Sequential(
            layers.Conv2d(3, 8, 3, 2, 1, bias=False), layers.ReLU(), layers.Flatten(), layers.Linear(128, 10)
        ),
        "mlp": lambda: layers.Sequential(layers.Linear(20, 32), layers.ReLU(), layers.Linear(32, 5)),
    }[name]()
    given = torch.randn(BATCH, 3, 8, 8) if name == "cnn" else torch.randn(BATCH, 20)
    optimizer = torch.optim.Adam(model.parameters())
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    model(given).square().mean().backward()
    tracer.step_started()
    optimizer.step()
    tracer.step_ended()
    return tracer.leave()


def jax_step(name: str) -> Facts:
    jax = need("jax")
    optax = need("optax")
    from trainfare.probe.jax_operations import operations_of

    np = jax.numpy
    calls = []

    def loss(weights: Any, given: Any) -> Any:
        calls.append(1)
        hidden = given
        if name == "cnn":
            numbers = ("NHWC", "HWIO", "NHWC")
            hidden = jax.lax.conv_general_dilated(given, weights[0], (2, 2), "SAME", dimension_numbers=numbers)
            hidden = hidden.reshape(BATCH, -1)
        else:
            hidden = given @ weights[0]
        return np.square(jax.nn.relu(hidden) @ weights[1]).mean()

    optimizer = optax.adam(1e-3)

    @jax.jit
    def step(weights: Any, state: Any, given: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, given)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    weights = [np.ones((3, 3, 3, 8)), np.ones((128, 10))] if name == "cnn" else [np.ones((20, 32)), np.ones((32, 5))]
    given = np.ones((BATCH, 8, 8, 3)) if name == "cnn" else np.ones((BATCH, 20))
    arguments = (weights, optimizer.init(weights), given)
    step(*arguments)
    facts = operations_of(step.trace(*arguments).jaxpr)
    assert len(calls) == 1  # the program's code is not run again
    return facts


def tensorflow_step(name: str, *, batch: int | None = BATCH, compiled: bool = False) -> Facts:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = need("tensorflow")
    from trainfare.probe.tensorflow_operations import operations_of

    shapes = [(3, 3, 3, 8), (128, 10)] if name == "cnn" else [(20, 32), (32, 5)]
    weights = [tf.Variable(tf.ones(shape)) for shape in shapes]
    moments = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    given = (8, 8, 3) if name == "cnn" else (20,)

    @tf.function(input_signature=[tf.TensorSpec((batch, *given))], jit_compile=compiled)
    def step(image: Any) -> Any:
        with tf.GradientTape() as tape:
            if name == "cnn":
                hidden = tf.nn.relu(tf.nn.conv2d(image, weights[0], 2, "SAME"))
                hidden = tf.reshape(hidden, [tf.shape(hidden)[0], 128])
            else:
                hidden = tf.nn.relu(tf.matmul(image, weights[0]))
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, weights[1])))
        for weight, moment, gradient in zip(weights, moments, tape.gradient(loss, weights), strict=True):
            moment.assign(0.9 * moment + gradient)
            weight.assign_sub(0.1 * moment)
        return loss

    return operations_of(step.get_concrete_function().graph, BATCH, compiled=compiled)


STEPS: dict[str, Callable[[str], Facts]] = {
    "torch": torch_step,
    "jax": jax_step,
    "tensorflow": tensorflow_step,
    "tensorflow, any batch": lambda name: tensorflow_step(name, batch=None),
    "tensorflow, XLA": lambda name: tensorflow_step(name, compiled=True),
}


@pytest.fixture(scope="module", params=STEPS)
def framework(request: pytest.FixtureRequest) -> str:
    return request.param


def flops(facts: Facts, part: str) -> float:
    return sum(row["flops"] * row["count"] for row in facts["operations"] if row["part"] == part)


def test_flops_of_a_cnn_equal_the_closed_form(framework: str) -> None:
    """Backward is twice forward, except for the gradient of the image, which is not computed."""
    facts = STEPS[framework]("cnn")
    assert flops(facts, "forward") == CNN_CONVOLUTION + CNN_DENSE
    assert flops(facts, "backward") == CNN_CONVOLUTION + 2 * CNN_DENSE
    assert flops(facts, "optimizer") == 0
    convolutions = [row["convolution"] for row in facts["operations"] if row["kind"] == "convolution"]
    shape = {"channels_in": 3, "channels_out": 8, "kernel": [3, 3], "stride": [2, 2], "plane": [4, 4]}
    assert convolutions == [shape, shape]


def test_flops_of_an_mlp_equal_the_closed_form(framework: str) -> None:
    facts = STEPS[framework]("mlp")
    assert flops(facts, "forward") == MLP_FIRST + MLP_SECOND
    assert flops(facts, "backward") == MLP_FIRST + 2 * MLP_SECOND
    assert {row["kind"] for row in facts["operations"] if row["part"] == "optimizer"} == {"optimizer"}


def product_dtypes(facts: Facts) -> set[str]:
    return {row["dtype"] for row in facts["operations"] if row["kind"] in ("matmul", "convolution")}


@pytest.mark.parametrize("framework", ["jax", "tensorflow", "tensorflow, XLA"])
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_jax_and_tensorflow_let_every_product_use_tf32(framework: str, name: str) -> None:
    facts = STEPS[framework](name)
    assert product_dtypes(facts) == {"tf32"}
    assert {row["dtype"] for row in facts["operations"] if row["kind"] == "optimizer"} == {"float32"}


def test_jax_program_that_asks_for_float32_gets_it() -> None:
    jax = need("jax")
    with jax.default_matmul_precision("float32"):
        assert product_dtypes(jax_step("cnn")) == {"float32"}


def test_tensorflow_program_that_asks_for_float32_gets_it() -> None:
    tf = need("tensorflow")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        assert product_dtypes(tensorflow_step("cnn")) == {"float32"}
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)


def test_each_weight_is_updated_by_one_kernel_where_xla_compiles() -> None:
    """It reads weight, moment and gradient and writes weight and moment."""
    updates = [row for row in tensorflow_step("mlp", compiled=True)["operations"] if row["kind"] == "optimizer"]
    assert sorted(row["bytes"] for row in updates) == [5 * 4 * 32 * 5, 5 * 4 * 20 * 32]


def test_operations_of_a_scan_are_those_of_one_step() -> None:
    jax = need("jax")
    from trainfare.probe.jax_operations import operations_of

    np = jax.numpy

    def step(weight: Any, given: Any) -> Any:
        return weight - 0.1 * jax.grad(lambda w: np.square(given @ w).sum())(weight), None

    epoch = jax.jit(lambda weight, data: jax.lax.scan(step, weight, data)[0])
    jaxpr = epoch.trace(np.ones((8, 3)), np.ones((5, BATCH, 8))).jaxpr
    one, all_of_them = operations_of(jaxpr, steps=5), operations_of(jaxpr)
    assert flops(one, "forward") == flops(one, "backward") == 2 * BATCH * 8 * 3
    assert flops(all_of_them, "forward") == 5 * flops(one, "forward")


@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (1, 2), (2, 1), (2, 2), (8, 1), (8, 2)], ids=str)
def test_jax_recognises_convolutions_in_the_backward_pass(groups: int, stride: int) -> None:
    jax = need("jax")
    from trainfare.probe.jax_operations import operations_of

    np = jax.numpy

    def loss(weight: Any, image: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        made = jax.lax.conv_general_dilated(
            image, weight, (stride, stride), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )
        return np.square(made).sum()

    step = jax.jit(jax.grad(loss, argnums=(0, 1)))
    facts = operations_of(step.trace(np.ones((3, 3, 8 // groups, 16)), np.ones((BATCH, 10, 10, 8))).jaxpr)
    plane = 10 // stride
    assert flops(facts, "forward") == 2 * BATCH * plane**2 * 16 * (8 // groups) * 9
    assert flops(facts, "backward") == pytest.approx(2 * flops(facts, "forward"), rel=0.02)


def test_loop_of_tensorflow_counts_as_often_as_it_runs_forward_and_backward() -> None:
    tf = need("tensorflow")
    from trainfare.probe.tensorflow_operations import operations_of

    weight = tf.Variable(tf.ones((8, 8)))

    @tf.function
    def step(state: Any) -> Any:
        with tf.GradientTape() as tape:
            for _ in tf.range(7):
                state = tf.tanh(tf.matmul(state, weight))
            loss = tf.reduce_sum(state)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    facts = operations_of(step.get_concrete_function(tf.ones((BATCH, 8))).graph, BATCH)
    one = 2 * BATCH * 8 * 8
    assert flops(facts, "forward") == 7 * one
    assert flops(facts, "backward") == 2 * 7 * one


def test_product_of_unknown_size_is_an_error() -> None:
    tf = need("tensorflow")
    from trainfare.probe.tensorflow_operations import UnknownSizeError, operations_of

    step = tf.function(lambda x: tf.matmul(x, x, transpose_b=True), input_signature=[tf.TensorSpec((None, None))])
    with pytest.raises(UnknownSizeError):
        operations_of(step.get_concrete_function().graph, BATCH)

"""The program of `benchmarks.nodes` with a parameter server: TensorFlow's own, asynchronous, as TF_CONFIG says.

Every node runs it. A worker takes a batch, which takes as long as a GPU would compute, reads the weights from the
server and sends a gradient back. The chief counts the steps of all workers, and writes them to chief.json.
"""

# mypy: ignore-errors

import json
import time
from pathlib import Path

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

COMPUTE_SECONDS = 0.15
PARAMETERS = 500_000
WARM_STEPS, STEPS = 3, 16
"""The steps of each worker."""


def main() -> None:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        spec = resolver.cluster_spec()
        server = tf.distribute.Server(spec, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
        server.join()
        return
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([PARAMETERS]))

    def batches() -> tf.data.Dataset:
        return tf.data.Dataset.range(10**9).apply(testing.sleep(int(1e6 * COMPUTE_SECONDS)))

    data = iter(coordinator.create_per_worker_dataset(batches))

    @tf.function
    def step(iterator: object) -> tf.Tensor:
        def replica(number: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([number]):  # otherwise TensorFlow reads the weights meanwhile
                gradient = weights.read_value() * 0.01 + tf.cast(number, tf.float32)
            weights.assign_sub(gradient * 1e-9)
            return tf.reduce_sum(gradient[:1])

        return strategy.run(replica, args=(next(iterator),))

    workers = len(resolver.cluster_spec().job_tasks("worker"))

    def run(steps: int) -> float:
        began = time.monotonic()
        for _ in range(steps * workers):
            coordinator.schedule(step, args=(data,))
        coordinator.join()
        return time.monotonic() - began

    run(WARM_STEPS)
    seconds = run(STEPS)
    Path("chief.json").write_text(json.dumps({"steps": STEPS, "all_steps": WARM_STEPS + STEPS, "seconds": seconds}))


if __name__ == "__main__":
    main()

"""TensorFlow with a parameter server: every node runs this program and finds its task in TF_CONFIG. The server and the
workers serve until they are stopped; the chief trains and writes the weights."""

# mypy: ignore-errors

import json
import os
from pathlib import Path

import tensorflow as tf

STEPS = 20


def main() -> None:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol=resolver.rpc_layer or "grpc",
            start=True,
        )
        server.join()
        return
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([1000]))
    device: list[str] = [weights.device]

    @tf.function
    def step() -> None:
        def replica() -> None:
            weights.assign_add(tf.ones([1000]))

        strategy.run(replica)

    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    told = {"workers": workers, "steps": float(weights[0].numpy()), "device": device[0]}
    Path("chief.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()

"""The aim and the floor of each task: mean absolute error in percent. A version that misses a floor is not released."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The floor is a number, or a factor on the error of a baseline: the best, or `against`."""

    aim: float
    floor: float | None = None
    factor: float | None = None
    against: str | None = None


AIMS = {
    "other_vm/cnn_on_ec2": Aim(aim=7, floor=14),
    "larger_batch/cnn_on_ec2": Aim(aim=4, floor=7.5),
    "unseen_model/vision_models_rtx3090": Aim(aim=4, floor=7),
    "unseen_gpu": Aim(aim=7, factor=0.7),
    "layers/single_layers_six_gpus/dense": Aim(aim=3, floor=5),
    "layers/single_layers_six_gpus/convolution": Aim(aim=5, floor=10),
    "more_gpus/data_parallel_t4": Aim(aim=6, floor=10.5),
    "more_gpus/data_parallel_t4/one_node": Aim(aim=8, factor=0.7, against="linear scaling"),
    "more_gpus/data_parallel_t4/from_one": Aim(aim=8, factor=0.7, against="linear scaling"),
    "more_gpus": Aim(aim=8, factor=0.7, against="linear scaling"),
    "language_models": Aim(aim=15, factor=0.7, against="40% of peak"),
    "epochs_other_batch/data_parallel_t4/2x": Aim(aim=7, factor=0.75, against="constant epochs"),
    "epochs_other_batch/data_parallel_t4/4x": Aim(aim=10, factor=0.75, against="constant epochs"),
    "epochs_other_batch/epochs_to_target/2x": Aim(aim=7, factor=0.75, against="constant epochs"),
    "epochs_other_batch/epochs_to_target/4x": Aim(aim=10, factor=0.75, against="constant epochs"),
    "epochs_from_curve/data_parallel_t4/25": Aim(aim=15, factor=0.7, against="Optimus"),
    "epochs_from_curve/data_parallel_t4/50": Aim(aim=8, factor=0.7, against="Optimus"),
    "choice": Aim(aim=3, factor=0.5),
}


def aim_of(key: str) -> Aim | None:
    """The aim of a key, or that of its task."""
    return AIMS.get(key) or next((AIMS[up] for up in _above(key) if up in AIMS), None)


def _above(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]

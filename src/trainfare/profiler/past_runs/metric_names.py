"""What the names in a log mean; a name that is not plain means nothing."""

import re
from collections.abc import Iterable, Mapping

_LOSSES = (
    "train_loss",
    "training_loss",
    "loss_train",
    "loss_training",
    "train_loss_step",
    "loss",
    "batch_loss",
    "train_batch_loss",
    "train_total_loss",
    "total_loss",
    "train_loss_epoch",
    "running_loss",
)
"""Best first: what is plainly of training and of one step before the rest."""
_RATES = ("learning_rate", "train_learning_rate", "lr", "train_lr", "optimizer_lr")
_BATCHES = ("batch_size", "train_batch_size", "per_device_train_batch_size", "batchsize", "bs")
_EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs")
_SAMPLES = ("train_samples", "num_train_samples", "n_train", "train_size", "num_samples")
_VALIDATION = re.compile(r"(^|_)(val|valid|validation|eval|evaluation|test|dev)(_|$)")


def plain(name: str) -> str:
    """`Train/Loss` and `train-loss` are one name."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def is_validation(name: str) -> bool:
    return bool(_VALIDATION.search(plain(name)))


def is_epoch(name: str) -> bool:
    return plain(name) in ("epoch", "train_epoch", "trainer_epoch", "current_epoch")


def is_of_the_machine(name: str) -> bool:
    """MLflow and W&B note memory and temperature among the metrics."""
    return name.startswith(("system/", "system.", "_"))


def training_loss(names: Iterable[str]) -> str | None:
    """The best known name; else the only one that speaks of a loss in training; else none."""
    own = [name for name in names if not is_validation(name) and not is_of_the_machine(name)]
    for known in _LOSSES:
        if found := [name for name in own if plain(name) == known]:
            return found[0]
    speaking = possible_losses(own)
    return speaking[0] if len(speaking) == 1 else None


def possible_losses(names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_validation(name) and "loss" in plain(name)]


def learning_rate(names: Iterable[str]) -> str | None:
    """Also Lightning's `lr-Adam`, where there is one optimizer."""
    every = list(names)
    for known in _RATES:
        if found := [name for name in every if plain(name) == known]:
            return found[0]
    of_optimizers = [name for name in every if name.startswith("lr-")]
    return of_optimizers[0] if len(of_optimizers) == 1 else None


def batch_size(settings: Mapping[str, object]) -> int | None:
    return _whole(settings, _BATCHES)


def epochs(settings: Mapping[str, object]) -> int | None:
    return _whole(settings, _EPOCHS)


def samples(settings: Mapping[str, object]) -> int | None:
    return _whole(settings, _SAMPLES)


def _whole(settings: Mapping[str, object], known: Iterable[str]) -> int | None:
    """The positive whole number under one of these names; none where two of them disagree."""
    found = {positive_whole(value) for name, value in settings.items() if plain(name) in known}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def positive_whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number > 0 and number.is_integer() and number < 2**53 else None

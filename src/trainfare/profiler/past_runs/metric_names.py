"""The meaning of the names of metrics and settings in a log; a name that is not in these lists is not interpreted."""

import re
from collections.abc import Iterable, Mapping

_LOSS_NAMES = (
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
"""Best first: names that clearly refer to training and to one step precede the others."""
_RATE_NAMES = ("learning_rate", "train_learning_rate", "lr", "train_lr", "optimizer_lr")
_BATCH_SIZE_NAMES = ("batch_size", "train_batch_size", "per_device_train_batch_size", "batchsize", "bs")
_EPOCHS_NAMES = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs")
_SAMPLES_NAMES = ("train_samples", "num_train_samples", "n_train", "train_size", "num_samples")
_VALIDATION_PATTERN = re.compile(r"(^|_)(val|valid|validation|eval|evaluation|test|dev)(_|$)")


def normalize_name(name: str) -> str:
    """The name in lower case with underscores: `Train/Loss` and `train-loss` are the same name."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def is_validation(name: str) -> bool:
    return bool(_VALIDATION_PATTERN.search(normalize_name(name)))


def is_epoch(name: str) -> bool:
    return normalize_name(name) in ("epoch", "train_epoch", "trainer_epoch", "current_epoch")


def is_system_metric(name: str) -> bool:
    """True for memory, temperature and the like, which MLflow and W&B log among the metrics."""
    return name.startswith(("system/", "system.", "_"))


def training_loss(names: Iterable[str]) -> str | None:
    """The first of the known names, else the only name that contains "loss" and is not of a validation, else None."""
    candidates = [name for name in names if not is_validation(name) and not is_system_metric(name)]
    for known in _LOSS_NAMES:
        if found := [name for name in candidates if normalize_name(name) == known]:
            return found[0]
    possible = possible_losses(candidates)
    return possible[0] if len(possible) == 1 else None


def possible_losses(names: Iterable[str]) -> list[str]:
    """The names that contain "loss" and are not of a validation."""
    return [name for name in names if not is_validation(name) and "loss" in normalize_name(name)]


def learning_rate(names: Iterable[str]) -> str | None:
    """The name of the learning rate; also Lightning's `lr-Adam`, if there is only one optimizer."""
    all_names = list(names)
    for known in _RATE_NAMES:
        if found := [name for name in all_names if normalize_name(name) == known]:
            return found[0]
    by_optimizer = [name for name in all_names if name.startswith("lr-")]
    return by_optimizer[0] if len(by_optimizer) == 1 else None


def batch_size(settings: Mapping[str, object]) -> int | None:
    return _unique_positive_int(settings, _BATCH_SIZE_NAMES)


def epochs(settings: Mapping[str, object]) -> int | None:
    return _unique_positive_int(settings, _EPOCHS_NAMES)


def samples(settings: Mapping[str, object]) -> int | None:
    return _unique_positive_int(settings, _SAMPLES_NAMES)


def _unique_positive_int(settings: Mapping[str, object], known: Iterable[str]) -> int | None:
    """The positive integer under these names; None if two of them disagree."""
    found = {positive_int(value) for name, value in settings.items() if normalize_name(name) in known}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def positive_int(value: object) -> int | None:
    """The value, a number or text, as a positive integer; None if it is not one."""
    if isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number > 0 and number.is_integer() and number < 2**53 else None


def enumerate_names(names: Iterable[str], limit: int = 8) -> str:
    """The first names and the number of the others: `a, b and 3 more`."""
    listed = list(names)
    rest = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + rest

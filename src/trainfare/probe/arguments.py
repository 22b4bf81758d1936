"""Numbers in the program's arguments, configurations and variables that have the usual names of a length.

`argparse` name spaces are noted as the program parses its arguments. Other numbers are found in the program's
command line (such as `--max_iters=2000` or `train.epochs=6`), in the flags of absl, and in the variables of the
functions that led to the present iteration and of the main module: numbers, and configurations that hold them. Only
names of the list below are read; whether a number agrees with what was measured is decided by the reader
(`profiler/length.py`).
"""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from trainfare.probe import loop_bounds
else:
    loop_bounds = importlib.import_module(f"{__package__}.loop_bounds")

NAMES = {
    "epochs": (
        "epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs", "nb_epoch", "n_epoch",
        "num_epoch", "total_epochs", "train_epochs", "training_epochs",
    ),
    "steps": (
        "max_iters", "max_steps", "num_steps", "n_steps", "total_steps", "train_steps", "num_train_steps",
        "max_train_steps", "training_steps", "num_iterations", "n_iters", "num_iters", "max_iterations", "total_iters",
        "train_iters", "max_iter", "iterations", "iters", "steps",
    ),
    "batch_size": (
        "batch_size", "train_batch_size", "per_device_train_batch_size", "per_device_batch_size", "micro_batch_size",
        "device_batch_size", "bs", "bsz", "batch",
    ),
    "tokens": ("max_tokens", "total_tokens", "train_tokens", "num_train_tokens"),
}  # fmt: skip
"""The meaning of a number → the names under which programs keep it, the clearest first."""

_KINDS = {name: kind for kind, names in NAMES.items() for name in names}
_CONTAINERS = (
    "args", "config", "cfg", "conf", "opt", "opts", "options", "hparams", "hps", "hp", "params", "settings", "flags",
    "training", "train", "trainer", "training_args", "train_config", "self",
)  # fmt: skip
"""Names of variables that hold a configuration."""
MAX_NAMESPACES = 4

_namespaces: list[weakref.ref[Any]] = []


def watch_argparse(argparse: ModuleType) -> None:
    """Note each name space that the program makes of its arguments."""
    parser: Any = argparse.ArgumentParser
    parse = parser.parse_known_args

    @functools.wraps(parse)
    def watched(*args: Any, **options: Any) -> Any:
        found = parse(*args, **options)
        try:
            if len(_namespaces) < MAX_NAMESPACES:
                _namespaces.append(weakref.ref(found[0]))
        except Exception:  # noqa: BLE001 # a name space of the program's own that takes no reference
            return found
        return found

    parser.parse_known_args = watched


def read_arguments() -> list[dict[str, Any]]:
    """The numbers with a known name, the most reliable source first: name, value, meaning and source."""
    variables = list(_variables())
    live = {(found["name"], found["value"]) for found in variables}
    live_names = {found["name"] for found in variables}
    # A word of the command line that the program overrode is not used.
    words = [w for w in _words() if w["name"] not in live_names or (w["name"], w["value"]) in live]
    return [*_parsed(), *words, *_flags(), *variables]


def _parsed() -> Iterator[dict[str, Any]]:
    for reference in _namespaces:
        namespace = reference()
        if namespace is not None:
            for name, value in list(vars(namespace).items()):
                yield from _known(name, value, f"argument {_flag_of(name)}")


def _flag_of(name: str) -> str:
    """The argument as it stands on the command line; in most programs it has dashes where the name has underscores."""
    words = {word.partition("=")[0] for word in sys.argv[1:]}
    spelled = next((f"--{each}" for each in (name, name.replace("_", "-")) if f"--{each}" in words), None)
    return spelled or name


def _words() -> Iterator[dict[str, Any]]:
    """Numbers in the words of the program's command line: `--epochs=6`, `--epochs 6` and `train.epochs=6`."""
    for word, following in zip(sys.argv[1:], [*sys.argv[2:], ""]):
        flag, equals, value = word.partition("=")
        name = flag.lstrip("-+").rpartition(".")[2].replace("-", "_")
        text = value if equals else following if flag.startswith("--") else ""
        try:
            number = float(text.replace("_", ""))
        except ValueError:
            continue
        yield from _known(name, int(number) if number.is_integer() else number, f"argument {flag}")


def _flags() -> Iterator[dict[str, Any]]:
    flags = sys.modules.get("absl.flags")
    try:
        values = {} if flags is None else flags.FLAGS.flag_values_dict()
    except Exception:  # noqa: BLE001 # the program has not parsed its arguments yet
        return
    for name, value in values.items():
        yield from _known(name, value, f"argument --{name}")


def _variables() -> Iterator[dict[str, Any]]:
    main = sys.modules.get("__main__")
    places = [(frame.f_locals, f"in {frame.f_code.co_name}()") for frame in loop_bounds.program_frames()]
    places.append((vars(main) if main is not None else {}, "of the main module"))
    for names, where in places:
        for name, value in list(names.items()):
            yield from _known(name, value, f"variable {name} {where}".replace("in <module>()", "of the main module"))
            if name.lower() in _CONTAINERS:
                yield from _contained(value, name)


def _contained(thing: Any, name: str, depth: int = 2) -> Iterator[dict[str, Any]]:
    items = thing if isinstance(thing, dict) else getattr(thing, "__dict__", None)
    if type(thing).__module__.partition(".")[0] in ("omegaconf", "ml_collections"):
        items = dict(thing.items())
    if not isinstance(items, dict):
        return
    for key, value in list(items.items()):
        if not isinstance(key, str):
            continue
        yield from _known(key, value, f"{name}.{key}")
        if depth > 1 and key.lower() in _CONTAINERS:
            yield from _contained(value, f"{name}.{key}", depth - 1)


def _known(name: str, value: Any, source: str) -> Iterator[dict[str, Any]]:
    kind = _KINDS.get(name.lower())
    if kind is not None and isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        yield {"name": name.lower(), "value": value, "kind": kind, "source": source}

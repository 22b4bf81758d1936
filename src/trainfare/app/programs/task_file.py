"""Reads a task file of SkyPilot as a program: setup, run, workdir, envs, secrets, num_nodes, and `config.trainfare`.

    workdir: .
    envs:
      EPOCHS: 3
      WANDB_API_KEY: null      # must be set in the environment, and is never stored
    setup: pip install -r requirements.txt
    run: python train.py --epochs $EPOCHS
    config:
      trainfare:
        machine: ssh/big
        budget: 20
        max_duration: 8h
        data: [cifar=./cifar-10]

SkyPilot chooses a machine by `resources`; Trainfare chooses by its prediction, or takes the one that is named. Fields
that have no effect here are named in notes. The format is described at docs.skypilot.co/en/latest/reference/yaml-spec.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from trainfare.errors import NotFoundError, UsageError
from trainfare.model.supplies import Install
from trainfare.units import parse_duration

MAX_BYTES = 1_000_000
KNOWN = frozenset(
    {
        "name", "workdir", "setup", "run", "envs", "secrets", "num_nodes", "resources", "file_mounts", "config",
        "event_callback", "service", "pool", "managed_secrets", "inputs", "outputs", "volumes", "volume_mounts",
        "api_server_access", "file_mounts_mapping", "_metadata",
    }
)  # fmt: skip
"""The fields of SkyPilot's own schema."""
_USED = frozenset({"name", "workdir", "setup", "run", "envs", "secrets", "num_nodes"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_SIGNS = re.compile(r"[\n;&|<>$`()*?{}\[\]~#!\\]")
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "ulimit", "exec", "eval", "unset", "trap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """The part of a task file that a run needs."""

    command: tuple[str, ...]
    workdir: Path | None = None
    setup: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of environment variables."""
    nodes: int = 1
    data: tuple[str, ...] = ()
    terms: Mapping[str, object] = field(default_factory=dict)
    """By the names that the options of a run have for them."""
    notes: tuple[str, ...] = ()


def read_task_file(path: Path) -> TaskFile:
    """Read a task file. `UsageError` if it is damaged, or if it asks for what a run cannot have."""
    try:
        content = _load(path)
        return _task(content)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}.", field="command") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError("a task file is not as large as this")
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not a YAML file: {_reason(error)}") from None
    if len(documents) != 1:
        raise ValueError(f"it has {len(documents)} tasks, and one is run at a time")
    if not isinstance(documents[0], dict):
        raise ValueError("it is not a task: it must have fields such as run")
    return {str(name): value for name, value in documents[0].items()}


def _reason(error: Exception) -> str:
    """The reason without the text around it, which PyYAML would quote: it may be a secret."""
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark else ""
    return f"{getattr(error, 'problem', None) or type(error).__name__}{where}"


def _task(content: Mapping[str, Any]) -> TaskFile:
    run = _text(content, "run")
    if run is None:
        raise ValueError("it has no field run, so there is nothing to train")
    variables, required = _variables(content.get("envs") or {})
    secrets, secret_notes = _secrets(content.get("secrets") or {})
    mounted, mount_notes = _mounts(content.get("file_mounts") or {})
    own, config_notes = _config(content.get("config") or {})
    on, resource_notes = _machine(content.get("resources") or {})
    setup, nodes = _text(content, "setup"), content.get("num_nodes") or 1
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise ValueError(f"num_nodes must be a whole number, not {nodes!r}")
    terms, data = _terms(own)
    without_effect = [
        *sorted(name for name in content if name in KNOWN - _USED - {"resources", "file_mounts", "config"}),
        *resource_notes,
        *mount_notes,
        *config_notes,
    ]
    unknown = sorted(name for name in content if name not in KNOWN)
    return TaskFile(
        command=command_of(run),
        workdir=_workdir(content.get("workdir")),
        setup=None if setup is None else f"bash -c {shlex.quote(setup)}",
        variables={**variables, "SKYPILOT_NUM_NODES": str(nodes)},
        secrets=tuple(dict.fromkeys((*required, *secrets))),
        nodes=nodes,
        data=(*mounted, *data),
        terms={**({"on": on} if on else {}), **terms},
        notes=tuple(
            sentence
            for sentence in (
                f"these fields of the task have no effect here: {', '.join(without_effect)}." if without_effect else "",
                f"these fields are not known to SkyPilot or Trainfare: {', '.join(unknown)}." if unknown else "",
                *secret_notes,
            )
            if sentence
        ),
    )


def command_of(script: str) -> tuple[str, ...]:
    """The command that runs a script: its words if it is one plain command, else bash."""
    text = script.strip()
    if not _SHELL_SIGNS.search(text):
        words = shlex.split(text)
        if words and "=" not in words[0] and words[0] not in _BUILTINS:
            return tuple(words)
    return ("bash", "-c", text)


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be a text, not {value!r}")
    return value if value and value.strip() else None


def _workdir(value: object) -> Path | None:
    if isinstance(value, dict):
        raise ValueError("workdir is a repository: clone it, and name the folder")
    if value is None or isinstance(value, str):
        return Path(value).expanduser() if value else None
    raise ValueError(f"workdir must be a path, not {value!r}")


def _variables(envs: object) -> tuple[dict[str, str], list[str]]:
    """Variables with their values; and names without one, which the environment must have and which may be secrets."""
    if not isinstance(envs, dict):
        raise TypeError("envs must have names and values")
    for name in envs:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"envs: {name!r} is not the name of a variable")
    required = [name for name, value in envs.items() if value in (None, "")]
    return {name: str(value) for name, value in envs.items() if name not in required}, required


def _secrets(secrets: object) -> tuple[list[str], list[str]]:
    """Names of secrets. A value in the file is used by no one: it would be stored with the run."""
    values = dict.fromkeys(map(str, secrets)) if isinstance(secrets, list) else secrets
    if not isinstance(values, dict):
        raise TypeError("secrets must have names")
    inline = [str(name) for name, value in values.items() if value is not None]
    if missing := [name for name in inline if name not in os.environ]:
        raise ValueError(
            f"the value of the secret {missing[0]} is in the file: Trainfare passes secrets by reference. Set "
            f"{missing[0]} in the environment, and write null in the file"
        )
    notes = [f"the secret {name} is taken from the environment, not from the task file." for name in inline]
    return [str(name) for name in values], notes


def _mounts(mounts: object) -> tuple[list[str], list[str]]:
    """Data that a task mounts at a place in its folder; and mounts that have no effect."""
    if not isinstance(mounts, dict):
        raise TypeError("file_mounts must have places and sources")
    data, others = [], []
    for place, source in mounts.items():
        name = str(place).removeprefix("./")
        is_inside = not name.startswith(("/", "~")) and ".." not in name.split("/")
        if is_inside and isinstance(source, str) and ("://" not in source or source.startswith("http")):
            data.append(f"{name}={source}")
        else:
            others.append(f"file_mounts.{place}")
    return data, others


def _config(config: object) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(config, dict):
        raise TypeError("config must have fields")
    own = config.get("trainfare") or {}
    if not isinstance(own, dict):
        raise TypeError("config.trainfare must have fields")
    return own, [f"config.{name}" for name in config if name != "trainfare"]


def _machine(resources: object) -> tuple[str | None, list[str]]:
    """The user's own host, if the task names one; and the other wishes, which have no effect."""
    if not isinstance(resources, dict):
        raise TypeError("resources must have fields")
    infra = resources.get("infra")
    own = infra if isinstance(infra, str) and infra.startswith("ssh/") else None
    return own, [f"resources.{name}" for name in resources if not (name == "infra" and own)]


def _terms(own: Mapping[str, Any]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The terms in `config.trainfare`, by the names of a run's options; and its data."""
    readers: dict[str, tuple[str, Callable[[object], object]]] = {
        "machine": ("on", str),
        "plan": ("plan_id", str),
        "profile": ("profile_id", str),
        "budget": ("budget_usd", _usd),
        "deadline": ("deadline_seconds", _seconds),
        "max_duration": ("longest_seconds", _seconds),
        "install": ("install", _install),
        "results": ("results", lambda text: Path(str(text)).expanduser()),
    }
    terms: dict[str, object] = {}
    for name, value in own.items():
        if name == "data":
            continue
        if name not in readers:
            raise NotFoundError("field of config.trainfare", str(name), (*readers, "data"), field="command")
        term, read = readers[name]
        terms[term] = read(value)
    data = own.get("data") or []
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        raise TypeError("config.trainfare.data must be a list of NAME=SOURCE")
    return terms, tuple(data)


def _usd(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"config.trainfare.budget must be a number of dollars, not {value!r}")
    return float(value)


def _seconds(value: object) -> float:
    return parse_duration(str(value))


def _install(value: object) -> str:
    if value not in get_args(Install):
        raise ValueError(f"config.trainfare.install must be auto or none, not {value!r}")
    return str(value)

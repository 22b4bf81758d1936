"""Python argument names as the command line spells them: `deadline='2h'` is `--deadline 2h`."""

import re
import shlex
from collections.abc import Mapping

from trainfare.errors import Remedy, TrainfareError

FLAGS = {
    "batch_size": "--batch",
    "batch_sizes": "--batch",
    "deadline_seconds": "--deadline",
    "budget_usd": "--budget",
    "boot_seconds": "--boot",
    "setup_seconds": "--setup",
    "stall_seconds": "--stall",
    "checkpoint_seconds": "--checkpoint",
    "checkpoint_every_seconds": "--checkpoint-every",
    "restart_seconds": "--restart",
    "tick_seconds": "--tick",
    "mean_arrival_seconds": "--mean-arrival",
    "quota_gpus": "--quota",
    "quotas": "--quota",
    "machines": "--machine",
    "policies": "--policy",
    "workers": "--worker",
    "servers": "--server",
    "worker_mbps": "--mbps-per-worker",
    "usd_per_hour": "--budget-per-hour",
}
"""Arguments whose flag is not simply their name."""
POSITIONAL = {
    "profile_id": "PROFILE",
    "profile_ids": "PROFILE",
    "command": "COMMAND",
    "path": "PATH",
    "tables": "TABLE",
}
"""Arguments that have no flag, by what the help calls them."""


def flag(name: str) -> str:
    """The flag of an argument: `iterations_per_epoch` is `--iterations-per-epoch`."""
    return POSITIONAL.get(name) or FLAGS.get(name) or f"--{name.replace('_', '-')}"


def spell_arguments(arguments: Mapping[str, object]) -> str:
    """The words to type: `--spot --deadline 2h12m --batch 64 --batch 128`."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None:
            continue
        if value is True:
            words.append(flag(name))
        elif value is False:
            words.append(f"--no-{name.replace('_', '-')}")
        else:
            for each in value if isinstance(value, list | tuple) else (value,):
                words += [*([flag(name)] if name not in POSITIONAL else []), shlex.quote(str(each))]
    return " ".join(words)


def spell_remedy(remedy: Remedy) -> str:
    """`--deadline 2h12m`, or a whole command: `trainfare profile --epochs 10 -- python train.py`."""
    words = spell_arguments(remedy.arguments)
    if remedy.command is None:
        return words
    program = f"-- {remedy.program}" if remedy.program else ""
    return " ".join(part for part in ("trainfare", remedy.command, words, program) if part)


def spell_error(error: TrainfareError) -> str:
    """The paragraph that is printed after `trainfare: `: the flag at fault, what happened, and what to type instead."""
    where = f"{flag(error.field)}: " if error.field else ""
    message = re.sub(r"^[A-Z](?=[a-z]* )", lambda first: first[0].lower(), error.message)
    advice = " or ".join(f"`{spell_remedy(remedy)}`" for remedy in error.remedies)
    return f"{where}{message}" + (f" Try {advice}." if advice else "")

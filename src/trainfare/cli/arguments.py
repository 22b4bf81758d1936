"""Python argument names as the command line spells them: `deadline='2h'` is `--deadline 2h`."""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from trainfare.errors import Remedy, TrainfareError

FindOptions = Callable[[Sequence[str]], Collection[str]]
"""Returns the options of the command that these words run."""

FLAGS = {
    "scope": "--only",
    "batch_size": "--batch",
    "profiled_batch_size": "--batch-size",
    "batch_sizes": "--batch",
    "max_seconds": "--max-time",
    "deadline_seconds": "--deadline",
    "budget_usd": "--budget",
    "value_of_time_usd_per_hour": "--value-of-time",
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
    "source": "--from",
    "providers": "--provider",
    "machines": "--machine",
    "policies": "--policy",
    "profile_ids": "--profile",
    "workers": "--worker",
    "servers": "--server",
    "worker_mbps": "--mbps-per-worker",
    "usd_per_hour": "--budget-per-hour",
}
"""Arguments whose flag is not their name; a command can have an option of their name instead."""
POSITIONAL = {"profile_id", "profile_ids", "command", "path"}
"""Arguments that have no flag, except in commands with an option of their name."""


def flag(name: str, options: Collection[str] = ()) -> str | None:
    """The flag of an argument: `iterations_per_epoch` is `--iterations-per-epoch`.

    With the `options` of a command it is the one that this command has, and None if it has none.
    """
    plain = f"--{name.replace('_', '-')}"
    other = FLAGS.get(name)
    if options:
        return next((each for each in (other, plain) if each in options), None)
    return None if name in POSITIONAL else other or plain


def spell_arguments(arguments: Mapping[str, object], options: Collection[str] = ()) -> str:
    """The words to type: `--spot --deadline 2h12m --batch 64 --batch 128`."""
    words: list[str] = []
    for name, value in arguments.items():
        spelled = flag(name, options)
        if value is None:
            continue
        if value is True:
            words.append(spelled or f"--{name.replace('_', '-')}")
        elif value is False:
            words.append(f"--no-{name.replace('_', '-')}")
        else:
            for each in value if isinstance(value, list | tuple) else (value,):
                words += [*([spelled] if spelled else []), shlex.quote(str(each))]
    return " ".join(words)


def spell_remedy(remedy: Remedy, options: Collection[str] = ()) -> str:
    """`--deadline 2h12m`, or a complete command: `trainfare profile --epochs 10 -- python train.py`."""
    words = spell_arguments(remedy.arguments, options)
    if remedy.command is None:
        return words
    program = f"-- {remedy.program}" if remedy.program else ""
    return " ".join(part for part in ("trainfare", remedy.command, words, program) if part)


def spell_error(error: TrainfareError, words: Sequence[str] = (), find_options: FindOptions = lambda _: ()) -> str:
    """The paragraph that is printed after `trainfare: `: the flag at fault, what happened, and what to type instead.

    `words` are those of the command that failed.
    """
    options = find_options(words)
    at_fault = flag(error.field, options) if error.field else None
    where = f"{at_fault}: " if at_fault else ""
    message = re.sub(r"^[A-Z](?=[a-z]* )", lambda first: first[0].lower(), error.message)
    message += "" if message.endswith((".", "!", "?", "…")) else "."
    remedies = [
        spell_remedy(each, options if each.command is None else find_options(each.command.split()))
        for each in error.remedies
    ]
    advice = " or ".join(f"`{remedy}`" for remedy in remedies)
    return f"{where}{message}" + (f" Try {advice}." if advice else "")

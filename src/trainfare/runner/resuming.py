"""The command and the environment of an attempt that goes on from a checkpoint."""

import shlex

from trainfare.model.run import FINDS_ITSELF, Run
from trainfare.runner.life import Life

RESUME_FROM = "TRAINFARE_RESUME_FROM"
"""An environment variable with the path of the checkpoint that the program is to go on from. A program may read it; the
probe gives it to the Trainers of Hugging Face and Lightning."""


def resume_command(run: Run, life: Life) -> tuple[str, ...]:
    """The command of the program; of an attempt that goes on from a checkpoint, with the words that make it do so."""
    checkpoint, flag = life.resumed_from, run.resume_flag
    if checkpoint is None or flag is None or flag == FINDS_ITSELF:
        return run.program.command
    return (*run.program.command, *(word.replace("{}", checkpoint.path) for word in shlex.split(flag)))


def resume_environment(run: Run, life: Life) -> dict[str, str]:
    """The variables of an attempt that goes on from a checkpoint. A program that gets it as an argument has none: its
    Trainer is not to go on from it a second time."""
    if life.resumed_from is None or run.resume_flag not in (None, FINDS_ITSELF):
        return {}
    return {RESUME_FROM: life.resumed_from.path}

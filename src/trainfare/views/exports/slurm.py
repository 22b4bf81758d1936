"""A training as a batch script of Slurm. Names that only a site knows are marked to be replaced."""

import re
import shlex
from collections.abc import Iterator

from trainfare.model.training_export import TrainingExport
from trainfare.views.exports.steps import (
    GRACE_SECONDS,
    data_lines,
    environment_lines,
    heading,
    program_line,
    variable_lines,
)

PARTITION = "REPLACE_WITH_YOUR_PARTITION"
_MARGIN = 1.1
"""The time limit over the upper end of the prediction: Slurm kills what exceeds it."""


def slurm_text(export: TrainingExport) -> str:
    return "\n".join(_lines(export)) + "\n"


def _lines(export: TrainingExport) -> Iterator[str]:
    vm_type, nodes = export.candidate.offer.vm_type, export.candidate.nodes
    yield "#!/bin/bash"
    yield from (f"#SBATCH {option}" for option in _options(export))
    yield from heading(export)
    if vm_type.gpu is not None:
        gpus = f"{vm_type.gpus} × {vm_type.gpu.name}"
        yield f"# The machine has {gpus}: if your site names its GPUs, write gpu:NAME:NUMBER."
    yield "set -euo pipefail"
    yield f"cd {shlex.quote(export.program.directory)}"
    yield from variable_lines(export)
    yield from environment_lines(export.installation)
    yield from data_lines(export.data)
    if export.setup:
        yield f"bash -c {shlex.quote(export.setup)}"
    yield program_line(export, prefix="exec srun " if nodes > 1 else "exec ")


def _options(export: TrainingExport) -> Iterator[str]:
    vm_type, candidate = export.candidate.offer.vm_type, export.candidate
    yield f"--job-name={re.sub(r'[^A-Za-z0-9_.-]', '-', export.program.name)[:40]}"
    yield f"--partition={PARTITION}"
    yield f"--nodes={candidate.nodes}"
    yield "--ntasks-per-node=1"
    if vm_type.vcpus:
        yield f"--cpus-per-task={max(1, int(vm_type.vcpus))}"
    if vm_type.memory_gib:
        yield f"--mem={max(1, int(vm_type.memory_gib))}G"
    if vm_type.gpus:
        yield f"--gres=gpu:{vm_type.gpus}"
    if seconds := _seconds(export):
        yield f"--time={max(1, -(-round(seconds) // 60))}"
    yield f"--signal=B:TERM@{GRACE_SECONDS}"
    yield "--output=%x-%j.out"


def _seconds(export: TrainingExport) -> float | None:
    """The time limit: what was agreed, else what the prediction allows."""
    if export.longest_seconds is not None:
        return export.longest_seconds
    return export.estimate.seconds.high * _MARGIN if export.estimate else None

"""A training as a plain script of bash, to be run on the machine itself."""

import shlex
from collections.abc import Iterator

from trainfare.model.training_export import TrainingExport
from trainfare.views.exports.steps import data_lines, environment_lines, heading, program_line, variable_lines


def script_text(export: TrainingExport) -> str:
    return "\n".join(_lines(export)) + "\n"


def _lines(export: TrainingExport) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield from heading(export)
    yield "# Run it on the machine; the first argument is the program's folder there."
    yield "set -euo pipefail"
    yield f"folder={shlex.quote(export.program.directory)}"
    yield 'cd "${1:-$folder}"'
    yield from variable_lines(export)
    yield from environment_lines(export.installation)
    yield from data_lines(export.data)
    if export.setup:
        yield f"bash -c {shlex.quote(export.setup)}"
    yield program_line(export, prefix="exec ")

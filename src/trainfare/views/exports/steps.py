"""The steps of a training as lines of bash, which all formats share."""

import shlex
from collections.abc import Iterator, Sequence

from trainfare.model.supplies import DataSource
from trainfare.model.training_export import Installation, TrainingExport
from trainfare.recommender.names import machine_name
from trainfare.units import format_duration, format_usd

GRACE_SECONDS = 20
_ENVIRONMENT = ".trainfare-environment"
_DATA = ".trainfare-data"


def heading(export: TrainingExport) -> Iterator[str]:
    """The origin of the file and the prediction, as comments."""
    candidate, estimate = export.candidate, export.estimate
    times = f"{candidate.nodes} × " if candidate.nodes > 1 else ""
    yield f"# {export.id} of Trainfare: {one_line(export.program.command_line)}"
    yield f"# on {times}{machine_name(candidate.offer)}, {format_usd(candidate.usd_per_hour)} an hour"
    if estimate is not None:
        value, low, high = map(format_duration, (estimate.seconds.value, estimate.seconds.low, estimate.seconds.high))
        yield f"# predicted: {value} ({low} to {high}), {format_usd(estimate.usd.value)}"
    if export.limits.deadline is not None:
        yield f"# to be done by {export.limits.deadline.isoformat(timespec='minutes')}"


def one_line(text: str) -> str:
    return " ".join(text.split())


def variable_lines(export: TrainingExport) -> Iterator[str]:
    """Variables of the program. Secrets are named only: whoever runs the file must have set them."""
    for name, value in export.variables.items():
        yield f"export {name}={shlex.quote(value)}"
    for name in export.secrets:
        yield f': "${{{name}:?must be set: it is a secret of the program}}"'


def environment_lines(installation: Installation | None) -> Iterator[str]:
    """A virtual environment in the program's folder, used again by the next start."""
    if installation is None:
        return
    arguments = shlex.join(installation.arguments)
    if installation.arguments or installation.locked:
        install = [f"python3 -m venv {_ENVIRONMENT}", f"{_ENVIRONMENT}/bin/python -m pip install {arguments}"]
        yield f"# what {installation.named_by} names"
        if installation.locked:
            yield "if command -v uv > /dev/null; then"
            yield f'  UV_PROJECT_ENVIRONMENT="$PWD/{_ENVIRONMENT}" uv sync --frozen --no-install-project'
            yield "else"
            yield from (f"  {line}" for line in install)
            yield "fi"
        else:
            yield from install
    yield from use_environment_lines(installation)


def use_environment_lines(installation: Installation | None) -> Iterator[str]:
    if installation is not None and (installation.arguments or installation.locked):
        yield f'export PATH="$PWD/{_ENVIRONMENT}/bin:$PATH"'
    if installation is not None and installation.source_roots:
        roots = ":".join(f"$PWD/{root}" for root in installation.source_roots)
        yield f'export PYTHONPATH="{roots}${{PYTHONPATH:+:$PYTHONPATH}}"'


def data_lines(data: Sequence[DataSource]) -> Iterator[str]:
    """Data where the program expects it: under its name, and in the folder of TRAINFARE_DATA."""
    if not data:
        return
    yield f'export TRAINFARE_DATA="$PWD/{_DATA}"'
    for source in data:
        name, folder = shlex.quote(source.name), shlex.quote(folder_of(source.name))
        yield f'mkdir -p "$TRAINFARE_DATA"/{folder} ./{folder}'
        if source.kind == "fetched":
            yield from _fetch_lines(source, f'"$TRAINFARE_DATA"/{name}')
        else:
            path = _path_on_machine(source.source)
            yield f'[ -e {path} ] || {{ echo "there is no" {path} >&2; exit 1; }}'
            yield f'ln -sfn {path} "$TRAINFARE_DATA"/{name}'
        yield f'[ -e {name} ] || ln -s "$TRAINFARE_DATA"/{name} {name}'


def _fetch_lines(source: DataSource, place: str) -> Iterator[str]:
    url = shlex.quote(source.source)
    yield f"[ -e {place} ] || {{ curl -fsSL --proto =http,https -o {place}.new {url} && mv {place}.new {place}; }}"
    if source.sha256:
        yield f"echo {source.sha256}' *'{place} | sha256sum -c --quiet -"


def folder_of(name: str) -> str:
    return name.rpartition("/")[0] or "."


def _path_on_machine(path: str) -> str:
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)


def program_line(export: TrainingExport, *, prefix: str = "") -> str:
    """The command of the program, ended after its longest duration."""
    command = shlex.join(export.program.command)
    if export.longest_seconds is None:
        return f"{prefix}{command}"
    return f"{prefix}timeout --kill-after={GRACE_SECONDS}s {max(1, round(export.longest_seconds))}s {command}"

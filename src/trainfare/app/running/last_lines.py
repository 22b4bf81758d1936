"""Use case: the end of what a run printed, which mostly says why it failed."""

from trainfare.app.running.journal import output_path
from trainfare.app.running.status import run_folder
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings

_TAIL_BYTES = 16_384


def last_lines(status: RunStatus, *, settings: Settings | None = None, count: int = 10) -> list[str]:
    """The last lines of the last attempt, of the node that printed last; none if nothing was printed."""
    folder = run_folder(settings or read_settings(), status.run.id)
    nodes = range(status.run.candidate.nodes)
    paths = [path for node in nodes if (path := output_path(folder, status.life.attempt, node)).is_file()]
    if not paths:
        return []
    with max(paths, key=lambda path: path.stat().st_mtime_ns).open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-count:]

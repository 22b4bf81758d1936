"""Reads TensorBoard logs: event files in one folder or in several subfolders, as Keras and PyTorch write them."""

import math
import re
from pathlib import Path, PurePath

from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.profiler.past_runs.event_file import DamagedFileError, Scalar, read_scalars
from trainfare.profiler.past_runs.files import (
    datetime_or_modified,
    existing_path,
    files_under,
    modified_at,
    no_run_found,
    other_runs_note,
)
from trainfare.profiler.past_runs.run_log import RunLog
from trainfare.profiler.past_runs.series import Scalars, ScalarSeries
from trainfare.units import plural

_NAME = re.compile(r"events\.out\.tfevents\.(\d{9,})\.([^/]+)")
"""Seconds since 1970 and the host, which every writer puts into the file name."""
_KERAS_EVALUATION = re.compile(r"evaluation_(.+)_vs_iterations")


def read(path: str | Path) -> RunLog:
    source = existing_path(path)
    if source.is_dir():
        source, files, others = _newest_run(source)
    else:
        files, others = [source], []
    log = _TensorboardRun(source if source.is_dir() else source.parent)
    for file in files:
        log.read(file)
    if not log.by_step and not log.by_epoch:
        reason = log.notes[0] if log.notes else "It contains no scalar."
        raise UsageError(f"{source} has no usable scalar of TensorBoard. {reason}", field="path")
    if note := other_runs_note(str(source), others):
        log.notes.insert(0, note)
    return log.to_run_log(source if source.is_dir() else source.parent, files[0])


def _newest_run(folder: Path) -> tuple[Path, list[Path], list[str]]:
    """The folder of the newest run, its event files by age, and the folders of the other runs."""
    files = files_under(folder, lambda name: "tfevents" in name)
    if not files:
        raise no_run_found(folder, "a file events.out.tfevents.*", "Give the log directory of TensorBoard.")
    roots = {file.parent for file in files}
    runs: dict[Path, list[Path]] = {}
    for file in files:
        runs.setdefault(_root(file.parent, roots, folder), []).append(file)
    for own in runs.values():
        own.sort(key=_created_at)
    newest = max(runs, key=lambda root: _created_at(runs[root][-1]))
    return newest, runs[newest], sorted(str(root) for root in runs if root != newest)


def _root(folder: Path, with_events: set[Path], top: Path) -> Path:
    """The folder of the run: the parent of `train/` and `validation/`, or the topmost parent with event files."""
    above = [parent for parent in folder.parents if parent == top or top in parent.parents]
    for parent in reversed(above):
        if parent in with_events:
            return parent
    return folder.parent if folder.name in ("train", "validation") and folder != top else folder


def _created_at(file: Path) -> tuple[float, str]:
    named = _NAME.match(file.name)
    return (float(named[1]) if named else modified_at(file).timestamp()), file.name


class _TensorboardRun:
    """The scalars of one run that have been read so far."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.by_step, self.by_epoch = Scalars(), Scalars()
        self.notes: list[str] = []
        self._keras_iterations = ScalarSeries()
        self._started, self._ended = math.inf, -math.inf

    def read(self, file: Path) -> None:
        part = file.parent.relative_to(self._root) if file.parent != self._root else PurePath()
        count = 0
        try:
            for found in read_scalars(file):
                if isinstance(found, Scalar):
                    self._add(part, found)
                    count += 1
                timestamp = found.timestamp if isinstance(found, Scalar) else found
                self._started, self._ended = min(self._started, timestamp), max(self._ended, timestamp)
        except DamagedFileError as error:
            self.notes.append(
                f"{file.name} is damaged or incomplete from byte {error.position} on; "
                f"read {plural(count, 'scalar')} before it."
                if error.position
                else f"{file.name} is not an event file."
            )

    def _add(self, part: PurePath, found: Scalar) -> None:
        tag, target = found.tag, self.by_step
        if str(part) == "validation" and (keras := _KERAS_EVALUATION.fullmatch(tag)):
            if keras[1] == "loss":
                self._keras_iterations.add(found.step, found.value, found.timestamp)
            return
        if tag.startswith("epoch_") and str(part) in (".", "train", "validation"):
            tag, target = tag.removeprefix("epoch_"), self.by_epoch
        if str(part) == "validation":
            tag = f"val_{tag}"
        elif str(part) not in (".", "train"):
            tag = f"{part}/{tag}"
        target.add(tag, found.step, found.value, found.timestamp)

    def to_run_log(self, source: Path, file: Path) -> RunLog:
        named = _NAME.match(file.name)
        host = re.sub(r"\.\d+\.\d+(\.v2)?$|\.v2$", "", named[2]) if named else ""
        host = host.encode(errors="replace").decode()
        return RunLog(
            origin="tensorboard",
            source=source,
            by_step=self.by_step,
            by_epoch=self.by_epoch,
            first_epoch=0 if self.by_epoch else None,
            axis="iterations" if self.by_epoch else None,
            iterations_per_epoch=_constant_interval(self._keras_iterations),
            started=self._started,
            ended=self._ended,
            ended_at=datetime_or_modified(self._ended, source),
            host=Host(name=host) if host.strip() else None,
            framework=self._framework(),
            notes=tuple(self.notes),
        )

    def _framework(self) -> str | None:
        """The framework, if only it writes logs of this form."""
        if self.by_epoch:
            return "keras"
        return "lightning" if "hp_metric" in self.by_step or self._root.name.startswith("version_") else None


def _constant_interval(series: ScalarSeries) -> int | None:
    """The iterations between two validations if they are constant: Keras validates after each epoch by default."""
    distances = {later - earlier for earlier, later in zip(series.steps, series.steps[1:], strict=False)}
    if len(series) and distances <= {series.steps[0]}:
        return series.steps[0]
    return None

"""TensorBoard logs: event files in one folder, or in several below one, as Keras and PyTorch leave them."""

import math
import re
from pathlib import Path, PurePath

from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.profiler.past_runs.event_file import Damaged, Scalar, scalars
from trainfare.profiler.past_runs.files import changed_at, date_of, existing, files_under, nothing_there, others_note
from trainfare.profiler.past_runs.run_log import Logged
from trainfare.profiler.past_runs.series import Scalars, Series

_NAME = re.compile(r"events\.out\.tfevents\.(\d{9,})\.([^/]+)")
"""Seconds since 1970 and the host, which every writer puts into the name of the file."""
_KERAS_EVALUATION = re.compile(r"evaluation_(.+)_vs_iterations")


def read(path: str | Path) -> Logged:
    source = existing(path)
    if source.is_dir():
        source, files, others = _newest_run(source)
    else:
        files, others = [source], []
    log = _Log(source if source.is_dir() else source.parent)
    for file in files:
        log.read(file)
    if not log.by_step and not log.by_epoch:
        why = log.notes[0] if log.notes else "It holds no scalar."
        raise UsageError(f"{source} has no scalar of TensorBoard that can be used. {why}")
    if note := others_note(str(source), others):
        log.notes.insert(0, note)
    return log.logged(source if source.is_dir() else source.parent, files[0])


def _newest_run(folder: Path) -> tuple[Path, list[Path], list[str]]:
    """The folder of the run that was started last, its event files in the order of their making, the other runs."""
    files = files_under(folder, lambda name: "tfevents" in name)
    if not files:
        raise nothing_there(
            folder, "a file events.out.tfevents.*", "Name the folder that you would give to tensorboard --logdir."
        )
    roots = {file.parent for file in files}
    runs: dict[Path, list[Path]] = {}
    for file in files:
        runs.setdefault(_root(file.parent, roots, folder), []).append(file)
    for own in runs.values():
        own.sort(key=_made_at)
    newest = max(runs, key=lambda root: _made_at(runs[root][-1]))
    return newest, runs[newest], sorted(str(root) for root in runs if root != newest)


def _root(folder: Path, with_events: set[Path], top: Path) -> Path:
    """`train/` and `validation/` belong to the run above them; so does a folder below one that has events."""
    above = [parent for parent in folder.parents if parent == top or top in parent.parents]
    for parent in reversed(above):
        if parent in with_events:
            return parent
    return folder.parent if folder.name in ("train", "validation") and folder != top else folder


def _made_at(file: Path) -> tuple[float, str]:
    named = _NAME.match(file.name)
    return (float(named[1]) if named else changed_at(file).timestamp()), file.name


class _Log:
    """What has been read of one run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.by_step, self.by_epoch = Scalars(), Scalars()
        self.notes: list[str] = []
        self._keras_iterations = Series()
        self._started, self._ended = math.inf, -math.inf

    def read(self, file: Path) -> None:
        part = file.parent.relative_to(self._root) if file.parent != self._root else PurePath()
        used = 0
        try:
            for found in scalars(file):
                if isinstance(found, Scalar):
                    self._add(part, found)
                    used += 1
                moment = found.moment if isinstance(found, Scalar) else found
                self._started, self._ended = min(self._started, moment), max(self._ended, moment)
        except Damaged as damage:
            before = f"the {used} scalars before that were used" if used else "no scalar comes before that"
            self.notes.append(
                f"{file.name} is cut or damaged from byte {damage.position} on; {before}."
                if damage.position
                else f"{file.name} is not an event file."
            )

    def _add(self, part: PurePath, found: Scalar) -> None:
        tag, kept = found.tag, self.by_step
        if str(part) == "validation" and (keras := _KERAS_EVALUATION.fullmatch(tag)):
            if keras[1] == "loss":
                self._keras_iterations.add(found.step, found.value, found.moment)
            return
        if tag.startswith("epoch_") and str(part) in (".", "train", "validation"):
            tag, kept = tag.removeprefix("epoch_"), self.by_epoch
        if str(part) == "validation":
            tag = f"val_{tag}"
        elif str(part) not in (".", "train"):
            tag = f"{part}/{tag}"
        kept.add(tag, found.step, found.value, found.moment)

    def logged(self, source: Path, file: Path) -> Logged:
        named = _NAME.match(file.name)
        host = re.sub(r"\.\d+\.\d+(\.v2)?$|\.v2$", "", named[2]) if named else ""
        host = host.encode(errors="replace").decode()
        return Logged(
            origin="tensorboard",
            source=source,
            by_step=self.by_step,
            by_epoch=self.by_epoch,
            first_epoch=0 if self.by_epoch else None,
            axis="iterations" if self.by_epoch else None,
            iterations_per_epoch=_constant_distance(self._keras_iterations),
            started=self._started,
            ended=self._ended,
            ended_at=date_of(self._ended, source),
            host=Host(name=host) if host.strip() else None,
            framework=self._framework(),
            notes=tuple(self.notes),
        )

    def _framework(self) -> str | None:
        """Only what no other program writes."""
        if self.by_epoch:
            return "keras"
        return "lightning" if "hp_metric" in self.by_step or self._root.name.startswith("version_") else None


def _constant_distance(series: Series) -> int | None:
    """Keras notes how many iterations were done at each validation, which is after each epoch unless told otherwise."""
    distances = {later - earlier for earlier, later in zip(series.steps, series.steps[1:], strict=False)}
    if len(series) and distances <= {series.steps[0]}:
        return series.steps[0]
    return None

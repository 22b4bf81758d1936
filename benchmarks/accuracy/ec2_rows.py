"""Rows of `cnn_on_ec2` that transfer a step from one machine type to another, with our held-out predictions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.gpu.by_operator import fit_transfer, transfer_step
from trainfare.measurements.cnn_on_ec2 import Setting, gpu_of, read_latencies, read_profiles
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu
from trainfare.model.measurement import OperatorProfile

GPUS = load_gpus()


@dataclass(frozen=True, slots=True)
class TransferRow:
    """A profile on one machine type, and the seconds of the same step on another."""

    profile: OperatorProfile
    to: str
    seconds: float

    @property
    def source(self) -> Gpu:
        return GPUS[self.profile.gpu]

    @property
    def target(self) -> Gpu:
        return GPUS[gpu_of(self.to)]


def profiles_of(folder: Path) -> tuple[OperatorProfile, ...]:
    """The profiles whose GPU is in the catalog."""
    return tuple(profile for profile in read_profiles(folder) if profile.gpu in GPUS)


def unknown_types(folder: Path) -> list[str]:
    """Machine types, profiled or only timed, whose GPU is not in the catalog."""
    profiled = {profile.vm_type for profile in read_profiles(folder)}
    return sorted(
        vm_type
        for vm_type in profiled | {setting.vm_type for setting in read_latencies(folder)}
        if gpu_of(vm_type) not in GPUS
    )


def transfer_rows(folder: Path) -> list[TransferRow]:
    """Every profile with every other machine type that ran the same step, profiled or only timed."""
    profiles = profiles_of(folder)
    seconds: dict[Setting, float] = {
        Setting(p.program, p.image_side, p.batch_size, p.vm_type): p.seconds for p in profiles
    }
    seconds |= read_latencies(folder)
    there: dict[tuple[str, int, float], dict[str, float]] = defaultdict(dict)
    for setting, of in seconds.items():
        there[setting[:3]][setting.vm_type] = of
    return [
        TransferRow(profile, to, of)
        for profile in profiles
        for to, of in sorted(there[profile.program, profile.image_side, profile.batch_size].items())
        if to != profile.vm_type and gpu_of(to) in GPUS
    ]


@cache
def predicted_rows(fit: Path, test: Path | None, by: str) -> tuple[list[TransferRow], list[Interval]]:
    """Every row with our prediction; two tasks use them."""
    rows: list[TransferRow] = []
    answers: list[Interval] = []
    for known, asked in folds(fit, test, by=by):
        learned = fit_transfer(known, GPUS)
        rows += asked
        answers += [transfer_step([r.profile], r.profile.batch_size, r.source, r.target, learned) for r in asked]
    return rows, answers


def folds(
    fit: Path, test: Path | None, *, by: str = "family"
) -> Iterator[tuple[Sequence[OperatorProfile], list[TransferRow]]]:
    """The profiles to learn from, and the rows to predict.

    Without a test folder each family (or program) of the fit folder is predicted in turn and left out of the profiles;
    with one, all of its rows are predicted at once and its programs are left out.
    """
    known = profiles_of(fit)
    rows = transfer_rows(fit if test is None else test)
    if test is not None:
        asked = {row.profile.program for row in rows}
        yield [profile for profile in known if profile.program not in asked], rows
        return
    for name in sorted({getattr(row.profile, by) for row in rows}):
        own = [row for row in rows if getattr(row.profile, by) == name]
        yield [profile for profile in known if getattr(profile, by) != name], own

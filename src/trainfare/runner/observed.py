"""The times that were observed in each attempt of a run, as far as its parts have ended.

    boot          asked for → machines ready, without the wait in a queue
    setup         machines ready → program started; sending is what the setup commands did not take of it
    training      program started → program ended, by the clock of the machine
    collecting    program ended → terminated

The parts of the training are what the probe counted: initialisation, first iteration, steady iterations, validation and
checkpoints. A part that has not ended has no time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainfare.model.offer import Candidate
from trainfare.model.run import Fact, FactKind, Observation, ObservationKind, Run
from trainfare.runner.waiting import wait_ended_at, waited

KINDS: tuple[ObservationKind, ...] = ("setup", "program", "iterations", "meter")
"""The kinds of observations that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationGroup:
    """Some iterations that follow one another, and their mean time."""

    seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTimes:
    """The parts of a training that the probe has counted so far."""

    iterations: int
    groups: tuple[IterationGroup, ...]
    """All iterations in order, from the first on."""
    init_seconds: float | None = None
    """From the start of the program to that of its first iteration."""
    first_seconds: float | None = None
    validations: int = 0
    validation_seconds: float = 0.0
    checkpoints: int = 0
    checkpoint_seconds: float = 0.0

    @property
    def steady_seconds(self) -> float:
        """The sum of all iterations but the first."""
        every = sum(group.seconds * group.count for group in self.groups)
        return max(0.0, every - (self.first_seconds or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTime:
    """Files that were sent or fetched, and the time that it took."""

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTimes:
    """One attempt of a run; None for parts that have not ended."""

    attempt: int
    candidate: Candidate
    asked_at: datetime
    last_seen_at: datetime
    """The last fact of the attempt."""
    boot_seconds: float | None = None
    setup_seconds: float | None = None
    sending_seconds: float | None = None
    """The part of the setup that no setup command took."""
    training_seconds: float | None = None
    collecting_seconds: float | None = None
    resumed: bool = False
    """The program went on from a checkpoint of an earlier attempt."""
    completed: bool = False
    """The program ended by itself and well."""
    training: TrainingTimes | None = None
    """It is None if no iteration was seen."""
    sent: TransferTime | None = None
    """The program with what it needs."""
    collected: TransferTime | None = None
    """Its results."""
    checkpoints: tuple[TransferTime, ...] = ()
    peak_host_bytes: int | None = None
    """The most memory that the processes of the program had together."""

    @property
    def machine(self) -> str:
        """The key of its VmType."""
        return self.candidate.offer.vm_type.key


def attempts_of(run: Run, facts: Sequence[Fact], observations: Iterable[Observation]) -> tuple[AttemptTimes, ...]:
    """The times of every attempt, by all facts of a run and its observations of the kinds `KINDS`, in order."""
    seen: dict[int, list[Observation]] = {}
    for observation in observations:
        if observation.node == 0:
            seen.setdefault(observation.attempt, []).append(observation)
    stopped = any(fact.kind == "stop asked" for fact in facts)
    return tuple(
        _attempt(run, attempt, seen.get(attempt[0].attempt, ()), stopped=stopped) for attempt in _by_attempt(facts)
    )


def _by_attempt(facts: Sequence[Fact]) -> Iterator[list[Fact]]:
    """The facts of each launch, from its intention to its end."""
    current: list[Fact] = []
    for fact in facts:
        if fact.kind == "launch intended":
            if current:
                yield current
            current = []
        if current or fact.kind == "launch intended":
            current.append(fact)
    if current:
        yield current


def _attempt(run: Run, facts: Sequence[Fact], seen: Sequence[Observation], *, stopped: bool) -> AttemptTimes:
    moments: dict[FactKind, datetime] = {}
    for fact in facts:
        moments.setdefault(fact.kind, fact.seen_at)
    ended = next((fact for fact in facts if fact.kind == "program ended"), None)
    setup = _between(moments, "machines ready", "program started")
    if setup is not None:
        setup = max(0.0, setup - _noticed_late(moments, seen))
    commands = sum(_number(s, "seconds") for s in seen if s.kind == "setup" and s.values.get("state") == "ended")
    return AttemptTimes(
        attempt=facts[0].attempt,
        candidate=facts[0].candidate or run.candidate,
        asked_at=facts[0].seen_at,
        last_seen_at=facts[-1].seen_at,
        boot_seconds=_boot_seconds(facts, moments),
        setup_seconds=setup,
        sending_seconds=None if setup is None else max(0.0, setup - commands),
        training_seconds=_program_seconds(seen) if ended else None,
        collecting_seconds=_between(moments, "program ended", "terminated")
        if "results collected" in moments and "termination failed" not in moments
        else None,
        resumed=facts[0].checkpoint is not None,
        completed=ended is not None and ended.exit_code == 0 and not ended.interrupted and not stopped,
        training=_training([s for s in seen if s.kind == "iterations"]),
        sent=next((_transfer(f.sent_bytes, f.transfer_seconds) for f in facts if f.kind == "program sent"), None),
        collected=next(
            (_transfer(f.collected_bytes, f.transfer_seconds) for f in facts if f.kind == "results collected"), None
        ),
        checkpoints=tuple(
            TransferTime(bytes=f.checkpoint.bytes, seconds=f.checkpoint.fetch_seconds)
            for f in facts
            if f.kind == "checkpoint fetched" and f.checkpoint is not None
        ),
        peak_host_bytes=int(max((_number(s, "peak_memory_bytes") for s in seen if s.kind == "meter"), default=0))
        or None,
    )


def _transfer(size: int | None, seconds: float | None) -> TransferTime | None:
    return None if size is None or seconds is None else TransferTime(bytes=size, seconds=seconds)


def _boot_seconds(facts: Sequence[Fact], moments: dict[FactKind, datetime]) -> float | None:
    boot, attempt = _between(moments, "launch intended", "machines ready"), facts[0].attempt
    ended = wait_ended_at(facts, attempt) if waited(facts, attempt) else None
    return boot if boot is None or ended is None else max(0.0, boot - (ended - facts[0].seen_at).total_seconds())


def _between(moments: dict[FactKind, datetime], start: FactKind, end: FactKind) -> float | None:
    if start not in moments or end not in moments:
        return None
    return max(0.0, (moments[end] - moments[start]).total_seconds())


def _noticed_late(moments: dict[FactKind, datetime], seen: Sequence[Observation]) -> float:
    """The time by which the start of the program was noticed too late, because no process watched meanwhile: it ran for
    longer than home knew of it."""
    known, ran = _between(moments, "program started", "program ended"), _program_seconds(seen)
    return 0.0 if known is None or ran is None else max(0.0, ran - known)


def _program_seconds(seen: Sequence[Observation]) -> float | None:
    ends = [s for s in seen if s.kind == "program" and s.values.get("state") == "ended"]
    return _number(ends[-1], "seconds") or None if ends else None


def _training(seen: Sequence[Observation]) -> TrainingTimes | None:
    groups = tuple(group for each in seen for group in _groups(each))
    if not groups:
        return None
    first = next((each for each in seen if "first_seconds" in each.values), None)
    return TrainingTimes(
        iterations=sum(group.count for group in groups),
        groups=groups,
        init_seconds=_number(first, "init_seconds") if first and "init_seconds" in first.values else None,
        first_seconds=_number(first, "first_seconds") if first else None,
        validations=int(sum(_number(each, "validations") for each in seen)),
        validation_seconds=sum(_number(each, "validation_seconds") for each in seen),
        checkpoints=int(sum(_number(each, "checkpoints") for each in seen)),
        checkpoint_seconds=sum(_number(each, "checkpoint_seconds") for each in seen),
    )


def _groups(seen: Observation) -> Iterator[IterationGroup]:
    """The means of an entry: of groups of equal size but for the last."""
    values, count = seen.values.get("seconds"), int(_number(seen, "count"))
    if not isinstance(values, list) or not values:
        return
    size = -(-count // len(values))
    for place, value in enumerate(values):
        members = min(size, count - place * size)
        if value is not None and value > 0 and members > 0:
            yield IterationGroup(seconds=value, count=members)


def _number(seen: Observation, name: str) -> float:
    value = seen.values.get(name)
    return float(value) if isinstance(value, int | float) else 0.0

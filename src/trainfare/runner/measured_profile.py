"""The Profile that a run leaves behind: the times of its iterations on the machine that it ran on.

What does not depend on the machine (operations, parameters, batch size, length) is taken from the profile by which the
run was predicted. What does depend on it, and was not observed, is unknown.
"""

from collections.abc import Sequence
from dataclasses import replace

from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.run import Run
from trainfare.runner.observed import AttemptTimes, IterationGroup, TrainingTimes

MIN_ITERATIONS = 11
"""Fewer iterations, the first one included, are not worth a profile."""
MAX_TIMES = 500
"""The times of a longer training are means of several iterations each."""
MAX_PAUSES = 1000
"""Validations and checkpoints that are listed; each has the mean time of all."""
MAX_WAIT_SHARE = 0.1
"""A program that waited longer for data is not learned from on another GPU: how long it waited there is unknown."""


def profile_of_attempt(run: Run, attempt: AttemptTimes, base: Profile | None, host: Host) -> Profile | None:
    """The profile of an attempt on `host`, by the profile `base` of its program. None if it says too little: too few
    iterations, several nodes, or another device than in the profile."""
    training = attempt.training
    if training is None or training.iterations < MIN_ITERATIONS or training.first_seconds is None:
        return None
    if attempt.candidate.nodes > 1 or training.first_seconds <= 0 or attempt.resumed:
        return None
    if base is not None and not _same_device(base, host, training):
        return None
    known = base or Profile(
        id=profile_id(run, attempt),
        program=run.program,
        host=host,
        measured_at=attempt.last_seen_at,
        framework="unknown",
        device=None if host.gpu else "cpu",
        iteration_seconds=(training.first_seconds,),
        planned_iterations=training.iterations if attempt.completed else None,
    )
    return replace(
        known,
        id=profile_id(run, attempt),
        host=host,
        measured_at=attempt.last_seen_at,
        origin="run",
        ending="finished" if attempt.completed else "interrupted",
        init_seconds=training.init_seconds if training.init_seconds is not None else known.init_seconds,
        iteration_seconds=(training.first_seconds, *_steady(training)),
        run_seconds=attempt.training_seconds,
        run_iterations=training.iterations,
        validation_seconds=_each(training.validation_seconds, training.validations),
        checkpoint_seconds=_each(training.checkpoint_seconds, training.checkpoints),
        data_wait_seconds=(),
        loss=(),
        learning_rate=(),
        curve=(),
        peak_host_bytes=attempt.peak_host_bytes,
        peak_device_bytes=None,
        sent_bytes=None,
        received_bytes=None,
        cpu_use=None,
        cpu_queue_share=None,
        gpu_use=None,
        compile_seconds=None,
        compile_cache_warm=None,
        operator_seconds={},
        operator_host_seconds={},
    )


def profile_id(run: Run, attempt: AttemptTimes) -> str:
    """The id follows from the run, so that its profile is stored once."""
    return f"p{run.id}" if attempt.attempt == 1 else f"p{run.id}.{attempt.attempt}"


def _same_device(base: Profile, host: Host, training: TrainingTimes) -> bool:
    """The run computed on the kind of device that the profile was measured on."""
    if base.device == "cuda":
        mean = training.steady_seconds / max(1, training.iterations - 1)
        waits = base.median_data_wait_seconds > MAX_WAIT_SHARE * mean
        return host.gpu is not None and host.gpus >= base.world_size and not waits
    return host.gpu is None and base.device in (None, "cpu")


def _steady(training: TrainingTimes) -> tuple[float, ...]:
    """The times of all iterations but the first; means of equal numbers of iterations if there are many."""
    first = training.first_seconds or 0.0
    head, *others = training.groups
    rest = head.count - 1
    if rest:  # the first iteration is part of this mean
        others = [IterationGroup(seconds=max(1e-9, head.seconds * head.count - first) / rest, count=rest), *others]
    size = -(-sum(group.count for group in others) // MAX_TIMES)
    return tuple(_rebinned(others, size))


def _rebinned(groups: Sequence[IterationGroup], size: int) -> list[float]:
    """Means of `size` iterations each; a last one of less than half as many is left out."""
    means, total, filled = [], 0.0, 0
    for group in groups:
        left = group.count
        while left:
            taken = min(left, size - filled)
            total, filled, left = total + taken * group.seconds, filled + taken, left - taken
            if filled == size:
                means.append(total / size)
                total, filled = 0.0, 0
    if filled >= max(1, size / 2):
        means.append(total / filled)
    return means


def _each(seconds: float, count: int) -> tuple[float, ...]:
    return (seconds / count,) * min(count, MAX_PAUSES) if count else ()

"""From what is believed of a machine to an Estimate: Malta's equation 5.3, and everything that is paid for beside it.

`belief.py` says how long an iteration takes there. To the training come boot and setup, checkpoints, and on spot what
interruptions cost (`spot.py`); `bill.py` charges the sum. Boot, setup, the program and interruptions err independently
of one another, so their errors add up as squares:

    T = Σ Tᵢ,   T ± √Σ dᵢ²   with dᵢ the half width of part i on that side

Where the number of epochs is only expected, N between N₋ and N₊, that is a further error, independent of those of the
times, and it multiplies: the logarithms add up as squares,

    T₋ = T·exp(−√(ln²(T/t₋) + ln²(T(N)/T(N₋)))),   T₊ likewise with t₊ and N₊

with t₋ and t₊ the ends for exactly N epochs, and T(N₋) and T(N₊) what fewer or more epochs take; each phase likewise.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainfare.estimator.belief import Belief, Believer
from trainfare.estimator.bill import Charges, bill, charge, starting_phases
from trainfare.estimator.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.iterations import training_phases
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.spot import Rework, cut, expected_seconds, rework
from trainfare.model.bill import Bill, Terms
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.units import BYTES_PER_GIB, SECONDS_PER_HOUR, spell_seconds

PLAIN = Charges()

STARTING = ("boot", "setup", "initialisation", "first iteration")
"""What a start consists of; after an interruption all of it comes again."""
OWN_CHECKPOINTS = "as often as while profiling"
NEVER = 1e-9
"""So few interruptions are none."""
DALY_CHECKPOINTS = "√(2 · checkpoint · time between interruptions) apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All that the time of a candidate depends on but its price: shared by every offer alike."""

    phases: tuple[Phase, ...]
    seconds: Interval
    rework: Rework | None = None
    checkpoint_every_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How long to train, and what is charged for it: the same for all candidates."""

    iterations_per_epoch: float
    epochs: int
    epochs_interval: Interval | None
    charges: Charges


def estimate_all(
    believer: Believer,
    candidates: Sequence[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PLAIN,
) -> tuple[Estimate, ...]:
    """An Estimate for each Candidate of which anything is believed.

    Where a program counts in iterations its epochs need not be whole: `iterations_per_epoch` is then what makes their
    product right.
    `epochs_interval` holds between how many, where they are only expected.
    """
    training = Training(
        iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval, charges=charges
    )
    bills: dict[tuple[object, ...], Bill] = {}  # a machine often has one price in many regions

    def told(estimate: Estimate, timing: Timing, belief: Belief) -> Estimate:
        offer = estimate.candidate.offer
        priced = (id(timing), offer.vm_type.gpus, offer.usd_per_hour, offer.seen_on, offer.commitment)
        charged = bills.get(priced)
        if charged is None:
            charged = bills[priced] = _bill(belief, estimate.candidate, timing, training)
        return replace(estimate, phases=timing.phases, usd=charged.usd, bill=charged)

    with_words = {}
    estimates = []
    for brief, timing, belief in _estimates(believer, candidates, training):
        if id(timing) not in with_words:
            with_words[id(timing)] = replace(timing, phases=tuple(_told(timing.phases, belief, training)))
        estimates.append(told(brief, with_words[id(timing)], belief))
    return tuple(estimates)


def estimate_in_brief(
    believer: Believer,
    candidates: Sequence[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PLAIN,
) -> tuple[Estimate, ...]:
    """The same times and costs, without the bill and without how each phase comes about: of thousands of candidates
    only a few are ever read."""
    training = Training(
        iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval, charges=charges
    )
    return tuple(brief for brief, _, _ in _estimates(believer, candidates, training))


def _estimates(
    believer: Believer, candidates: Sequence[Candidate], training: Training
) -> Iterator[tuple[Estimate, Timing, Belief]]:
    """In brief; a Timing is one and the same thing wherever it is the same."""
    timings: dict[tuple[object, ...], Timing] = {}
    memories: dict[tuple[object, ...], MemoryFit | None] = {}
    starts: dict[tuple[object, ...], tuple[Phase, ...]] = {}
    for candidate in candidates:
        offer, vm_type = candidate.offer, candidate.offer.vm_type
        belief = believer.believe(
            vm_type, nodes=candidate.nodes, gpus=candidate.gpus_working, batch_size=candidate.batch_size
        )
        if belief is None:
            continue
        terms = training.charges.terms(offer)
        # The believer keeps what it has said once: what is the same is the same thing.
        taken_back = training.charges.interruptions(offer).per_hour.value if offer.market == "spot" else None
        alike = (id(belief), terms.provider, offer.market == "own", taken_back, candidate.nodes)
        timing = timings.get(alike)
        if timing is None:
            where = (terms.provider, offer.market == "own")
            if where not in starts:
                starts[where] = starting_phases(offer, terms, training.charges.overheads)
            timing = timings[alike] = _timing(belief, candidate, starts[where], training)
        held = (id(belief), vm_type.memory_gib if vm_type.gpu is None else vm_type.gpu.memory_gib)
        if held not in memories:
            memories[held] = _memory(believer, belief, candidate)
        yield _estimate(belief, candidate, timing, terms, training, memories[held]), timing, belief


def _timing(belief: Belief, candidate: Candidate, start: tuple[Phase, ...], training: Training) -> Timing:
    charges, iterations_per_epoch, epochs = training.charges, training.iterations_per_epoch, training.epochs
    phases = start + training_phases(belief.times, iterations_per_epoch=iterations_per_epoch, epochs=epochs)
    checkpoints = checkpoints_of(belief.profile, iterations_per_epoch=max(1, round(iterations_per_epoch)))
    if candidate.offer.market == "spot":
        timing = _on_spot(phases, checkpoints, candidate, epochs, charges)
    else:
        phases += _written(checkpoints, round(checkpoints.per_epoch * epochs), OWN_CHECKPOINTS)
        timing = Timing(phases=phases, seconds=_total(phases))
    if training.epochs_interval is None:
        return timing
    few, many = (
        _expected(belief, candidate, start, checkpoints, training, round(n))
        for n in (training.epochs_interval.low, training.epochs_interval.high)
    )
    return _widened(timing, few, many)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a number of epochs takes, without the doubt: seconds of each phase, and interruptions."""

    seconds: Mapping[str, float]
    interruptions: float


def _expected(
    belief: Belief,
    candidate: Candidate,
    start: tuple[Phase, ...],
    checkpoints: Checkpoints,
    training: Training,
    epochs: int,
) -> Expected:
    """As `_timing` has it, in plain numbers."""
    times, each = belief.times, checkpoints.seconds.value
    seconds: dict[str, float] = {phase.name: phase.seconds.value for phase in start}
    seconds["initialisation"] = times.init.value
    seconds["first iteration"] = times.first.value
    seconds["steady iterations"] = times.later.value * (training.iterations_per_epoch * epochs - 1)
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        seconds["validation"] = times.first_validation.value + later.value * (epochs - 1)
    written = round(checkpoints.per_epoch * epochs)
    interruptions = 0.0
    if candidate.offer.market == "spot":
        starting = sum(value for name, value in seconds.items() if name in STARTING)
        work = sum(value for name, value in seconds.items() if name not in STARTING)
        rate = training.charges.interruptions(candidate.offer).per_hour.value
        per_second = candidate.nodes * rate / SECONDS_PER_HOUR
        pieces = cut(work, checkpoints, epochs=epochs, per_second=per_second)
        expected = expected_seconds(work, start=starting, pieces=pieces, per_second=per_second)
        written = written or pieces.count - 1
        seconds["spot rework"] = max(0.0, expected - starting - work - pieces.written_seconds)
        interruptions = per_second * expected
    seconds["checkpoints"] = written * each
    return Expected(seconds=seconds, interruptions=interruptions)


def _widened(timing: Timing, few: Expected, many: Expected) -> Timing:
    """The same time, allowing for fewer or more epochs."""
    lost = timing.rework
    if lost is not None:
        lost = replace(lost, interruptions=_allowing(lost.interruptions, few.interruptions, many.interruptions))
    return replace(
        timing,
        phases=tuple(
            phase
            if phase.name in STARTING
            else replace(
                phase,
                seconds=_allowing(phase.seconds, few.seconds.get(phase.name, 0.0), many.seconds.get(phase.name, 0.0)),
            )
            for phase in timing.phases
        ),
        seconds=_allowing(timing.seconds, sum(few.seconds.values()), sum(many.seconds.values())),
        rework=lost,
    )


def _allowing(exactly: Interval, few: float, many: float) -> Interval:
    """T₋ and T₊ of the formula; `few` and `many` are T(N₋) and T(N₊). What is nothing stays as it is."""
    value = exactly.value
    if not value:
        return exactly
    return Interval(
        value=value,
        low=value * math.exp(-math.hypot(_log_ratio(value, exactly.low), _log_ratio(value, few))),
        high=value * math.exp(math.hypot(_log_ratio(exactly.high, value), _log_ratio(many, value))),
        confidence=exactly.confidence,
    )


def _log_ratio(more: float, less: float) -> float:
    """Infinite above nothing; never negative."""
    if more <= less:
        return 0.0
    return math.log(more / less) if less > 0 else math.inf


def _on_spot(
    phases: tuple[Phase, ...], checkpoints: Checkpoints, candidate: Candidate, epochs: int, charges: Charges
) -> Timing:
    per_hour, nodes = charges.interruptions(candidate.offer).per_hour, candidate.nodes
    start = sum(phase.seconds.value for phase in phases if phase.name in STARTING)
    work = sum(phase.seconds.value for phase in phases if phase.name not in STARTING)
    pieces = cut(work, checkpoints, epochs=epochs, per_second=nodes * per_hour.value / SECONDS_PER_HOUR)
    lost = rework(work, start=start, pieces=pieces, per_hour=per_hour, nodes=nodes)
    own = round(checkpoints.per_epoch * epochs)
    phases += _written(checkpoints, own or pieces.count - 1, OWN_CHECKPOINTS if own else DALY_CHECKPOINTS)
    if lost.seconds.high > 0:
        each = lost.seconds.value / lost.interruptions.value if lost.interruptions.value > NEVER else 0.0
        several = "" if nodes == 1 else f" × {nodes} nodes"
        how = (
            f"{lost.interruptions.value:.2g} interruptions ({per_hour.value:.2g} an hour{several}) × "
            f"{spell_seconds(each)} to start again and to redo what was lost"
        )
        phases += (Phase(name="spot rework", seconds=lost.seconds, how=how),)
    return Timing(
        phases=phases,
        seconds=_total(phases),
        rework=lost,
        checkpoint_every_seconds=work / pieces.count if work and (own or pieces.count > 1) else None,
    )


def _written(checkpoints: Checkpoints, count: int, why: str) -> tuple[Phase, ...]:
    if not count:
        return ()
    how = f"{count} × {spell_seconds(checkpoints.seconds.value)}, {why}"
    return (Phase(name="checkpoints", seconds=checkpoints.seconds * count, how=how),)


def _told(phases: Iterable[Phase], belief: Belief, training: Training) -> Iterator[Phase]:
    """The phases of the training with their formulas; the others have theirs."""
    times, epochs, iterations_per_epoch = belief.times, training.epochs, training.iterations_per_epoch
    runs = "" if belief.iteration.runs == 1 else f", the middle of {belief.iteration.runs} runs"
    source = _source(belief, runs)
    if iterations_per_epoch == round(iterations_per_epoch):
        iterations = f"{iterations_per_epoch:.0f} × {epochs}"
    else:
        iterations = f"{iterations_per_epoch * epochs:.0f}"
    told = {
        "initialisation": f"{spell_seconds(times.init.value)}, {source}",
        "first iteration": f"{spell_seconds(times.first.value)}, {belief.basis}",
        "steady iterations": f"{_precise(times.later.value)} × ({iterations} − 1)",
    }
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        told["validation"] = f"{_precise(times.first_validation.value)} + {_precise(later.value)} × ({epochs} − 1)"
    for phase in phases:
        how = told.get(phase.name)
        if how is None:
            yield phase
            continue
        equals = f" = {spell_seconds(phase.seconds.value)}" if "×" in how else ""
        yield replace(phase, how=how + equals)


def _source(belief: Belief, runs: str) -> str:
    """Where initialisation is from."""
    if belief.basis == "measured":
        return f"measured{runs}"
    if belief.profile.device == "cpu" and belief.basis == "scaled":
        return "as one thread takes it on such a slice"
    return "as on the profiled machine, within a factor of 2"


def _precise(seconds: float) -> str:
    """Three digits, in seconds: `0.0214 s`."""
    return f"{seconds:.3g} s"


def _bill(belief: Belief, candidate: Candidate, timing: Timing, training: Training) -> Bill:
    return bill(
        timing.phases,
        timing.seconds,
        candidate,
        terms=training.charges.terms(candidate.offer),
        overheads=training.charges.overheads,
        results_gib=_results_gib(belief, training.charges),
    )


def _results_gib(belief: Belief, charges: Charges) -> float | None:
    stated = charges.overheads.results_gib
    size = checkpoint_bytes(belief.profile) if stated is None else stated * BYTES_PER_GIB
    return None if size is None else size / BYTES_PER_GIB


def _estimate(
    belief: Belief, candidate: Candidate, timing: Timing, terms: Terms, training: Training, memory: MemoryFit | None
) -> Estimate:
    charges = training.charges
    return Estimate(
        candidate=candidate,
        profile_id=belief.profile.id,
        epochs=training.epochs,
        basis=belief.basis,
        iteration_seconds=belief.times.later,
        phases=timing.phases,
        seconds=timing.seconds,
        usd=charge(
            timing.seconds,
            candidate,
            terms=terms,
            overheads=charges.overheads,
            results_gib=_results_gib(belief, charges),
        ),
        limited_by=belief.iteration.limited_by,
        memory=memory,
        interruptions=timing.rework.interruptions if timing.rework else None,
        checkpoint_every_seconds=timing.checkpoint_every_seconds,
        epochs_interval=training.epochs_interval,
    )


def _memory(believer: Believer, belief: Belief, candidate: Candidate) -> MemoryFit | None:
    workers = max(1, candidate.nodes * candidate.gpus_working)
    size = candidate.batch_size if belief.profile.whole_batch_size is not None else None
    return memory_fit(belief.profile, candidate.offer.vm_type, batch_size=size, gpus=workers, others=believer.profiles)


def _total(phases: Sequence[Phase]) -> Interval:
    """What the program does errs alike: a busy host slows all of it. Boot, setup and interruptions err on their own."""
    value = below = above = 0.0
    squares_below = squares_above = 0.0
    for phase in phases:
        seconds = phase.seconds
        value += seconds.value
        if phase.name in ("boot", "setup", "spot rework"):
            squares_below += (seconds.value - seconds.low) ** 2
            squares_above += (seconds.high - seconds.value) ** 2
        else:
            below += seconds.value - seconds.low
            above += seconds.high - seconds.value
    return Interval(
        value=value,
        low=max(0.0, value - math.sqrt(below**2 + squares_below)),
        high=value + math.sqrt(above**2 + squares_above),
    )

"""From what is believed of a machine to an Estimate: Malta's equation 5.3, and everything that is paid for beside it.

`prediction/predictor.py` says how long an iteration takes there. To the training come boot and setup, checkpoints, and
on spot what
interruptions cost: `timing.py` adds them up, and `bill.py` charges the sum. Here are the Estimate, and how each of its
phases comes about in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trainfare.estimator.cost.bill import Charges, bill, charge, starting_phases
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.cost.timing import STARTING, Course, Start, Timing, course_of, on_spot, undisturbed
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.prediction.predictor import StepTimePrediction, StepTimePredictor
from trainfare.model.bill import Bill, Terms
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB, format_duration

__all__ = ["STARTING", "estimate_all", "estimate_totals"]

PLAIN = Charges()

OWN_CHECKPOINTS = "as often as while profiling"
NEVER = 1e-9
"""So few interruptions are none."""
DALY_CHECKPOINTS = "√(2 · checkpoint · time between interruptions) apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How long to train, and what is charged for it: the same for all candidates."""

    iterations_per_epoch: float
    epochs: int
    epochs_interval: Interval | None
    charges: Charges

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs)
        if not self.iterations_per_epoch >= 1:
            raise ValueError(f"iterations_per_epoch must be at least 1, got {self.iterations_per_epoch}")


def estimate_all(
    predictor: StepTimePredictor,
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

    def told(estimate: Estimate, timing: Timing, prediction: StepTimePrediction) -> Estimate:
        offer = estimate.candidate.offer
        priced = (id(timing), offer.vm_type.gpus, offer.usd_per_hour, offer.seen_on, offer.commitment)
        charged = bills.get(priced)
        if charged is None:
            charged = bills[priced] = _bill(prediction, estimate.candidate, timing, training)
        return replace(estimate, phases=timing.phases, usd=charged.usd, bill=charged)

    with_words: dict[int, Timing] = {}
    estimates = []
    for brief, timing, prediction in _Estimating(predictor, training).of(candidates):
        if id(timing) not in with_words:
            phases = tuple(_told(timing, prediction, brief.candidate, training))
            with_words[id(timing)] = timing._replace(phases=phases)
        estimates.append(told(brief, with_words[id(timing)], prediction))
    return tuple(estimates)


def estimate_totals(
    predictor: StepTimePredictor,
    candidates: Sequence[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PLAIN,
) -> tuple[Estimate, ...]:
    """The same times, phases and costs, without the bill and without how each phase comes about: of thousands of
    candidates only a few are ever read."""
    training = Training(
        iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval, charges=charges
    )
    return tuple(brief for brief, _, _ in _Estimating(predictor, training).of(candidates))


class _Rented(NamedTuple):
    """What an offer has whatever it is used for."""

    terms: Terms
    start: Start
    per_hour: Interval | None
    """How often it is taken back, where it is on spot."""


class _Estimating:
    """Many candidates for one training; what several of them share is worked out once.

    Beliefs and profiles stay as long as the predictor, and offers as long as the candidates: so what is the same thing
    is known by its `id`, which is quicker than to compare all that is in it.
    """

    def __init__(self, predictor: StepTimePredictor, training: Training) -> None:
        self._predictor = predictor
        self._training = training
        self._rented: dict[int, _Rented] = {}
        self._starts: dict[tuple[str, bool], Start] = {}
        self._courses: dict[int, Course] = {}
        self._timings: dict[tuple[int, int, float | None, int], Timing] = {}
        self._memories: dict[tuple[object, ...], MemoryFit | None] = {}
        self._memory_of: dict[tuple[int, float | None], MemoryFit | None] = {}
        self._checkpoints: dict[int, Checkpoints] = {}
        self._results: dict[int, float | None] = {}

    def of(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Estimate, Timing, StepTimePrediction]]:
        """In brief; a Timing is one and the same thing wherever it is the same."""
        for candidate in candidates:
            offer = candidate.offer
            prediction = self._predictor.predict(
                offer.vm_type, nodes=candidate.nodes, gpus=candidate.working_gpus_per_node, batch_size=candidate.batch_size
            )
            if prediction is None:
                continue
            rented = self._rented.get(id(offer))
            if rented is None:
                rented = self._rented[id(offer)] = self._renting(offer)
            timing = self._timing(prediction, rented, candidate.nodes)
            yield self._estimate(prediction, candidate, timing, rented.terms), timing, prediction

    def _renting(self, offer: Offer) -> _Rented:
        charges = self._training.charges
        terms, own = charges.terms(offer), offer.market == "own"
        start = self._starts.get((terms.provider, own))
        if start is None:
            start = Start.of(starting_phases(offer, terms, charges.overheads))
            self._starts[terms.provider, own] = start
        return _Rented(terms, start, charges.interruptions(offer).per_hour if offer.market == "spot" else None)

    def _timing(self, prediction: StepTimePrediction, rented: _Rented, nodes: int) -> Timing:
        start, per_hour = rented.start, rented.per_hour
        alike = (id(prediction), id(start), None if per_hour is None else per_hour.value, nodes)
        found = self._timings.get(alike)
        if found is None:
            course = self._courses.get(id(prediction))
            if course is None:
                course = self._courses[id(prediction)] = self._course(prediction)
            if per_hour is None:
                found = undisturbed(start, course)
            else:
                found = on_spot(start, course, per_hour=per_hour, nodes=nodes)
            self._timings[alike] = found
        return found

    def _course(self, prediction: StepTimePrediction) -> Course:
        training, profile = self._training, prediction.profile
        checkpoints = self._checkpoints.get(id(profile))
        if checkpoints is None:
            checkpoints = self._checkpoints[id(profile)] = _checkpoints(profile, training)
        return course_of(
            prediction.times,
            checkpoints,
            iterations_per_epoch=training.iterations_per_epoch,
            epochs=training.epochs,
            epochs_interval=training.epochs_interval,
        )

    def _estimate(self, prediction: StepTimePrediction, candidate: Candidate, timing: Timing, terms: Terms) -> Estimate:
        training, iteration = self._training, prediction.iteration
        profile = iteration.profile
        if id(profile) not in self._results:
            self._results[id(profile)] = _results_gib(profile, training.charges)
        return Estimate(
            candidate=candidate,
            profile_id=profile.id,
            epochs=training.epochs,
            basis=iteration.basis,
            iteration_seconds=prediction.times.later,
            phases=timing.phases,
            seconds=timing.seconds,
            usd=charge(
                timing.seconds,
                candidate,
                terms=terms,
                overheads=training.charges.overheads,
                results_gib=self._results[id(profile)],
            ),
            limited_by=iteration.limited_by,
            memory=self._memory(prediction, candidate),
            interruptions=timing.interruptions,
            checkpoint_every_seconds=timing.checkpoint_every_seconds,
            epochs_interval=training.epochs_interval,
        )

    def _memory(self, prediction: StepTimePrediction, candidate: Candidate) -> MemoryFit | None:
        """A prediction is of one batch size on so many GPUs; to memory many beliefs are alike."""
        vm_type = candidate.offer.vm_type
        gib = vm_type.memory_gib if vm_type.gpu is None else vm_type.gpu.memory_gib
        believed = (id(prediction), gib)
        if believed not in self._memory_of:
            profile = prediction.profile
            workers = max(1, candidate.nodes * candidate.working_gpus_per_node)
            size = candidate.batch_size if profile.effective_batch_size is not None else None
            held = (id(profile), size, workers, vm_type.gpu is None, gib)
            if held not in self._memories:
                others = self._predictor.profiles
                self._memories[held] = memory_fit(profile, vm_type, batch_size=size, gpus=workers, others=others)
            self._memory_of[believed] = self._memories[held]
        return self._memory_of[believed]


def _checkpoints(profile: Profile, training: Training) -> Checkpoints:
    return checkpoints_of(profile, iterations_per_epoch=max(1, round(training.iterations_per_epoch)))


def _results_gib(profile: Profile, charges: Charges) -> float | None:
    stated = charges.overheads.results_gib
    size = checkpoint_bytes(profile) if stated is None else stated * BYTES_PER_GIB
    return None if size is None else size / BYTES_PER_GIB


def _bill(prediction: StepTimePrediction, candidate: Candidate, timing: Timing, training: Training) -> Bill:
    return bill(
        timing.phases,
        timing.seconds,
        candidate,
        terms=training.charges.terms(candidate.offer),
        overheads=training.charges.overheads,
        results_gib=_results_gib(prediction.profile, training.charges),
    )


# How each phase comes about, in words.


def _told(timing: Timing, prediction: StepTimePrediction, candidate: Candidate, training: Training) -> Iterator[Phase]:
    """The phases with their formulas; boot and setup have theirs."""
    told = _training_told(prediction, training)
    for phase in timing.phases:
        how = told.get(phase.name)
        if phase.name == "checkpoints":
            yield replace(phase, how=_checkpoints_told(timing, prediction, training))
        elif phase.name == "spot rework":
            yield replace(phase, how=_rework_told(phase, timing, candidate, training))
        elif how is None:
            yield phase
        else:
            equals = f" = {format_duration(phase.seconds.value)}" if "×" in how else ""
            yield replace(phase, how=how + equals)


def _checkpoints_told(timing: Timing, prediction: StepTimePrediction, training: Training) -> str:
    checkpoints = _checkpoints(prediction.profile, training)
    why = OWN_CHECKPOINTS if round(checkpoints.per_epoch * training.epochs) else DALY_CHECKPOINTS
    return f"{timing.checkpoints_written} × {format_duration(checkpoints.seconds.value)}, {why}"


def _rework_told(phase: Phase, timing: Timing, candidate: Candidate, training: Training) -> str:
    number = timing.interruptions.value if timing.interruptions else 0.0
    per_hour = training.charges.interruptions(candidate.offer).per_hour.value
    each = phase.seconds.value / number if number > NEVER else 0.0
    several = "" if candidate.nodes == 1 else f" × {candidate.nodes} nodes"
    return (
        f"{number:.2g} interruptions ({per_hour:.2g} an hour{several}) × "
        f"{format_duration(each)} to start again and to redo what was lost"
    )


def _training_told(prediction: StepTimePrediction, training: Training) -> dict[str, str]:
    """By the name of the phase."""
    times, epochs, iterations_per_epoch = prediction.times, training.epochs, training.iterations_per_epoch
    runs = "" if prediction.iteration.runs == 1 else f", the middle of {prediction.iteration.runs} runs"
    source = _source(prediction, runs)
    if iterations_per_epoch == round(iterations_per_epoch):
        iterations = f"{iterations_per_epoch:.0f} × {epochs}"
    else:
        iterations = f"{iterations_per_epoch * epochs:.0f}"
    told = {
        "initialisation": f"{format_duration(times.init.value)}, {source}",
        "first iteration": f"{format_duration(times.first.value)}, {prediction.basis}",
        "steady iterations": f"{_precise(times.later.value)} × ({iterations} − 1)",
    }
    if times.first_validation is not None:
        later = times.later_validation or times.first_validation
        told["validation"] = f"{_precise(times.first_validation.value)} + {_precise(later.value)} × ({epochs} − 1)"
    return told


def _source(prediction: StepTimePrediction, runs: str) -> str:
    """Where initialisation is from."""
    if prediction.basis == "measured":
        return f"measured{runs}"
    if prediction.profile.device == "cpu" and prediction.basis == "scaled":
        return "as one thread takes it on such a slice"
    return "as on the profiled machine, within a factor of 2"


def _precise(seconds: float) -> str:
    """Three digits, in seconds: `0.0214 s`."""
    return f"{seconds:.3g} s"

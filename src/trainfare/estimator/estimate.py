"""Estimates of candidates: Malta's equation 5.3 and everything else that is paid for.

`prediction/predictor.py` predicts the time of an iteration. Boot and setup, checkpoints and, on spot, the cost of
interruptions are added by `cost/timing.py`, and `cost/bill.py` charges the sum.

Thousands of candidates are estimated at once, and few of them are ever read. Whatever several candidates or several
variants of one training share is computed once: the terms of an offer, the memory that is needed, the time of a
prediction on one market. `totals` leaves out the bill and the explanation of each phase; `details` adds them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trainfare.estimator.cost.bill import UNROUNDED_BILLING, Charges, bill, charge, starting_phases
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.cost.timing import STARTUP_PHASES, ProgramTime, MachineStart, Timing, program_time, with_interruptions, without_interruptions
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.phase_calculations import with_calculations
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Bill, Terms
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Estimate, MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

__all__ = ["STARTUP_PHASES", "CandidateEstimator", "TrainingWork", "estimate_all", "estimate_totals"]

PRICE_ONLY = Charges()
"""Price × time, without boot, setup, storage and egress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWork:
    """The length of a training: the same for all candidates of one batch size.

    If the program counts in iterations, its epochs need not be integers: `iterations_per_epoch` is then chosen so that
    the product with `epochs` is right. `epochs_interval` is set if the number of epochs is uncertain.
    """

    iterations_per_epoch: float
    epochs: int
    epochs_interval: Interval | None = None

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs)
        if not self.iterations_per_epoch >= 1:
            raise ValueError(f"iterations_per_epoch must be at least 1, got {self.iterations_per_epoch}")


class Rental(NamedTuple):
    """The terms of an offer, whatever it is used for."""

    terms: Terms
    start: MachineStart
    interruptions_per_hour: Interval | None
    """None if the machine is not on spot."""


def estimate_all(
    predictor: StepTimePredictor,
    candidates: Sequence[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PRICE_ONLY,
) -> tuple[Estimate, ...]:
    """Estimates with bills of the candidates that the profiles say anything about, for one training."""
    training = TrainingWork(iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval)
    return CandidateEstimator(predictor, charges).details(candidates, training)


def estimate_totals(
    predictor: StepTimePredictor,
    candidates: Sequence[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PRICE_ONLY,
) -> tuple[Estimate, ...]:
    """The same times, phases and costs, without the bills and the explanations of the phases."""
    training = TrainingWork(iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval)
    return CandidateEstimator(predictor, charges).totals(candidates, training)


class _Parts(NamedTuple):
    """What an estimate is computed from."""

    candidate: Candidate
    prediction: StepTimePrediction
    rental: Rental
    timing: Timing


class CandidateEstimator:
    """Estimates many candidates for several variants of a training.

    Predictions, profiles and offers live as long as the predictor and the catalog, so the caches here are keyed by
    their identity, which is much faster than comparing their contents.
    """

    def __init__(self, predictor: StepTimePredictor, charges: Charges = PRICE_ONLY) -> None:
        self._predictor = predictor
        self._charges = charges
        self._rentals: dict[int, Rental] = {}
        self._offers: list[Offer] = []
        """Keeps the offers alive whose identities are keys."""
        self._starts: dict[tuple[str, bool], MachineStart] = {}
        self._memory_by_prediction: dict[tuple[int, float | None], MemoryFit | None] = {}
        self._memory: dict[tuple[object, ...], MemoryFit | None] = {}
        self._results_gib: dict[int, float | None] = {}
        self._timings: dict[TrainingWork, _Timings] = {}

    def totals(self, candidates: Iterable[Candidate], training: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates without bills of the candidates that the profiles say anything about."""
        return tuple(self._estimate(parts, training, parts.rental.terms) for parts in self._parts(candidates, training))

    def unrounded(self, candidates: Iterable[Candidate], training: TrainingWork) -> tuple[Estimate, ...]:
        """The totals without rounding of the billed time and without a minimum charge: straight lines in the number of
        epochs on all markets but spot."""
        return tuple(
            self._estimate(parts, training, replace(parts.rental.terms, billing=UNROUNDED_BILLING))
            for parts in self._parts(candidates, training)
        )

    def details(self, candidates: Iterable[Candidate], training: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates with bills, and with phases that explain how they are calculated."""
        explained: dict[int, Timing] = {}
        bills: dict[tuple[object, ...], Bill] = {}  # a machine often has one price in many regions
        found = []
        for parts in self._parts(candidates, training):
            timing = explained.get(id(parts.timing))
            if timing is None:
                timing = explained[id(parts.timing)] = self._explained(parts, training)
            offer = parts.candidate.offer
            key = (id(timing), offer.vm_type.gpus, offer.usd_per_hour, offer.seen_on, offer.commitment)
            charged = bills.get(key)
            if charged is None:
                charged = bills[key] = self._bill(parts._replace(timing=timing))
            estimate = self._estimate(parts, training, parts.rental.terms)
            found.append(replace(estimate, phases=timing.phases, usd=charged.usd, bill=charged))
        return tuple(found)

    def rental(self, offer: Offer) -> Rental:
        """The terms of an offer, resolved once."""
        found = self._rentals.get(id(offer))
        if found is None:
            found = self._rentals[id(offer)] = self._resolve(offer)
            self._offers.append(offer)
        return found

    def _resolve(self, offer: Offer) -> Rental:
        charges = self._charges
        terms, own = charges.terms(offer), offer.market == "own"
        start = self._starts.get((terms.provider, own))
        if start is None:
            start = MachineStart.of(starting_phases(offer, terms, charges.overheads))
            self._starts[terms.provider, own] = start
        return Rental(terms, start, charges.interruptions(offer).per_hour if offer.market == "spot" else None)

    def _parts(self, candidates: Iterable[Candidate], training: TrainingWork) -> Iterator[_Parts]:
        timings = self._timings.get(training)
        if timings is None:
            timings = self._timings[training] = _Timings(training)
        predict = self._predictor.predict
        for candidate in candidates:
            nodes, gpus = candidate.nodes, candidate.working_gpus_per_node
            offer = candidate.offer
            prediction = predict(offer.vm_type, nodes=nodes, gpus=gpus, batch_size=candidate.batch_size)
            if prediction is not None:
                rental = self.rental(offer)
                yield _Parts(candidate, prediction, rental, timings.timing(prediction, rental, nodes))

    def _estimate(self, parts: _Parts, training: TrainingWork, terms: Terms) -> Estimate:
        candidate, prediction, _, timing = parts
        iteration = prediction.iteration
        profile = iteration.profile
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
                overheads=self._charges.overheads,
                results_gib=self._results(profile),
            ),
            limited_by=iteration.limited_by,
            memory=self._memory_fit(prediction, candidate),
            interruptions=timing.interruptions,
            checkpoint_every_seconds=timing.checkpoint_every_seconds,
            epochs_interval=training.epochs_interval,
        )

    def _memory_fit(self, prediction: StepTimePrediction, candidate: Candidate) -> MemoryFit | None:
        """The memory fit, shared by all predictions of one batch size on one number of GPUs of one size."""
        vm_type = candidate.offer.vm_type
        gib = vm_type.memory_gib if vm_type.gpu is None else vm_type.gpu.memory_gib
        key = (id(prediction), gib)
        if key not in self._memory_by_prediction:
            profile = prediction.profile
            workers = max(1, candidate.nodes * candidate.working_gpus_per_node)
            size = candidate.batch_size if profile.effective_batch_size is not None else None
            needed = (id(profile), size, workers, vm_type.gpu is None, gib)
            if needed not in self._memory:
                others = self._predictor.profiles
                self._memory[needed] = memory_fit(profile, vm_type, batch_size=size, gpus=workers, others=others)
            self._memory_by_prediction[key] = self._memory[needed]
        return self._memory_by_prediction[key]

    def _results(self, profile: Profile) -> float | None:
        """The GiB that are copied home at the end: what the user says, or the size of a checkpoint."""
        if id(profile) not in self._results_gib:
            stated = self._charges.overheads.results_gib
            size = checkpoint_bytes(profile) if stated is None else stated * BYTES_PER_GIB
            self._results_gib[id(profile)] = None if size is None else size / BYTES_PER_GIB
        return self._results_gib[id(profile)]

    def _bill(self, parts: _Parts) -> Bill:
        return bill(
            parts.timing.phases,
            parts.timing.seconds,
            parts.candidate,
            terms=parts.rental.terms,
            overheads=self._charges.overheads,
            results_gib=self._results(parts.prediction.profile),
        )

    def _explained(self, parts: _Parts, training: TrainingWork) -> Timing:
        """The timing with the explanation of each phase."""
        phases = with_calculations(
            parts.timing,
            parts.prediction,
            checkpoints=_checkpoints(parts.prediction.profile, training),
            iterations_per_epoch=training.iterations_per_epoch,
            epochs=training.epochs,
            nodes=parts.candidate.nodes,
            interruptions_per_hour=parts.rental.interruptions_per_hour,
        )
        return parts.timing._replace(phases=tuple(phases))


class _Timings:
    """The times of one training by prediction, start, rate of interruptions and nodes."""

    def __init__(self, training: TrainingWork) -> None:
        self._training = training
        self._checkpoints: dict[int, Checkpoints] = {}
        self._programs: dict[int, ProgramTime] = {}
        self._timings: dict[tuple[int, int, float | None, int], Timing] = {}

    def timing(self, prediction: StepTimePrediction, rental: Rental, nodes: int) -> Timing:
        start, per_hour = rental.start, rental.interruptions_per_hour
        key = (id(prediction), id(start), None if per_hour is None else per_hour.value, nodes)
        found = self._timings.get(key)
        if found is None:
            program = self._programs.get(id(prediction))
            if program is None:
                program = self._programs[id(prediction)] = self._program_time(prediction)
            if per_hour is None:
                found = without_interruptions(start, program)
            else:
                found = with_interruptions(start, program, per_hour=per_hour, nodes=nodes)
            self._timings[key] = found
        return found

    def _program_time(self, prediction: StepTimePrediction) -> ProgramTime:
        training, profile = self._training, prediction.profile
        checkpoints = self._checkpoints.get(id(profile))
        if checkpoints is None:
            checkpoints = self._checkpoints[id(profile)] = _checkpoints(profile, training)
        return program_time(
            prediction.times,
            checkpoints,
            iterations_per_epoch=training.iterations_per_epoch,
            epochs=training.epochs,
            epochs_interval=training.epochs_interval,
        )


def _checkpoints(profile: Profile, training: TrainingWork) -> Checkpoints:
    return checkpoints_of(profile, iterations_per_epoch=max(1, round(training.iterations_per_epoch)))

"""Estimates of candidates: Malta's equation 5.3 and everything else that is paid for.

`prediction/predictor.py` predicts the time of an iteration. Boot and setup, checkpoints and, on spot, the cost of
interruptions are added by `cost/timing.py`, and `cost/bill.py` charges the sum.

Thousands of candidates are compared at once, and few of them are ever read: `totals` computes only their time and cost,
`unbilled` makes Estimates of them, and `details` adds the bill and the calculation of each phase. Whatever several
candidates or several variants of one training share is computed once: the terms of an offer, the memory that is needed,
the time of a prediction on one market.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from trainfare.estimator.cost.bill import UNROUNDED_BILLING, ChargeRate, Charges, bill, charge_rate, starting_phases
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.cost.timing import (
    STARTUP_PHASES,
    MachineStart,
    ProgramTime,
    SpotProgram,
    Timing,
    program_time,
    with_interruptions,
    without_interruptions,
)
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.phase_calculations import with_calculations
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Bill, Terms
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

__all__ = ["STARTUP_PHASES", "CandidateEstimator", "Totals", "TrainingWork", "estimate_all", "estimate_unbilled"]

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

    @property
    def iterations(self) -> int:
        return round(self.iterations_per_epoch * self.epochs)

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs)
        if not self.iterations_per_epoch >= 1:
            raise ValueError(f"iterations_per_epoch must be at least 1, got {self.iterations_per_epoch}")


class Rental(NamedTuple):
    """The terms of an offer, whatever it is used for."""

    terms: Terms
    start: MachineStart
    interruptions_per_hour: Interval | None
    """The interruptions; None if the machine is not on spot."""


class Totals(NamedTuple):
    """The time and cost of a candidate, and what an Estimate of it is made from."""

    candidate: Candidate
    seconds: Interval
    usd: Interval
    memory: MemoryFit | None
    work: TrainingWork
    prediction: StepTimePrediction
    rental: Rental
    timing: Timing

    @property
    def epochs(self) -> int:
        return self.work.epochs

    @property
    def fits(self) -> bool | None:
        """False if it does not fit in memory; None if that is not known."""
        return None if self.memory is None else self.memory.verdict != "does not fit"

    @property
    def interruptions(self) -> Interval | None:
        return self.timing.interruptions


def estimate_all(
    predictor: StepTimePredictor,
    candidates: Iterable[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PRICE_ONLY,
) -> tuple[Estimate, ...]:
    """Estimates with bills of the candidates that the profiles say anything about, for one training."""
    work = TrainingWork(iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval)
    return CandidateEstimator(predictor, charges).details(candidates, work)


def estimate_unbilled(
    predictor: StepTimePredictor,
    candidates: Iterable[Candidate],
    *,
    iterations_per_epoch: float,
    epochs: int,
    epochs_interval: Interval | None = None,
    charges: Charges = PRICE_ONLY,
) -> tuple[Estimate, ...]:
    """The same times, phases and costs, without the bills and the calculations of the phases."""
    work = TrainingWork(iterations_per_epoch=iterations_per_epoch, epochs=epochs, epochs_interval=epochs_interval)
    return CandidateEstimator(predictor, charges).unbilled(candidates, work)


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
        self._rates: dict[tuple[int, int, int], ChargeRate] = {}
        self._memory_by_prediction: dict[tuple[int, float | None], MemoryFit | None] = {}
        self._memory: dict[tuple[object, ...], MemoryFit | None] = {}
        self._results_gib: dict[int, float | None] = {}
        self._timings: dict[TrainingWork, _Timings] = {}

    def totals(self, candidates: Iterable[Candidate], work: TrainingWork) -> Iterator[Totals]:
        """The time and cost of the candidates that the profiles say anything about."""
        timings = self._timings.get(work)
        if timings is None:
            timings = self._timings[work] = _Timings(work)
        predict = self._predictor.predict
        predicted: list[tuple[Candidate, StepTimePrediction, Rental]] = []
        for candidate in candidates:
            offer = candidate.offer
            prediction = predict(
                offer.vm_type,
                nodes=candidate.nodes,
                gpus=candidate.working_gpus_per_node,
                batch_size=candidate.batch_size,
            )
            if prediction is not None:
                predicted.append((candidate, prediction, self._rentals.get(id(offer)) or self._resolve(offer)))
        timings.compute_spot((prediction, rental, candidate.nodes) for candidate, prediction, rental in predicted)
        for candidate, prediction, rental in predicted:
            nodes, profile = candidate.nodes, prediction.iteration.profile
            timing = timings.timing(prediction, rental, nodes)
            key = (id(candidate.offer), nodes, id(profile))
            rate = self._rates.get(key) or self._rate(candidate, rental.terms, profile)
            memory = self._memory_fit(prediction, candidate)
            seconds = timing.seconds
            yield Totals(candidate, seconds, rate.charge(seconds), memory, work, prediction, rental, timing)

    def unbilled(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates without bills."""
        return tuple(map(_estimate, self.totals(candidates, work)))

    def unrounded(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates without bills, without rounding of the billed time and without a minimum charge: straight lines in
        the number of epochs on all markets but spot."""
        found = []
        for totals in self.totals(candidates, work):
            terms = replace(totals.rental.terms, billing=UNROUNDED_BILLING)
            rate = self._new_rate(totals.candidate, terms, totals.prediction.profile)
            found.append(_estimate(totals._replace(usd=rate.charge(totals.seconds))))
        return tuple(found)

    def details(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates with bills, and with phases that have their calculations."""
        calculated: dict[int, tuple[Phase, ...]] = {}
        bills: dict[tuple[object, ...], Bill] = {}  # a machine often has one price in many regions
        found = []
        for totals in self.totals(candidates, work):
            timing = id(totals.timing)
            phases = calculated.get(timing)
            if phases is None:
                phases = calculated[timing] = _calculated_phases(totals)
            offer = totals.candidate.offer
            key = (timing, offer.vm_type.gpus, offer.usd_per_hour, offer.seen_on, offer.commitment)
            charged = bills.get(key)
            if charged is None:
                charged = bills[key] = self._bill(totals, phases)
            found.append(replace(_estimate(totals), phases=phases, usd=charged.usd, bill=charged))
        return tuple(found)

    def _resolve(self, offer: Offer) -> Rental:
        """The terms of an offer, resolved once."""
        charges = self._charges
        terms, own = charges.terms(offer), offer.market == "own"
        start = self._starts.get((terms.provider, own))
        if start is None:
            start = MachineStart.of(starting_phases(offer, terms, charges.overheads))
            self._starts[terms.provider, own] = start
        per_hour = charges.interruptions(offer).per_hour if offer.market == "spot" else None
        rental = self._rentals[id(offer)] = Rental(terms, start, per_hour)
        self._offers.append(offer)
        return rental

    def _rate(self, candidate: Candidate, terms: Terms, profile: Profile) -> ChargeRate:
        """The charge rate of an offer and a number of nodes, which all batch sizes share."""
        key = (id(candidate.offer), candidate.nodes, id(profile))
        rate = self._rates[key] = self._new_rate(candidate, terms, profile)
        return rate

    def _new_rate(self, candidate: Candidate, terms: Terms, profile: Profile) -> ChargeRate:
        return charge_rate(
            candidate, terms=terms, overheads=self._charges.overheads, results_gib=self._results(profile)
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
            others = self._predictor.profiles
            ran_there = any(one.host.vm_type == vm_type.key for one in others)
            needed = (id(profile), size, workers, vm_type.gpu is None, gib, vm_type.key if ran_there else None)
            if needed not in self._memory:
                self._memory[needed] = memory_fit(profile, vm_type, batch_size=size, gpus=workers, others=others)
            fit = self._memory[needed]
            ran = prediction.iteration.basis == "measured"
            self._memory_by_prediction[key] = fit.of_a_run() if ran and fit is not None else fit
        return self._memory_by_prediction[key]

    def _results(self, profile: Profile) -> float | None:
        """The GiB that are copied home at the end: what the user says, or the size of a checkpoint."""
        if id(profile) not in self._results_gib:
            stated = self._charges.overheads.results_gib
            size = checkpoint_bytes(profile) if stated is None else stated * BYTES_PER_GIB
            self._results_gib[id(profile)] = None if size is None else size / BYTES_PER_GIB
        return self._results_gib[id(profile)]

    def _bill(self, totals: Totals, phases: tuple[Phase, ...]) -> Bill:
        return bill(
            phases,
            totals.seconds,
            totals.candidate,
            terms=totals.rental.terms,
            overheads=self._charges.overheads,
            results_gib=self._results(totals.prediction.profile),
        )


def _estimate(totals: Totals) -> Estimate:
    """The Estimate of these totals, without a bill."""
    iteration, timing, work = totals.prediction.iteration, totals.timing, totals.work
    return Estimate(
        candidate=totals.candidate,
        profile_id=iteration.profile.id,
        epochs=work.epochs,
        basis=iteration.basis,
        iteration_seconds=totals.prediction.times.later,
        phases=timing.phases(),
        seconds=totals.seconds,
        usd=totals.usd,
        limited_by=iteration.limited_by,
        memory=totals.memory,
        interruptions=timing.interruptions,
        checkpoint_every_seconds=timing.checkpoint_every_seconds,
        epochs_interval=work.epochs_interval,
        iterations=work.iterations,
        tokens_per_sample=iteration.profile.tokens_per_sample,
    )


def _calculated_phases(totals: Totals) -> tuple[Phase, ...]:
    """The phases with their calculations in words."""
    work = totals.work
    return tuple(
        with_calculations(
            totals.timing,
            totals.prediction,
            iterations_per_epoch=work.iterations_per_epoch,
            epochs=work.epochs,
            nodes=totals.candidate.nodes,
            interruptions_per_hour=totals.rental.interruptions_per_hour,
        )
    )


_TimingKey = tuple[int, int, float | None, int]
"""The identities of prediction and start, the rate of interruptions, and the nodes."""


class _Timings:
    """The times of one training by prediction, start, rate of interruptions and nodes."""

    def __init__(self, work: TrainingWork) -> None:
        self._work = work
        self._checkpoints: dict[int, Checkpoints] = {}
        self._programs: dict[int, ProgramTime] = {}
        self._timings: dict[_TimingKey, Timing] = {}

    def compute_spot(self, candidates: Iterable[tuple[StepTimePrediction, Rental, int]]) -> None:
        """Compute the times of all spot candidates that are not known yet: together they are much faster."""
        missing: dict[_TimingKey, SpotProgram] = {}
        for prediction, rental, nodes in candidates:
            per_hour = rental.interruptions_per_hour
            if per_hour is not None:
                key = (id(prediction), id(rental.start), per_hour.value, nodes)
                if key not in self._timings and key not in missing:
                    missing[key] = SpotProgram(rental.start, self._program(prediction), per_hour, nodes)
        if missing:
            self._timings.update(zip(missing, with_interruptions(list(missing.values())), strict=True))

    def timing(self, prediction: StepTimePrediction, rental: Rental, nodes: int) -> Timing:
        """The time of a candidate; on spot, it was computed before."""
        start, per_hour = rental.start, rental.interruptions_per_hour
        key = (id(prediction), id(start), None if per_hour is None else per_hour.value, nodes)
        found = self._timings.get(key)
        if found is None:
            found = self._timings[key] = without_interruptions(start, self._program(prediction))
        return found

    def _program(self, prediction: StepTimePrediction) -> ProgramTime:
        found = self._programs.get(id(prediction))
        if found is None:
            found = self._programs[id(prediction)] = self._program_time(prediction)
        return found

    def _program_time(self, prediction: StepTimePrediction) -> ProgramTime:
        work, profile = self._work, prediction.profile
        checkpoints = self._checkpoints.get(id(profile))
        if checkpoints is None:
            per_epoch = max(1, round(work.iterations_per_epoch))
            checkpoints = self._checkpoints[id(profile)] = checkpoints_of(profile, iterations_per_epoch=per_epoch)
        return program_time(
            prediction.times,
            checkpoints,
            iterations_per_epoch=work.iterations_per_epoch,
            epochs=work.epochs,
            epochs_interval=work.epochs_interval,
        )

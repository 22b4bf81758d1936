"""Estimates of candidates: Malta's equation 5.3 and everything else that is paid for.

`prediction/predictor.py` predicts the time of an iteration. Boot and setup, checkpoints and, on spot, the cost of
interruptions are added by `cost/timing.py`, and `cost/bill.py` charges the sum.

Thousands of candidates are compared at once, and few of them are ever read: an TotalsTable has their time and cost in
columns, and makes the Estimate of a row, its phases and its bill, when it is asked for. Whatever several candidates or
several variants of one training share is computed once: the terms of an offer, the memory that is needed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from trainfare.estimator.cost.bill import ChargeRate, Charges, bill, charge_rate, starting_phases
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.cost.interruptions import ValueRange
from trainfare.estimator.cost.timing import STARTUP_PHASES, MachineStart, PaidTraining, ProgramTimes, Timings
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.phase_calculations import with_calculations
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import PredictedTimes, StepTimePredictor
from trainfare.model.bill import Bill, Terms
from trainfare.model.checks import require_positive
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

if TYPE_CHECKING:
    from trainfare.estimator.cost.timing import Range

__all__ = [
    "STARTUP_PHASES",
    "CandidateEstimator",
    "Totals",
    "TotalsTable",
    "TrainingWork",
    "estimate_all",
    "estimate_unbilled",
]

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
    """The time and cost of a candidate, and the row of the table that the rest of its Estimate is read from."""

    candidate: Candidate
    seconds: Interval
    usd: Interval
    memory: MemoryFit | None
    table: "TotalsTable"
    row: int

    @property
    def epochs(self) -> int:
        return self.table.work.epochs

    @property
    def fits(self) -> bool | None:
        """False if it does not fit in memory; None if that is not known."""
        return None if self.memory is None else self.memory.verdict != "does not fit"

    @property
    def interruptions(self) -> Interval | None:
        return self.table.timings.at(self.row).interruptions


class _Row(NamedTuple):
    """A candidate with everything that its time and cost are computed from."""

    candidate: Candidate
    predicted: PredictedTimes
    memory: MemoryFit | None
    rental: Rental
    rate: ChargeRate


class TotalsTable:
    """The time and cost of candidates for one training, in columns with one row per candidate."""

    def __init__(
        self,
        work: TrainingWork,
        rows: Sequence[_Row],
        timings: Timings,
        usd: "Range",
        predict: Callable[[Candidate], StepTimePrediction],
    ) -> None:
        self.work = work
        self.predict = predict
        """The whole prediction of a candidate, of which only the times are in the table."""
        self.timings = timings
        self.seconds = timings.seconds
        self.usd = usd
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def totals(self) -> Iterator[Totals]:
        """The time and cost of each candidate."""
        intervals = zip(_intervals(self.seconds), _intervals(self.usd), strict=True)
        for number, (row, (seconds, usd)) in enumerate(zip(self.rows, intervals, strict=True)):
            yield Totals(row.candidate, seconds, usd, row.memory, self, number)

    def estimates(self) -> Iterator[Estimate]:
        """The Estimate of each candidate, without a bill."""
        work = self.work
        for totals, row in zip(self.totals(), self.rows, strict=True):
            prediction, timing = self.predict(row.candidate), self.timings.at(totals.row)
            iteration = prediction.iteration
            yield Estimate(
                candidate=row.candidate,
                profile_id=iteration.profile.id,
                epochs=work.epochs,
                basis=iteration.basis,
                iteration_seconds=prediction.times.later,
                phases=timing.phases,
                seconds=totals.seconds,
                usd=totals.usd,
                limited_by=iteration.limited_by,
                memory=row.memory,
                interruptions=timing.interruptions,
                checkpoint_every_seconds=timing.checkpoint_every_seconds,
                epochs_interval=work.epochs_interval,
                iterations=work.iterations,
                tokens_per_sample=iteration.profile.tokens_per_sample,
            )


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
        self._rentals: dict[int, tuple[Offer, Rental]] = {}
        self._starts: dict[tuple[str, bool], MachineStart] = {}
        self._rates: dict[tuple[int, int, int], ChargeRate] = {}
        self._predictions: dict[tuple[object, ...], _Predicted] = {}
        self._memory: dict[tuple[object, ...], MemoryFit | None] = {}
        self._profiled_machines = {profile.host.vm_type for profile in predictor.profiles}
        self._results_gib: dict[int, float | None] = {}

    def table(self, candidates: Iterable[Candidate], work: TrainingWork, *, unrounded: bool = False) -> TotalsTable:
        """The time and cost of the candidates that the profiles say anything about."""
        import numpy as np

        rows = list(self._rows(candidates))
        programs = _programs((row.predicted for row in rows), work)
        timings = Timings(
            [
                PaidTraining(rental.start, programs[id(predicted)], rental.interruptions_per_hour, candidate.nodes)
                for candidate, predicted, _, rental, _ in rows
            ],
            iterations_per_epoch=work.iterations_per_epoch,
            epochs=work.epochs,
            epochs_interval=work.epochs_interval,
        )
        rate = ChargeRate(*np.array([row.rate for row in rows], dtype=np.float64).reshape(-1, 5).T)
        usd = (rate.unrounded() if unrounded else rate).charge(timings.seconds)
        return TotalsTable(work, rows, timings, ValueRange(*map(np.asarray, usd)), self._whole_prediction)

    def _rows(self, candidates: Iterable[Candidate]) -> Iterator[_Row]:
        for candidate in candidates:
            offer, nodes = candidate.offer, candidate.nodes
            key = (id(offer.vm_type), nodes, candidate.gpus_used, candidate.batch_size)
            _, predicted, memory = self._predictions.get(key) or self._predict(key, candidate)
            if predicted is None:
                continue
            _, rental = self._rentals.get(id(offer)) or self._resolve(offer)
            profile = predicted.profile
            rate = self._rates.get((id(offer), nodes, id(profile))) or self._rate(candidate, rental.terms, profile)
            yield _Row(candidate, predicted, memory, rental, rate)

    def totals(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Totals, ...]:
        """Only their time and cost."""
        return tuple(self.table(candidates, work).totals())

    def unbilled(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates without bills."""
        return tuple(self.table(candidates, work).estimates())

    def unrounded(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates without bills, without rounding of the billed time and without a minimum charge: straight lines in
        the number of epochs on all markets but spot."""
        return tuple(self.table(candidates, work, unrounded=True).estimates())

    def details(self, candidates: Iterable[Candidate], work: TrainingWork) -> tuple[Estimate, ...]:
        """Estimates with bills, and with phases that have their calculations."""
        table = self.table(candidates, work)
        calculated: dict[tuple[object, ...], tuple[Phase, ...]] = {}
        bills: dict[tuple[object, ...], Bill] = {}  # a machine often has one price in many regions
        found = []
        for number, (row, estimate) in enumerate(zip(table.rows, table.estimates(), strict=True)):
            offer, rental = row.candidate.offer, row.rental
            timed = (id(row.predicted), id(rental.start), rental.interruptions_per_hour, row.candidate.nodes)
            if timed not in calculated:
                calculated[timed] = _calculated_phases(table, number)
            key = (*timed, offer.vm_type.gpus, offer.usd_per_hour, offer.seen_on, offer.commitment)
            if key not in bills:
                bills[key] = self._bill(row, calculated[timed], estimate.seconds)
            found.append(replace(estimate, phases=calculated[timed], usd=bills[key].usd, bill=bills[key]))
        return tuple(found)

    def _predict(self, key: tuple[object, ...], candidate: Candidate) -> "_Predicted":
        """The times and the memory of a machine, nodes and a batch size, which all its offers share."""
        predicted = self._predictor.times(candidate.offer.vm_type, **_shape(candidate))
        memory = None if predicted is None else self._memory_fit(predicted, candidate)
        found = self._predictions[key] = _Predicted(candidate.offer.vm_type, predicted, memory)
        return found

    def _whole_prediction(self, candidate: Candidate) -> StepTimePrediction:
        found = self._predictor.predict(candidate.offer.vm_type, **_shape(candidate))
        if found is None:
            raise ValueError("only candidates with a prediction are in a table")
        return found

    def _resolve(self, offer: Offer) -> tuple[Offer, Rental]:
        """The terms of an offer, resolved once."""
        charges = self._charges
        terms, own = charges.terms(offer), offer.market == "own"
        start = self._starts.get((terms.provider, own))
        if start is None:
            start = MachineStart.of(starting_phases(offer, terms, charges.overheads))
            self._starts[terms.provider, own] = start
        per_hour = charges.interruptions(offer).per_hour if offer.market == "spot" else None
        found = self._rentals[id(offer)] = offer, Rental(terms, start, per_hour)
        return found

    def _rate(self, candidate: Candidate, terms: Terms, profile: Profile) -> ChargeRate:
        """The charge rate of an offer and a number of nodes, which all batch sizes share."""
        rate = self._rates[id(candidate.offer), candidate.nodes, id(profile)] = charge_rate(
            candidate, terms=terms, overheads=self._charges.overheads, results_gib=self._results(profile)
        )
        return rate

    def _memory_fit(self, predicted: PredictedTimes, candidate: Candidate) -> MemoryFit | None:
        """The memory fit; the need is computed once for one batch size on one number of GPUs, whatever their memory."""
        vm_type, profile, others = candidate.offer.vm_type, predicted.profile, self._predictor.profiles
        gib = vm_type.memory_gib if vm_type.gpu is None else vm_type.gpu.memory_gib
        if gib is None:
            return None
        workers = max(1, candidate.nodes * candidate.working_gpus_per_node)
        size = candidate.batch_size if profile.effective_batch_size is not None else None
        ran_there = vm_type.key if vm_type.key in self._profiled_machines else None
        needed = (id(profile), size, workers, vm_type.gpu is None, ran_there)
        if needed not in self._memory:
            self._memory[needed] = memory_fit(profile, vm_type, batch_size=size, gpus=workers, others=others)
        fit = self._memory[needed]
        if fit is None:
            return None
        if fit.available_gib != gib:
            fit = MemoryFit(needed_gib=fit.needed_gib, available_gib=gib)
        return fit.of_a_run() if predicted.basis == "measured" else fit

    def _results(self, profile: Profile) -> float | None:
        """The GiB that are copied home at the end: what the user says, or the size of a checkpoint."""
        if id(profile) not in self._results_gib:
            stated = self._charges.overheads.results_gib
            size = checkpoint_bytes(profile) if stated is None else stated * BYTES_PER_GIB
            self._results_gib[id(profile)] = None if size is None else size / BYTES_PER_GIB
        return self._results_gib[id(profile)]

    def _bill(self, row: _Row, phases: tuple[Phase, ...], seconds: Interval) -> Bill:
        return bill(
            phases,
            seconds,
            row.candidate,
            terms=row.rental.terms,
            overheads=self._charges.overheads,
            results_gib=self._results(row.predicted.profile),
        )


class _Predicted(NamedTuple):
    """The times on a machine and the memory that it needs there; it keeps the machine whose identity is a key."""

    vm_type: VmType
    times: PredictedTimes | None
    memory: MemoryFit | None


def _calculated_phases(table: TotalsTable, number: int) -> tuple[Phase, ...]:
    """The phases of a row with their calculations in words."""
    row, work = table.rows[number], table.work
    return tuple(
        with_calculations(
            table.timings.at(number),
            table.predict(row.candidate),
            iterations_per_epoch=work.iterations_per_epoch,
            epochs=work.epochs,
            nodes=row.candidate.nodes,
            interruptions_per_hour=row.rental.interruptions_per_hour,
        )
    )


class _Shape(TypedDict):
    nodes: int
    gpus: int
    batch_size: int | None


def _shape(candidate: Candidate) -> _Shape:
    return {"nodes": candidate.nodes, "gpus": candidate.working_gpus_per_node, "batch_size": candidate.batch_size}


def _programs(predictions: Iterable[PredictedTimes], work: TrainingWork) -> dict[int, ProgramTimes]:
    """The programs of one training, by the identity of their predicted times."""
    per_epoch = max(1, round(work.iterations_per_epoch))
    checkpoints: dict[int, Checkpoints] = {}
    programs: dict[int, ProgramTimes] = {}
    for predicted in predictions:
        if id(predicted) not in programs:
            profile = predicted.profile
            if id(profile) not in checkpoints:
                checkpoints[id(profile)] = checkpoints_of(profile, iterations_per_epoch=per_epoch)
            programs[id(predicted)] = ProgramTimes(predicted.times, checkpoints[id(profile)])
    return programs


def _intervals(ends: "Range") -> Iterator[Interval]:
    for value, low, high in zip(ends.value.tolist(), ends.low.tolist(), ends.high.tolist(), strict=True):
        yield Interval(value=value, low=low, high=high)

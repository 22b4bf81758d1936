"""Estimates of candidates: Malta's equation 5.3 and everything else that is paid for.

`prediction/predictor.py` predicts the time of an iteration. Boot and setup, checkpoints and, on spot, the cost of
interruptions are added by `cost/timing.py`, and `cost/bill.py` charges the sum.

Thousands of candidates are compared at once, and few of them are ever read: a TotalsTable has their time and cost in
columns, and makes the Estimate of a row, its phases and its bill, when it is asked for. Whatever several candidates or
several variants of one training share is computed once: the terms of an offer, the memory that is needed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainfare.estimator.columns import Repeated, present
from trainfare.estimator.cost.bill import ChargeRate, Charges, bill, charge_rate, starting_phases
from trainfare.estimator.cost.checkpoints import Checkpoints, checkpoint_bytes, checkpoints_of
from trainfare.estimator.cost.interruptions import ValueRange
from trainfare.estimator.cost.timing import (
    STARTUP_PHASES,
    MachineStart,
    PaidTrainings,
    Timings,
    TrainingWork,
    interval_at,
)
from trainfare.estimator.memory import memory_fit
from trainfare.estimator.phase_calculations import with_calculations
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predicted_times import MachineShape, MachineTimes
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Terms
from trainfare.model.estimate import Estimate, MemoryFit
from trainfare.model.interval import Interval, upper_bounds
from trainfare.model.machine import VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.profile import Profile
from trainfare.units import BYTES_PER_GIB

if TYPE_CHECKING:
    from numpy import bool_
    from numpy.typing import NDArray

    from trainfare.estimator.cost.interruptions import Floats
    from trainfare.estimator.cost.timing import Range

    Mask = NDArray[bool_]

__all__ = [
    "STARTUP_PHASES",
    "CandidateEstimator",
    "Totals",
    "TotalsTable",
    "TrainingWork",
    "estimate_all",
    "estimate_unbilled",
]

WorkAt = Callable[[int | None], TrainingWork]
"""The length of the training at a batch size."""
PRICE_ONLY = Charges()
"""Price × time, without boot, setup, storage and egress."""


class Rental(NamedTuple):
    """The terms of an offer, whatever it is used for."""

    terms: Terms
    start: MachineStart
    interruptions_per_hour: Interval | None
    """The interruptions; None if the machine is not on spot."""


class Totals(NamedTuple):
    """The time and cost of a candidate: a row of a table, whose numbers are read when they are asked for."""

    table: "TotalsTable"
    row: int

    @property
    def candidate(self) -> Candidate:
        return self.table.candidates[self.row]

    @property
    def seconds(self) -> Interval:
        return interval_at(self.table.timings.seconds, self.row)

    @property
    def usd(self) -> Interval:
        return interval_at(self.table.usd, self.row)

    @property
    def memory(self) -> MemoryFit | None:
        return self.table.memory[self.row]

    @property
    def fits(self) -> bool | None:
        """False if it does not fit in memory; None if that is not known."""
        return None if self.memory is None else self.memory.verdict != "does not fit"

    @property
    def epochs(self) -> int:
        return self.table.works[self.row].epochs

    @property
    def interruptions(self) -> Interval | None:
        return self.table.timings.interruptions(self.row)


class TotalsTable:
    """The time and cost of candidates, in columns with one row per candidate."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        offers: Repeated[Offer],
        rentals: Repeated[Rental],
        memory: Repeated[MemoryFit | None],
        works: Repeated[TrainingWork],
        timings: Timings,
        usd: "Range",
        predict: Callable[[Candidate], StepTimePrediction],
    ) -> None:
        self.candidates = candidates
        self.offers, self.offer_rows = offers.objects, offers.rows
        self.rentals, self.memory, self.works = rentals, memory, works
        self.timings = timings
        self.usd = usd
        self.predict = predict
        """The whole prediction of a candidate, of which only the times are in the table."""
        self._upper_bounds: dict[tuple[str, float], Floats] = {}

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, row: int) -> Totals:
        return Totals(self, row)

    def __iter__(self) -> Iterator[Totals]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def fits(self) -> "Mask":
        """False if it does not fit in memory."""
        import numpy as np

        does_not_fit = [fit is not None and fit.verdict == "does not fit" for fit in self.memory.objects]
        return np.logical_not(does_not_fit)[self.memory.rows]

    def values(self, quantity: Literal["seconds", "usd"]) -> "Floats":
        """The expected times or costs."""
        return self._range(quantity).value

    def upper_bounds(self, quantity: Literal["seconds", "usd"], confidence: float) -> "Floats":
        """`Interval.upper_bound` of the times or costs."""
        import numpy as np

        known = self._upper_bounds.get((quantity, confidence))
        if known is None:
            ends = self._range(quantity)
            known = np.array(upper_bounds(ends.value.tolist(), ends.high.tolist(), confidence))
            self._upper_bounds[quantity, confidence] = known
        return known

    def _range(self, quantity: Literal["seconds", "usd"]) -> "Range":
        return self.timings.seconds if quantity == "seconds" else self.usd

    def estimates(self) -> Iterator[Estimate]:
        """The Estimate of each candidate, without a bill."""
        for row, candidate in enumerate(self.candidates):
            prediction, timing, work = self.predict(candidate), self.timings.at(row), self.works[row]
            iteration = prediction.iteration
            yield Estimate(
                candidate=candidate,
                profile_id=iteration.profile.id,
                epochs=work.epochs,
                basis=iteration.basis,
                iteration_seconds=prediction.times.later,
                phases=timing.phases,
                seconds=interval_at(self.timings.seconds, row),
                usd=interval_at(self.usd, row),
                limited_by=iteration.limited_by,
                memory=self.memory[row],
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
    return CandidateEstimator(predictor, charges).details(candidates, lambda _: work)


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
    return CandidateEstimator(predictor, charges).unbilled(candidates, lambda _: work)


class CandidateEstimator:
    """Estimates many candidates for several variants of a training.

    Predictions, profiles and offers live as long as the predictor and the catalog, so the caches here are keyed by
    their identity, which is much faster than comparing their contents.
    """

    def __init__(self, predictor: StepTimePredictor, charges: Charges = PRICE_ONLY) -> None:
        self._predictor = predictor
        self._charges = charges
        self._rentals: dict[int, tuple[Offer, Rental]] = {}
        self._starts: dict[tuple[str, bool, int], MachineStart] = {}
        self._needs: dict[tuple[object, ...], MemoryFit | None] = {}
        self._memory: dict[tuple[object, ...], MemoryFit | None] = {}
        self._profiled_machines = {profile.host.vm_type for profile in predictor.profiles} - {None}
        self._results_gib: dict[int, float | None] = {}

    def table(self, candidates: Iterable[Candidate], work_at: WorkAt, *, unrounded: bool = False) -> TotalsTable:
        """The time and cost of the candidates that the profiles say anything about."""
        import numpy as np

        asked = list(candidates)
        vm_types = Repeated.of(candidate.offer.vm_type for candidate in asked)
        alike = Repeated.of(vm_types.objects, self._alike).rows[vm_types.rows].tolist()
        keys = [(kind, c.nodes, c.gpus_used, c.batch_size) for kind, c in zip(alike, asked, strict=True)]
        shapes = Repeated.with_keys(asked, keys).map(_shape)
        found = self._predictor.times(shapes.objects)
        memory = [times and self._memory_fit(shape, times) for shape, times in zip(shapes.objects, found, strict=True)]
        times, places = present(shapes.replaced(found))
        asked, shapes = [asked[place] for place in places.tolist()], shapes.take(places)
        offers = Repeated.of(candidate.offer for candidate in asked)
        rentals, profiles = offers.map(self._rental), times.map(lambda each: each.profile)
        nodes, works = shapes.map(lambda shape: shape.nodes), shapes.map(lambda shape: shape.batch_size).map(work_at)
        timings = Timings(
            PaidTrainings(
                starts=rentals.map(lambda rental: rental.start),
                times=self._predictor.columns(times.objects).take(times.rows),
                checkpoints=profiles.paired(works).map(lambda pair: _checkpoints(*pair)),
                works=works,
                per_hour=rentals.map(lambda rental: rental.interruptions_per_hour),
                nodes=nodes.columns(lambda number: (number,), 1)[0],
            )
        )
        rates = offers.paired(nodes).paired(profiles).map(lambda pair: self._rate(*pair[0], pair[1]))
        rate = ChargeRate(*rates.columns(lambda each: tuple(map(float, each)), 5))
        usd = (rate.unrounded() if unrounded else rate).charge(timings.seconds)
        return TotalsTable(
            asked,
            offers=offers,
            rentals=rentals,
            memory=shapes.replaced(memory),
            works=works,
            timings=timings,
            usd=ValueRange(*map(np.asarray, usd)),
            predict=self._whole_prediction,
        )

    def unbilled(self, candidates: Iterable[Candidate], work_at: WorkAt) -> tuple[Estimate, ...]:
        """Estimates without bills."""
        return tuple(self.table(candidates, work_at).estimates())

    def details(self, candidates: Iterable[Candidate], work_at: WorkAt) -> tuple[Estimate, ...]:
        """Estimates with bills, and with phases that have their calculations."""
        table = self.table(candidates, work_at)
        return tuple(self._detailed(table, row, estimate) for row, estimate in enumerate(table.estimates()))

    def _detailed(self, table: TotalsTable, row: int, estimate: Estimate) -> Estimate:
        candidate, work, rental = estimate.candidate, table.works[row], table.rentals[row]
        prediction = table.predict(candidate)
        phases = tuple(
            with_calculations(
                table.timings.at(row),
                prediction,
                iterations_per_epoch=work.iterations_per_epoch,
                epochs=work.epochs,
                nodes=candidate.nodes,
                interruptions_per_hour=rental.interruptions_per_hour,
            )
        )
        found = bill(
            phases,
            estimate.seconds,
            candidate,
            terms=rental.terms,
            overheads=self._charges.overheads,
            results_gib=self._results(prediction.profile),
        )
        return replace(estimate, phases=phases, usd=found.usd, bill=found)

    def _whole_prediction(self, candidate: Candidate) -> StepTimePrediction:
        vm_type, nodes, gpus, batch_size = _shape(candidate)
        found = self._predictor.predict(vm_type, nodes=nodes, gpus=gpus, batch_size=batch_size)
        if found is None:
            raise ValueError("only candidates with a prediction are in a table")
        return found

    def _rental(self, offer: Offer) -> Rental:
        """The terms of an offer, resolved once."""
        known = self._rentals.get(id(offer))
        if known is not None:
            return known[1]
        charges = self._charges
        terms, own = charges.terms(offer), offer.market == "own"
        measured = id(terms) if terms.measured else 0  # machines of one provider share terms that were not measured
        start = self._starts.get((terms.provider, own, measured))
        if start is None:
            start = MachineStart.of(starting_phases(offer, terms, charges.overheads))
            self._starts[terms.provider, own, measured] = start
        per_hour = charges.interruptions(offer).per_hour if offer.market == "spot" else None
        rental = Rental(terms, start, per_hour)
        self._rentals[id(offer)] = offer, rental
        return rental

    def _rate(self, offer: Offer, nodes: int, profile: Profile) -> ChargeRate:
        """The charge rate of an offer and a number of nodes, which all batch sizes share."""
        return charge_rate(
            Candidate(offer=offer, nodes=nodes, batch_size=None),
            terms=self._rental(offer).terms,
            overheads=self._charges.overheads,
            results_gib=self._results(profile),
        )

    def _alike(self, vm_type: VmType) -> tuple[object, ...]:
        """Equal for machine types on which the program takes as long and fits as well."""
        ran_there = vm_type.key if vm_type.key in self._profiled_machines else None
        return (*self._predictor.alike(vm_type), ran_there)

    def _memory_fit(self, shape: MachineShape, times: MachineTimes) -> MemoryFit | None:
        """The memory fit; the need is computed once for one batch size on one number of GPUs, whatever their memory."""
        vm_type, profile, others = shape.vm_type, times.profile, self._predictor.profiles
        gib = vm_type.memory_gib if vm_type.gpu is None else vm_type.gpu.memory_gib
        if gib is None:
            return None
        workers = max(1, shape.nodes * shape.gpus)
        size = shape.batch_size if profile.effective_batch_size is not None else None
        profiled = self._profiled_machines
        ran_there = vm_type.key if profiled and vm_type.key in profiled else None
        need = (id(profile), size, workers, vm_type.gpu is None, ran_there)
        key = (need, gib, times.basis == "measured")
        if key not in self._memory:
            if need not in self._needs:
                self._needs[need] = memory_fit(profile, vm_type, batch_size=size, gpus=workers, others=others)
            fit = self._needs[need]
            if fit is not None and fit.available_gib != gib:
                fit = MemoryFit(needed_gib=fit.needed_gib, available_gib=gib)
            self._memory[key] = fit.of_a_run() if fit is not None and times.basis == "measured" else fit
        return self._memory[key]

    def _results(self, profile: Profile) -> float | None:
        """The GiB that are copied home at the end: what the user says, or the size of a checkpoint."""
        if id(profile) not in self._results_gib:
            stated = self._charges.overheads.results_gib
            size = checkpoint_bytes(profile) if stated is None else stated * BYTES_PER_GIB
            self._results_gib[id(profile)] = None if size is None else size / BYTES_PER_GIB
        return self._results_gib[id(profile)]


def _shape(candidate: Candidate) -> MachineShape:
    return MachineShape(candidate.offer.vm_type, candidate.nodes, candidate.working_gpus_per_node, candidate.batch_size)


def _checkpoints(profile: Profile, work: TrainingWork) -> Checkpoints:
    return checkpoints_of(profile, iterations_per_epoch=max(1, round(work.iterations_per_epoch)))

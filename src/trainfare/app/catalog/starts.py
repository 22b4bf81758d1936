"""Start-up times for estimates, from the user's own runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from trainfare.errors import StoreError
from trainfare.estimator.cost.bill import SETUP_SECONDS
from trainfare.estimator.cost.start_times import StartTime, Transfer, predict_boot, predict_for_program
from trainfare.estimator.cost.transfer_rates import bytes_per_second, times_for_program
from trainfare.model.bill import Billing, MeasuredStart, Terms
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.model.program import Program
from trainfare.model.run import Run
from trainfare.runner.observed import AttemptTimes, TransferTime, attempts_of
from trainfare.store.history import History

NEWEST_RUNS = 20
"""Older runs are not read: the machines, the networks and the programs of today count, and each takes 2 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStarts:
    """The times of the user's runs that their programs did not take, each with its machine and its program."""

    boot: tuple[StartTime, ...] = ()
    setup: tuple[StartTime, ...] = ()
    collecting: tuple[StartTime, ...] = ()
    sent: tuple[Transfer, ...] = ()
    fetched: tuple[Transfer, ...] = ()
    """Results and checkpoints."""

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(sorted({time.machine for time in (*self.boot, *self.setup, *self.collecting)}))

    @property
    def providers(self) -> frozenset[str]:
        return frozenset(machine.partition("/")[0] for machine in self.machines)


NO_STARTS = ObservedStarts()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStarts:
    """The start-up times of one machine, for a program that has not run on it."""

    machine: str
    measured: MeasuredStart
    rates: Mapping[str, float] = field(default_factory=dict)
    """The bytes a second at which files are `sent` to it and `fetched` from it, as far as they are known."""


def starts_by_machine(starts: ObservedStarts) -> tuple[MachineStarts, ...]:
    """The start-up times of each machine that runs were on, without assumptions."""
    return tuple(
        MachineStarts(
            machine=machine,
            measured=measured_start(starts, machine, _NEW_PROGRAM, _UNKNOWN),
            rates={
                name: rate
                for name, transfers in (("sent", starts.sent), ("fetched", starts.fetched))
                if (rate := bytes_per_second(transfers, machine)) is not None
            },
        )
        for machine in starts.machines
    )


def observed_starts(history: History) -> ObservedStarts:
    """The start-up times of the newest runs that have ended. Damaged ones are left out."""
    found: dict[str, list[StartTime]] = {"boot": [], "setup": [], "collecting": []}
    sent: list[Transfer] = []
    fetched: list[Transfer] = []
    for run, attempt in _ended_attempts(history):
        for name, seconds, transfer in (
            ("boot", attempt.boot_seconds, None),
            ("setup", attempt.setup_seconds, _transfer(attempt, attempt.sent)),
            ("collecting", attempt.collecting_seconds, _transfer(attempt, attempt.collected)),
        ):
            if seconds:  # none if the clock at home was set meanwhile
                key = program_key(run.program)
                found[name].append(StartTime(machine=attempt.machine, program=key, seconds=seconds, transfer=transfer))
        sent += filter(None, [_transfer(attempt, attempt.sent)])
        fetched += filter(None, [_transfer(attempt, each) for each in (attempt.collected, *attempt.checkpoints)])
    times = {name: tuple(times) for name, times in found.items()}
    return ObservedStarts(**times, sent=tuple(sent), fetched=tuple(fetched))


def _transfer(attempt: AttemptTimes, files: TransferTime | None) -> Transfer | None:
    return None if files is None else Transfer(machine=attempt.machine, bytes=files.bytes, seconds=files.seconds)


def program_key(program: Program) -> str:
    return " ".join(program.command)


def terms_with_starts(
    find_terms: Callable[[Offer], Terms], starts: ObservedStarts, program: str
) -> Callable[[Offer], Terms]:
    """The terms of offers, with the start-up times of a program that runs have measured."""
    if not starts.machines:
        return find_terms
    known: dict[tuple[str, str, bool], Terms] = {}
    measured_machines, providers = frozenset(starts.machines), starts.providers

    def find(offer: Offer) -> Terms:
        machine, provider = offer.vm_type.key, offer.vm_type.provider
        terms = find_terms(offer)
        if provider not in providers:
            return terms
        key = (machine if machine in measured_machines else provider, terms.provider, offer.market == "own")
        if key not in known:
            known[key] = replace(terms, measured=measured_start(starts, machine, program, terms))
        return known[key]

    return find


def measured_start(starts: ObservedStarts, machine: str, program: str, terms: Terms) -> MeasuredStart:
    """The start-up times of a program on a machine."""
    own = not terms.boot_seconds.high
    nothing = Interval.exactly(0.0)
    return MeasuredStart(
        boot=predict_boot(starts.boot, machine, assumed=terms.boot_seconds),
        setup=predict_for_program(
            times_for_program(starts.setup, starts.sent, machine, program),
            machine,
            program,
            assumed=nothing if own else SETUP_SECONDS,
        ),
        collecting=predict_for_program(
            times_for_program(starts.collecting, starts.fetched, machine, program), machine, program, assumed=nothing
        ),
    )


_NEW_PROGRAM = "\0"
_UNKNOWN = Terms(provider="unknown", billing=Billing(), boot_seconds=Interval.exactly(0.0))


def _ended_attempts(history: History) -> Iterator[tuple[Run, AttemptTimes]]:
    for run_id in history.facts.ended_runs(limit=NEWEST_RUNS):
        with suppress(StoreError):  # the history reports it as damaged
            run, facts = history.runs.get(run_id), history.facts.of(run_id)
            seen = history.observations.of(run_id, kinds=("setup", "program"))
            for attempt in attempts_of(run, facts, seen):
                yield run, attempt
